package source

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"chaperone/internal/portal/tool"
)

// IMAP is a mailbox on a server, one login for each account. An item is
// FOLDER;UIDVALIDITY;UID, its version the message's MODSEQ (RFC 7162).
//
// A change of flags is one STORE UNCHANGEDSINCE of the whole set of flags. A move
// has no such condition, so a claim stands before it: a STORE UNCHANGEDSINCE that
// also turns the keyword $ChaperoneMove, which one writer wins; then MOVE, then the
// keyword is taken away where the message went. A crash in between leaves the
// keyword, which no list shows and the next move turns again.
//
// The server must have CONDSTORE, UIDPLUS and MOVE.
type IMAP struct {
	config IMAPConfig
	tls    *tls.Config
	step   func(step string) error // tests stop here; nil elsewhere

	mu     sync.Mutex // over kept and closed
	kept   map[Login][]*session
	closed bool
}

// claimKeyword is the claim of a move.
const claimKeyword = "$ChaperoneMove"

// NewIMAP answers the source; nothing is dialled yet. Close it.
func NewIMAP(c IMAPConfig) (*IMAP, error) {
	if err := c.validate("sources.inbox.imap"); err != nil {
		return nil, err
	}
	conf, err := tlsConfig(hostOf(c.Address), c.CAFile)
	if err != nil {
		return nil, errors.New("sources.inbox.imap: ca_file can't be used")
	}
	return &IMAP{config: c, tls: conf, kept: map[Login][]*session{}}, nil
}

// Functions: all but deletes, which an inbox doesn't have.
func (s *IMAP) Functions() []tool.Name {
	return []tool.Name{tool.ListItems, tool.ReadItem, tool.WriteItem}
}

// do runs fn on a connection of the place's login.
func (s *IMAP) do(ctx context.Context, p Place, fn func(*session) error) error {
	login, ok := pick(s.config.Logins, p)
	if !ok {
		return errDisconnected
	}
	return s.with(ctx, login, fn)
}

// folders answers the folders that hold messages, INBOX first.
func (c *session) folders() ([]string, error) {
	list, err := c.List("", "*", nil).Collect()
	if err != nil {
		return nil, err
	}
	all := []string{}
	for _, f := range list {
		name := f.Mailbox
		if strings.EqualFold(name, inbox) {
			name = inbox
		}
		if _, ok := folderPart(name); !ok || slices.ContainsFunc(f.Attrs, unreal) || slices.Contains(all, name) {
			continue
		}
		all = append(all, name)
		if len(all) == maxFolders {
			break
		}
	}
	slices.SortFunc(all, compareFolders)
	return all, nil
}

// unreal: a folder that can't be selected, or that shows others' messages again.
func unreal(a imap.MailboxAttr) bool {
	return a == imap.MailboxAttrNoSelect || a == imap.MailboxAttrNonExistent || a == imap.MailboxAttrAll || a == imap.MailboxAttrFlagged
}

// open selects the folder and answers its UIDVALIDITY. A folder that isn't there
// is not_found.
func (c *session) open(folder string, write bool) (*imap.SelectData, error) {
	data, err := c.Select(folder, &imap.SelectOptions{ReadOnly: !write, CondStore: true}).Wait()
	if told, ok := errors.AsType[*imap.Error](err); ok && told.Type == imap.StatusResponseTypeNo {
		if told.Code == imap.ResponseCodeUnavailable || told.Code == imap.ResponseCodeInUse || told.Code == imap.ResponseCodeServerBug {
			return nil, errUnavailable
		}
		return nil, errNotFound
	}
	if err != nil {
		return nil, err
	}
	if data.UIDValidity == 0 || data.HighestModSeq == 0 {
		return nil, tool.Fail(tool.SourceDisconnected, "cause", "capability") // no versions in this folder
	}
	return data, nil
}

var (
	headerFields = &imap.FetchItemBodySection{Specifier: imap.PartSpecifierHeader, HeaderFields: []string{"From", "To", "Subject", "Date"}, Peek: true}
	described    = &imap.FetchOptions{UID: true, Flags: true, ModSeq: true, RFC822Size: true, InternalDate: true, BodySection: []*imap.FetchItemBodySection{headerFields}}
)

// fetch answers those messages of the open folder that are there.
func (c *session) fetch(set imap.UIDSet, options *imap.FetchOptions) (map[imap.UID]*imapclient.FetchMessageBuffer, error) {
	list, err := c.Fetch(set, options).Collect()
	if err != nil {
		return nil, err
	}
	found := map[imap.UID]*imapclient.FetchMessageBuffer{}
	for _, b := range list {
		if set.Contains(b.UID) && b.ModSeq > 0 && b.RFC822Size >= 0 {
			found[b.UID] = b
		}
	}
	return found, nil
}

// mailState answers what flags mean.
func mailState(folder string, flags []imap.Flag) state {
	s := state{folder: folder}
	for _, f := range flags {
		switch {
		case strings.EqualFold(string(f), string(imap.FlagSeen)):
			s.seen = true
		case strings.EqualFold(string(f), string(imap.FlagFlagged)):
			s.flagged = true
		case strings.EqualFold(string(f), string(imap.FlagAnswered)):
			s.answered = true
		case strings.HasPrefix(string(f), "\\"), strings.EqualFold(string(f), claimKeyword):
		default:
			s.keywords = append(s.keywords, string(f))
		}
	}
	slices.Sort(s.keywords)
	s.keywords = slices.Compact(s.keywords)
	return s
}

func modSeq(n uint64) string { return strconv.FormatUint(n, 10) }

func (m message) item(b *imapclient.FetchMessageBuffer) Item {
	id, _ := m.id()
	h := readHeader(b.FindBodySection(headerFields))
	return Item{id, h.title(), modSeq(b.ModSeq), b.RFC822Size, mailType, b.InternalDate.UTC(), h.metadata(mailState(m.folder, b.Flags))}
}

// Count answers how many messages there are in all folders.
func (s *IMAP) Count(ctx context.Context, p Place) (n int, known bool, err error) {
	err = s.do(ctx, p, func(c *session) error {
		folders, err := c.folders()
		if err != nil {
			return err
		}
		n = 0
		for _, f := range folders {
			d, err := c.Status(f, &imap.StatusOptions{NumMessages: true}).Wait()
			if err != nil {
				return err
			}
			if d.NumMessages == nil {
				return errUnavailable
			}
			n += int(*d.NumMessages)
		}
		return nil
	})
	return n, err == nil, failed(err)
}

// List answers messages folder by folder, INBOX first, the newest of each first.
func (s *IMAP) List(ctx context.Context, p Place, q Query) (page Page, err error) {
	at := message{}
	if q.Cursor != "" {
		parts, err := readCursor("imap", q.Cursor, 1)
		if err != nil {
			return Page{}, err
		}
		var ok bool
		if at, ok = parseMessage(parts[0]); !ok {
			return Page{}, invalid("/cursor", "pattern")
		}
	}
	err = s.do(ctx, p, func(c *session) error {
		page, err = c.list(at, q)
		return err
	})
	return page, failed(err)
}

// list gathers one page after the message at.
func (c *session) list(at message, q Query) (Page, error) {
	folders, err := c.folders()
	if err != nil {
		return Page{}, err
	}
	begun := at.folder == ""
	page := Page{Items: []Item{}}
	for _, folder := range folders {
		part, _ := folderPart(folder)
		if part += ";"; !strings.HasPrefix(part, q.Prefix) && !strings.HasPrefix(q.Prefix, part) {
			continue
		}
		before := imap.UID(0)
		if !begun {
			// A folder that went away since leaves the list where it would be.
			if order := compareFolders(folder, at.folder); order < 0 {
				continue
			} else if order == 0 {
				before = at.uid
			}
			begun = true
		}
		if err := c.listFolder(&page, folder, before, at.validity, q); err != nil {
			if errors.Is(err, tool.NotFound) {
				continue // deleted since LIST
			}
			return Page{}, err
		}
		if page.Next != "" {
			break
		}
	}
	return page, nil
}

// compareFolders is the order of folders.
func compareFolders(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == inbox:
		return -1
	case b == inbox:
		return 1
	}
	return strings.Compare(a, b)
}

// listFolder adds the folder's messages below before (0: all) to the page.
func (c *session) listFolder(page *Page, folder string, before imap.UID, validity uint32, q Query) error {
	data, err := c.open(folder, false)
	if err != nil {
		return err
	}
	if before > 0 && data.UIDValidity != validity {
		return tool.Fail(tool.InvalidInput, "path", "/cursor", "rule", "stale") // renumbered since: begin again
	}
	criteria := &imap.SearchCriteria{}
	for word := range strings.FieldsSeq(q.Query) {
		criteria.Header = append(criteria.Header, imap.SearchCriteriaHeaderField{Key: "Subject", Value: word})
	}
	found, err := c.UIDSearch(criteria, nil).Wait()
	if err != nil {
		return err
	}
	uids, err := numbers(found.All)
	if err != nil {
		return err
	}
	slices.Sort(uids)
	slices.Reverse(uids)
	var wanted []imap.UID
	for _, uid := range uids {
		id, ok := message{folder, data.UIDValidity, uid}.id()
		if ok && (before == 0 || uid < before) && strings.HasPrefix(id, q.Prefix) {
			wanted = append(wanted, uid)
		}
	}
	for chunk := range slices.Chunk(wanted, q.Limit+1) {
		got, err := c.fetch(imap.UIDSetNum(chunk...), described)
		if err != nil {
			return err
		}
		for _, uid := range chunk {
			b := got[uid]
			if b == nil {
				continue // expunged since
			}
			i := message{folder, data.UIDValidity, uid}.item(b)
			if !matches(i.Title, q.Query) {
				continue
			}
			if len(page.Items) == q.Limit {
				page.Next = cursor("imap", page.Items[q.Limit-1].Item)
				return nil
			}
			page.Items = append(page.Items, i)
		}
	}
	return nil
}

// maxNumbers bounds what a server's set may stand for: "1:4294967295" is short.
const maxNumbers = 1 << 20

// numbers answers the UIDs that a set stands for.
func numbers(set imap.NumSet) ([]imap.UID, error) {
	uids, ok := set.(imap.UIDSet)
	if set == nil || ok && len(uids) == 0 {
		return nil, nil
	}
	if !ok || uids.Dynamic() {
		return nil, errUnavailable
	}
	n := uint64(0)
	for _, r := range uids {
		if r.Stop < r.Start {
			return nil, errUnavailable
		}
		if n += uint64(r.Stop-r.Start) + 1; n > maxNumbers {
			return nil, tool.Fail(tool.TooLarge, "limit", maxNumbers)
		}
	}
	all, ok := uids.Nums()
	if !ok {
		return nil, errUnavailable
	}
	return all, nil
}

// Stat answers the message.
func (s *IMAP) Stat(ctx context.Context, p Place, id string) (item Item, err error) {
	m, ok := parseMessage(id)
	if !ok {
		return Item{}, errNotFound
	}
	err = s.do(ctx, p, func(c *session) error {
		b, _, err := c.find(m, false, described)
		if err == nil {
			item = m.item(b)
		}
		return err
	})
	return item, failed(err)
}

// find opens the message's folder and answers it. Another UIDVALIDITY is another
// folder: nothing of it has this id.
func (c *session) find(m message, write bool, options *imap.FetchOptions) (*imapclient.FetchMessageBuffer, *imap.SelectData, error) {
	data, err := c.open(m.folder, write)
	if err != nil {
		return nil, nil, err
	}
	if data.UIDValidity != m.validity {
		return nil, nil, errNotFound
	}
	got, err := c.fetch(imap.UIDSetNum(m.uid), options)
	if err != nil {
		return nil, nil, err
	}
	if got[m.uid] == nil {
		return nil, nil, errNotFound
	}
	return got[m.uid], data, nil
}

// Read answers a part of the message's text, which never changes under one id;
// version, flags and text come from one answer of the server.
func (s *IMAP) Read(ctx context.Context, p Place, id string, offset int64, max int) (content Content, err error) {
	m, ok := parseMessage(id)
	if !ok {
		return Content{}, errNotFound
	}
	if err := checkRead(offset, max); err != nil {
		return Content{}, err
	}
	if offset > math.MaxUint32 { // more than the protocol can say, and than a message has
		i, err := s.Stat(ctx, p, id)
		if err == nil && i.Size > offset {
			err = errUnavailable
		}
		return Content{Item: i, Bytes: []byte{}, Offset: offset}, err
	}
	body := &imap.FetchItemBodySection{Peek: true, Partial: &imap.SectionPartial{Offset: offset, Size: int64(max)}}
	options := *described
	options.BodySection = []*imap.FetchItemBodySection{headerFields, body}
	err = s.do(ctx, p, func(c *session) error {
		b, _, err := c.find(m, false, &options)
		if err != nil {
			return err
		}
		i, bytes := m.item(b), b.FindBodySection(body)
		end := offset + int64(len(bytes))
		if len(bytes) > max || end > i.Size && len(bytes) > 0 || len(bytes) < max && end < i.Size {
			return errUnavailable // its sizes contradict each other
		}
		if bytes == nil {
			bytes = []byte{}
		}
		content = Content{i, bytes, offset, end < i.Size}
		return nil
	})
	return content, failed(err)
}

// Delete: an inbox has none.
func (s *IMAP) Delete(context.Context, Place, string, string, string) error { return errFunction }

// SettleDelete: what can't begin didn't happen.
func (s *IMAP) SettleDelete(context.Context, Place, string, string, string) (Settled, error) {
	return Not, nil
}

func (s *IMAP) at(step string) error {
	if s.step == nil {
		return nil
	}
	return s.step(step)
}
