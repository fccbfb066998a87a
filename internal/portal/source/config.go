package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"chaperone/internal/portal/item"
	"chaperone/internal/portal/tool"
)

// Config is the key `sources` of chaperone.yaml. The zero value is the embedded
// default: mail in a Maildir, hosted storage, nothing external.
type Config struct {
	Inbox    InboxConfig   `yaml:"inbox"`
	Storage  StorageConfig `yaml:"storage"`
	External []DAVConfig   `yaml:"external"`
}

// InboxConfig names the mailbox: the embedded Maildir, or an IMAP server.
type InboxConfig struct {
	Maildir string      `yaml:"maildir"` // directory; "" is mail below the home
	IMAP    *IMAPConfig `yaml:"imap"`    // instead of the Maildir
	LMTP    string      `yaml:"lmtp"`    // where mail for the Maildir is taken: unix:PATH or a loopback HOST:PORT; "" nowhere
}

// StorageConfig names the storage: the embedded one, or a bucket.
type StorageConfig struct {
	Blobs string    `yaml:"blobs"` // directory of content; "" is blobs below the home
	S3    *S3Config `yaml:"s3"`    // instead of the embedded one
}

// IMAPConfig is an IMAP server.
type IMAPConfig struct {
	Address string  `yaml:"address"` // HOST:PORT
	TLS     string  `yaml:"tls"`     // tls (default), starttls, or none for a loopback address
	CAFile  string  `yaml:"ca_file"` // PEM; "" is the system's
	Logins  []Login `yaml:"logins"`
}

// Ways to meet an IMAP server.
const (
	TLSAlways = "tls"
	TLSStart  = "starttls"
	TLSNone   = "none"
)

// S3Config is a bucket of an S3-compatible server.
type S3Config struct {
	Endpoint      string `yaml:"endpoint"` // https://HOST[:PORT]; http for a loopback address alone
	Region        string `yaml:"region"`   // default us-east-1
	Bucket        string `yaml:"bucket"`
	Prefix        string `yaml:"prefix"` // of all keys; default chaperone
	AccessKey     string `yaml:"access_key"`
	SecretKeyFile string `yaml:"secret_key_file"`
	CAFile        string `yaml:"ca_file"`
}

// DAVConfig is a collection of a WebDAV, CalDAV or CardDAV server.
type DAVConfig struct {
	Collection string  `yaml:"collection"` // its id in every account, e.g. calendar
	Title      string  `yaml:"title"`
	Kind       string  `yaml:"kind"` // webdav, caldav or carddav
	URL        string  `yaml:"url"`  // of the collection; https, or http for a loopback address
	CAFile     string  `yaml:"ca_file"`
	Logins     []Login `yaml:"logins"`
}

// Login is whose mailbox or collection it is. An account without one has none.
type Login struct {
	Actor        string `yaml:"actor"`         // a person's id, or * for everyone of this node
	Username     string `yaml:"username"`      // "" signs in nowhere (WebDAV alone)
	PasswordFile string `yaml:"password_file"` // its first line's text
	URL          string `yaml:"url"`           // of this person's collection, where it differs
}

// Kinds of source, as collections_list tells them and Open's map is keyed.
const (
	KindInbox    = "inbox"
	KindStorage  = "storage"
	KindExternal = "external"
)

// Validate refuses what can't be used. Its error names the key.
func (c Config) Validate() error {
	var all []error
	if c.Inbox.IMAP != nil {
		all = append(all, c.Inbox.IMAP.validate("sources.inbox.imap"))
		if c.Inbox.Maildir != "" || c.Inbox.LMTP != "" {
			all = append(all, errors.New("sources.inbox: imap stands alone, without maildir and lmtp"))
		}
	}
	if at := c.Inbox.LMTP; at != "" && !strings.HasPrefix(at, "unix:/") && !loopback(hostOf(at)) {
		all = append(all, errors.New("sources.inbox.lmtp: want unix:/PATH or a loopback HOST:PORT"))
	}
	if c.Storage.S3 != nil {
		all = append(all, c.Storage.S3.withDefaults().validate("sources.storage.s3"))
		if c.Storage.Blobs != "" {
			all = append(all, errors.New("sources.storage: s3 stands alone, without blobs"))
		}
	}
	var ids []string
	for i, e := range c.External {
		key := fmt.Sprintf("sources.external[%d]", i)
		if slices.Contains(ids, e.Collection) || e.Collection == "inbox" || e.Collection == "files" {
			all = append(all, fmt.Errorf("%s.collection: another collection has this id", key))
		}
		ids = append(ids, e.Collection)
		all = append(all, e.validate(key))
	}
	return errors.Join(all...)
}

func (c IMAPConfig) validate(key string) error {
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("%s.address: want HOST:PORT", key)
	}
	switch c.TLS {
	case "", TLSAlways, TLSStart:
	case TLSNone:
		if !loopback(host) {
			return fmt.Errorf("%s.tls: none is for a loopback address", key)
		}
	default:
		return fmt.Errorf("%s.tls: want tls, starttls or none", key)
	}
	return validLogins(key, c.Logins, true)
}

func (c S3Config) withDefaults() S3Config {
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	if c.Prefix == "" {
		c.Prefix = "chaperone"
	}
	return c
}

var (
	bucketName   = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	keyPrefix    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,3}$`)
	collectionID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
)

func (c S3Config) validate(key string) error {
	if err := validURL(key+".endpoint", c.Endpoint); err != nil {
		return err
	}
	switch {
	case !bucketName.MatchString(c.Bucket):
		return fmt.Errorf("%s.bucket: want a bucket's name", key)
	case !keyPrefix.MatchString(c.Prefix):
		return fmt.Errorf("%s.prefix: want words of letters, digits, _ and -, at most four, with / between", key)
	case c.AccessKey == "":
		return fmt.Errorf("%s.access_key: it is missing", key)
	case c.SecretKeyFile == "":
		return fmt.Errorf("%s.secret_key_file: it is missing", key)
	}
	return nil
}

func (c DAVConfig) validate(key string) error {
	if !collectionID.MatchString(c.Collection) {
		return fmt.Errorf("%s.collection: want %s", key, collectionID)
	}
	if !tool.Plain(c.Title) || len(c.Title) > 200 {
		return fmt.Errorf("%s.title: want at most 200 bytes of plain text", key)
	}
	if !slices.Contains([]string{"webdav", "caldav", "carddav"}, c.Kind) {
		return fmt.Errorf("%s.kind: want webdav, caldav or carddav", key)
	}
	if err := validLogins(key, c.Logins, false); err != nil {
		return err
	}
	for i, l := range c.Logins {
		if l.URL != "" {
			if err := validURL(fmt.Sprintf("%s.logins[%d].url", key, i), l.URL); err != nil {
				return err
			}
		} else if c.URL == "" {
			return fmt.Errorf("%s.url: it is missing, and logins[%d] has none of its own", key, i)
		}
	}
	if c.URL == "" {
		return nil
	}
	return validURL(key+".url", c.URL)
}

func validLogins(key string, all []Login, mail bool) error {
	if len(all) == 0 {
		return fmt.Errorf("%s.logins: it is empty, so nobody has this source", key)
	}
	var actors []string
	for i, l := range all {
		at := fmt.Sprintf("%s.logins[%d]", key, i)
		switch {
		case l.Actor == "" || slices.Contains(actors, l.Actor):
			return fmt.Errorf("%s.actor: it is missing or stands twice", at)
		case mail && l.Username == "":
			return fmt.Errorf("%s.username: it is missing", at)
		case mail && l.URL != "":
			return fmt.Errorf("%s.url: a mailbox has none", at)
		case (l.Username == "") != (l.PasswordFile == ""):
			return fmt.Errorf("%s.password_file: username and password_file go together", at)
		}
		actors = append(actors, l.Actor)
	}
	return nil
}

// validURL: https, or http to a loopback address, without user, query or fragment.
func validURL(key, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return fmt.Errorf("%s: want https://HOST/PATH, without a user, a query or a fragment", key)
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s: want https (http is for a loopback address)", key)
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// pick answers the login of the place's person: their own, else everyone's.
func pick(all []Login, p Place) (Login, bool) {
	for _, actor := range []string{p.Account.Actor, "*"} {
		for _, l := range all {
			if l.Actor == actor && p.Account.Actor != "" {
				return l, true
			}
		}
	}
	return Login{}, false
}

// Set is a node's sources.
type Set struct {
	ByKind  map[string]Source // what the operation takes: inbox, storage and, where configured, external
	Maildir *Maildir          // for ServeLMTP; nil where the inbox is an IMAP server
	Hosted  *Hosted           // for Sweep, Drop and usage; nil where storage is a bucket

	closers []func() error
}

// Open makes the sources of a configuration that is valid. home is the node's
// directory; nothing is dialled.
func Open(c Config, home string, book *item.Book) (*Set, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Set{ByKind: map[string]Source{}}
	if err := errors.Join(s.openInbox(c.Inbox, home), s.openStorage(c.Storage, home, book), s.openExternal(c.External)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Set) openInbox(c InboxConfig, home string) (err error) {
	if c.IMAP != nil {
		one, err := NewIMAP(*c.IMAP)
		if err != nil {
			return err
		}
		s.ByKind[KindInbox], s.closers = one, append(s.closers, one.Close)
		return nil
	}
	if s.Maildir, err = NewMaildir(or(c.Maildir, filepath.Join(home, "mail"))); err != nil {
		return fmt.Errorf("sources.inbox.maildir: %w", err)
	}
	s.ByKind[KindInbox] = s.Maildir
	return nil
}

func (s *Set) openStorage(c StorageConfig, home string, book *item.Book) (err error) {
	if c.S3 != nil {
		one, err := NewS3(c.S3.withDefaults())
		if err != nil {
			return err
		}
		s.ByKind[KindStorage], s.closers = one, append(s.closers, one.Close)
		return nil
	}
	if s.Hosted, err = NewHosted(book, or(c.Blobs, filepath.Join(home, "blobs"))); err != nil {
		return fmt.Errorf("sources.storage.blobs: %w", err)
	}
	s.ByKind[KindStorage] = s.Hosted
	return nil
}

func (s *Set) openExternal(all []DAVConfig) error {
	if len(all) == 0 {
		return nil
	}
	by := external{}
	for _, c := range all {
		one, err := NewWebDAV(c)
		if err != nil {
			return err
		}
		by[c.Collection], s.closers = one, append(s.closers, one.Close)
	}
	s.ByKind[KindExternal] = by
	return nil
}

// Close ends what the sources keep open.
func (s *Set) Close() error {
	var all []error
	for _, c := range s.closers {
		all = append(all, c())
	}
	return errors.Join(all...)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// external is the external collections by their ids, as one source.
type external map[string]*DAV

func (e external) of(p Place) (*DAV, error) {
	if d, ok := e[p.Collection]; ok {
		return d, nil
	}
	return nil, errDisconnected
}

// Functions: reads.
func (e external) Functions() []tool.Name { return (*DAV)(nil).Functions() }

// Count is DAV's.
func (e external) Count(ctx context.Context, p Place) (int, bool, error) {
	d, err := e.of(p)
	if err != nil {
		return 0, false, err
	}
	return d.Count(ctx, p)
}

// List is DAV's.
func (e external) List(ctx context.Context, p Place, q Query) (Page, error) {
	d, err := e.of(p)
	if err != nil {
		return Page{}, err
	}
	return d.List(ctx, p, q)
}

// Read is DAV's.
func (e external) Read(ctx context.Context, p Place, id string, offset int64, max int) (Content, error) {
	d, err := e.of(p)
	if err != nil {
		return Content{}, err
	}
	return d.Read(ctx, p, id, offset, max)
}

// Stat is DAV's.
func (e external) Stat(ctx context.Context, p Place, id string) (Item, error) {
	d, err := e.of(p)
	if err != nil {
		return Item{}, err
	}
	return d.Stat(ctx, p, id)
}

// Write: an external provider is only read.
func (e external) Write(context.Context, Place, Write) (Written, error) {
	return Written{}, errFunction
}

// Delete: an external provider is only read.
func (e external) Delete(context.Context, Place, string, string, string) error { return errFunction }

// Settle: what can't begin didn't happen.
func (e external) Settle(context.Context, Place, Write) (Written, Settled, error) {
	return Written{}, Not, nil
}

// SettleDelete: what can't begin didn't happen.
func (e external) SettleDelete(context.Context, Place, string, string, string) (Settled, error) {
	return Not, nil
}
