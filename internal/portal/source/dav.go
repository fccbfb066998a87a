package source

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"chaperone/internal/portal/tool"
)

// DAV reads a collection of a WebDAV, CalDAV or CardDAV server, and all that is
// below it. An item's id is its path below the configured address, its version
// comes from its ETag.
//
// It asks with PROPFIND of depth 0 and 1, for the names of calendar and address
// book entries with a multiget REPORT, and reads with GET; nothing else is ever sent. Answers are bounded and read as a stream, entities of a document's own
// aren't expanded (the decoder knows none), and an address that the server names
// is used only where it lies below the configured one.
type DAV struct {
	config DAVConfig
	http   *http.Client
}

// Bounds of a server's answers.
const (
	maxDavAnswer = 16 << 20 // bytes of a PROPFIND's
	maxDavRows   = 20_000   // of one
	maxDavDepth  = 16       // collections within collections
	maxDavAsks   = 500      // PROPFINDs of one list
	maxDavSkip   = 64 << 20 // bytes before a part, from a server without ranges
)

// NewWebDAV answers the source; nothing is sent yet. Close it.
func NewWebDAV(c DAVConfig) (*DAV, error) {
	if err := c.validate("sources.external"); err != nil {
		return nil, err
	}
	h, err := httpClient(c.URL, c.CAFile)
	if err != nil {
		return nil, errors.New("sources.external: ca_file can't be used")
	}
	return &DAV{c, h}, nil
}

// httpClient answers a client for one server: no redirects, no proxy, no
// compression (an answer is as long as it comes), bounded headers.
func httpClient(address, caFile string) (*http.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	conf, err := tlsConfig(u.Hostname(), caFile)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSClientConfig: conf, DisableCompression: true,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: dialTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Close ends the idle connections.
func (d *DAV) Close() error {
	d.http.CloseIdleConnections()
	return nil
}

// Functions: reads.
func (d *DAV) Functions() []tool.Name { return []tool.Name{tool.ListItems, tool.ReadItem} }

// site is one account's view of the server.
type site struct {
	*DAV
	base  *url.URL
	login Login
}

func (d *DAV) site(p Place) (site, error) {
	login, ok := pick(d.config.Logins, p)
	if !ok || d.config.Collection != p.Collection {
		return site{}, errDisconnected
	}
	base, err := url.Parse(cmp.Or(login.URL, d.config.URL))
	if err != nil {
		return site{}, errDisconnected
	}
	return site{d, base, login}, nil
}

// send sends one request and answers a response of status 2xx; the caller closes
// its body.
func (s site) send(ctx context.Context, method string, at *url.URL, body string, header map[string]string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, at.String(), strings.NewReader(body))
	if err != nil {
		return nil, errUnavailable
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	if s.login.Username != "" {
		secret, err := readSecret(s.login.PasswordFile)
		if err != nil {
			return nil, errDisconnected
		}
		r.SetBasicAuth(s.login.Username, secret)
	}
	res, err := s.http.Do(r)
	if err != nil {
		return nil, errUnavailable
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	res.Body.Close()
	if method == "REPORT" && res.StatusCode != http.StatusUnauthorized && (res.StatusCode/100 == 4 || res.StatusCode == http.StatusNotImplemented) {
		return nil, errRefused
	}
	switch res.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return nil, errNotFound
	case http.StatusUnauthorized:
		return nil, tool.Fail(tool.SourceDisconnected, "cause", "credentials")
	case http.StatusForbidden:
		if strings.TrimSuffix(at.Path, "/") == strings.TrimSuffix(s.base.Path, "/") {
			return nil, tool.Fail(tool.SourceDisconnected, "cause", "credentials")
		}
		return nil, errNotFound // not for this login: some servers say so of what can't be, too
	case http.StatusPreconditionFailed:
		return nil, errPrecondition
	case http.StatusRequestedRangeNotSatisfiable:
		return nil, errRange
	}
	return nil, errUnavailable // a redirect too
}

var errRefused = errors.New("the server doesn't do that")

var errRange = errors.New("the range isn't there")

// propfind is what is asked of each resource.
const propfind = `<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/><displayname/><getcontentlength/><getcontenttype/><getlastmodified/><getetag/></prop></propfind>`

// resource is one row of an answer.
type resource struct {
	rel    string // relative path, without a slash at its end
	folder bool
	etag   string
	size   int64
	kind   string
	name   string
	time   time.Time
	entry  string // what a REPORT told of its content
}

// rowXML is DAV:response as it travels.
type rowXML struct {
	Href     []string `xml:"DAV: href"`
	Propstat []struct {
		Status string `xml:"DAV: status"`
		Prop   struct {
			Type struct {
				Collection *struct{} `xml:"DAV: collection"`
			} `xml:"DAV: resourcetype"`
			Name     string `xml:"DAV: displayname"`
			Size     string `xml:"DAV: getcontentlength"`
			Kind     string `xml:"DAV: getcontenttype"`
			Modified string `xml:"DAV: getlastmodified"`
			ETag     string `xml:"DAV: getetag"`
			Calendar string `xml:"urn:ietf:params:xml:ns:caldav calendar-data"`
			Card     string `xml:"urn:ietf:params:xml:ns:carddav address-data"`
		} `xml:"DAV: prop"`
	} `xml:"DAV: propstat"`
}

// ask answers what is at rel and, with depth "1", right below it. Rows that lie
// elsewhere, or that can't be named, are left out.
func (s site) ask(ctx context.Context, rel, depth string) ([]resource, error) {
	return s.rows(ctx, "PROPFIND", rel, propfind, depth)
}

// rows sends a request that is answered by rows, and reads them.
func (s site) rows(ctx context.Context, method, rel, body, depth string) ([]resource, error) {
	res, err := s.send(ctx, method, davAt(s.base, rel), body, map[string]string{"Depth": depth, "Content-Type": "application/xml; charset=utf-8"})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusMultiStatus {
		return nil, errUnavailable
	}
	d := xml.NewDecoder(&io.LimitedReader{R: res.Body, N: maxDavAnswer})
	var all []resource
	for rows := 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && rows > 0 {
			return all, nil
		}
		if err != nil {
			return nil, errUnavailable
		}
		start, is := token.(xml.StartElement)
		if !is || start.Name.Space != "DAV:" || start.Name.Local != "response" {
			continue
		}
		if rows++; rows > maxDavRows {
			return nil, tool.Fail(tool.TooLarge, "limit", maxDavRows)
		}
		var row rowXML
		if err := d.DecodeElement(&row, &start); err != nil {
			return nil, errUnavailable
		}
		if r, ok := s.read(row); ok {
			all = append(all, r)
		}
	}
}

// read judges one row.
func (s site) read(row rowXML) (resource, bool) {
	if len(row.Href) != 1 {
		return resource{}, false
	}
	rel, ok := davPath(s.base, row.Href[0])
	if !ok {
		return resource{}, false
	}
	r := resource{rel: strings.TrimSuffix(rel, "/"), size: -1}
	for _, p := range row.Propstat {
		if !strings.Contains(p.Status, " 200 ") && !strings.HasSuffix(p.Status, " 200") {
			continue
		}
		r.folder = r.folder || p.Prop.Type.Collection != nil
		r.entry = cmp.Or(p.Prop.Calendar, p.Prop.Card, r.entry)
		r.name, r.etag = cmp.Or(p.Prop.Name, r.name), cmp.Or(strings.TrimSpace(p.Prop.ETag), r.etag)
		if n, err := strconv.ParseInt(strings.TrimSpace(p.Prop.Size), 10, 64); err == nil && n >= 0 {
			r.size = n
		}
		if t, _, err := mime.ParseMediaType(p.Prop.Kind); err == nil && validType(t) {
			r.kind = t
		}
		if at, err := http.ParseTime(p.Prop.Modified); err == nil {
			r.time = at.UTC()
		}
	}
	return r, true
}

var mediaType = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$`)

func validType(t string) bool { return mediaType.MatchString(t) }

// version names the resource's state: its ETag, or where the server has none its
// time and size.
func (r resource) version() string {
	if r.etag != "" {
		return digest("etag", r.etag)
	}
	return digest("time", r.time.String(), strconv.FormatInt(r.size, 10))
}

func (r resource) item() (Item, bool) {
	id, ok := davID(r.rel)
	if r.folder || !ok || r.rel == "" {
		return Item{}, false
	}
	name := clean(r.name, maxTitle)
	if name == "" {
		name = title(r.rel)
	}
	return Item{id, name, r.version(), maxZero(r.size), cmp.Or(r.kind, "application/octet-stream"), r.time, map[string]any{}}, true
}

// List answers items in the order of their paths, of all collections below.
func (d *DAV) List(ctx context.Context, p Place, q Query) (Page, error) {
	s, err := d.site(p)
	if err != nil {
		return Page{}, err
	}
	w := walk{site: s, q: q, page: Page{Items: []Item{}}, asks: maxDavAsks}
	if q.Cursor != "" {
		parts, err := readCursor("dav", q.Cursor, 1)
		if err != nil {
			return Page{}, err
		}
		w.after = parts[0]
	}
	if err := w.collect(ctx, "", 0); err != nil && !errors.Is(err, errFull) {
		return Page{}, failed(err)
	}
	return w.page, nil
}

// walk gathers a page: collections in order, each before what sorts after it, so
// that the whole is in the order of paths and a cursor is a path.
type walk struct {
	site
	q     Query
	after string // the last path that was told
	page  Page
	last  string
	asks  int
	count int // items passed, where only that is wanted
	bare  bool
}

var errFull = errors.New("the page is full")

func (w *walk) collect(ctx context.Context, rel string, depth int) error {
	if w.asks--; w.asks < 0 || depth > maxDavDepth {
		return tool.Fail(tool.TooLarge, "limit", maxDavAsks)
	}
	at := rel
	if at != "" {
		at += "/"
	}
	rows, err := w.ask(ctx, at, "1")
	if err != nil {
		if depth > 0 && errors.Is(err, tool.NotFound) {
			return nil // gone since its parent was read
		}
		if errors.Is(err, tool.NotFound) {
			return errDisconnected // the configured address itself
		}
		return err
	}
	rows = slices.DeleteFunc(rows, func(r resource) bool { return !directly(r.rel, at) })
	slices.SortFunc(rows, func(a, b resource) int { return strings.Compare(a.path(), b.path()) })
	rows = slices.CompactFunc(rows, func(a, b resource) bool { return a.rel == b.rel })
	if w.bare || w.config.Kind == "webdav" {
		return w.takeAll(ctx, rows, depth)
	}
	// Before the titles are asked for, what can't be on the page goes.
	rows = slices.DeleteFunc(rows, func(r resource) bool { return !r.folder && r.rel <= w.after })
	for some := range slices.Chunk(rows, titlesAtOnce) {
		if w.asks--; w.asks < 0 {
			return tool.Fail(tool.TooLarge, "limit", maxDavAsks)
		}
		if err := w.entitle(ctx, at, some); err != nil {
			return err
		}
		if err := w.takeAll(ctx, some, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) takeAll(ctx context.Context, rows []resource, depth int) error {
	for _, r := range rows {
		if err := w.take(ctx, r, depth); err != nil {
			return err
		}
	}
	return nil
}

// directly tells whether rel is one step below the collection at.
func directly(rel, at string) bool {
	rest, below := strings.CutPrefix(rel, at)
	return below && rest != "" && !strings.Contains(rest, "/")
}

// path is what a resource is ordered by.
func (r resource) path() string {
	if r.folder {
		return r.rel + "/"
	}
	return r.rel
}

func (w *walk) take(ctx context.Context, r resource, depth int) error {
	if r.folder {
		inside := r.rel + "/"
		wanted := strings.HasPrefix(inside, w.q.Prefix) || strings.HasPrefix(w.q.Prefix, inside) || strings.HasPrefix(w.q.Prefix, "~")
		if !wanted || inside < w.after && !strings.HasPrefix(w.after, inside) {
			return nil
		}
		return w.collect(ctx, r.rel, depth+1)
	}
	i, ok := r.item()
	if !ok || r.rel <= w.after || !strings.HasPrefix(i.Item, w.q.Prefix) || !matches(i.Title, w.q.Query) {
		return nil
	}
	if w.count++; w.bare {
		return nil
	}
	if len(w.page.Items) == w.q.Limit {
		w.page.Next = cursor("dav", w.last)
		return errFull
	}
	w.page.Items, w.last = append(w.page.Items, i), r.rel
	return nil
}

// Count answers how many items there are, or that there are too many to look at.
func (d *DAV) Count(ctx context.Context, p Place) (int, bool, error) {
	s, err := d.site(p)
	if err != nil {
		return 0, false, err
	}
	w := walk{site: s, bare: true, asks: maxDavAsks}
	err = w.collect(ctx, "", 0)
	if errors.Is(err, tool.TooLarge) {
		return w.count, false, nil
	}
	return w.count, err == nil, failed(err)
}

// Stat answers the item.
func (d *DAV) Stat(ctx context.Context, p Place, id string) (Item, error) {
	_, _, i, err := d.find(ctx, p, id)
	return i, failed(err)
}

func (d *DAV) find(ctx context.Context, p Place, id string) (site, resource, Item, error) {
	s, err := d.site(p)
	if err != nil {
		return site{}, resource{}, Item{}, err
	}
	at, ok := davURL(s.base, id)
	if !ok {
		return site{}, resource{}, Item{}, errNotFound
	}
	rel, _ := davPath(s.base, at.String())
	rows, err := s.ask(ctx, rel, "0")
	if err != nil {
		return site{}, resource{}, Item{}, err
	}
	for _, r := range rows {
		if _, ok := r.item(); !ok || r.rel != rel {
			continue
		}
		one := []resource{r}
		if err := s.entitle(ctx, rel[:strings.LastIndexByte(rel, '/')+1], one); err != nil {
			return site{}, resource{}, Item{}, err
		}
		i, _ := one[0].item()
		return s, one[0], i, nil
	}
	return site{}, resource{}, Item{}, errNotFound
}

// Read answers a part of the version that PROPFIND told. The GET is bound to its
// ETag; where the server doesn't say which version it sent, it is asked again
// afterwards. Another version is version_conflict.
func (d *DAV) Read(ctx context.Context, p Place, id string, offset int64, max int) (Content, error) {
	if err := checkRead(offset, max); err != nil {
		return Content{}, err
	}
	s, r, i, err := d.find(ctx, p, id)
	if err != nil {
		return Content{}, failed(err)
	}
	if r.size >= 0 && offset >= r.size {
		return Content{Item: i, Bytes: []byte{}, Offset: offset}, nil
	}
	header := map[string]string{"Range": "bytes=" + strconv.FormatInt(offset, 10) + "-" + strconv.FormatInt(offset+int64(max)-1, 10)}
	if strings.HasPrefix(r.etag, `"`) { // a weak one can't be a condition
		header["If-Match"] = r.etag
	}
	res, err := s.send(ctx, http.MethodGet, davAt(s.base, r.rel), "", header)
	if errors.Is(err, tool.VersionConflict) || errors.Is(err, errRange) {
		// Refused for a version that it still has: it contradicts itself.
		return Content{}, cmp.Or(s.moved(ctx, p, id, r), error(errUnavailable))
	}
	if err != nil {
		return Content{}, failed(err)
	}
	defer res.Body.Close()
	bytes, size, err := readPart(res, offset, max, r.size)
	if err != nil {
		return Content{}, failed(err)
	}
	if told := res.Header.Get("ETag"); told == "" || told != r.etag {
		if err := s.moved(ctx, p, id, r); err != nil {
			return Content{}, err
		}
	}
	i.Size = size
	return Content{i, bytes, offset, offset+int64(len(bytes)) < size}, nil
}

// moved asks again and answers version_conflict unless the version is still r's.
func (s site) moved(ctx context.Context, p Place, id string, r resource) error {
	i, err := s.Stat(ctx, p, id)
	switch {
	case err != nil:
		return err
	case i.Version != r.version():
		return conflict(i.Version)
	}
	return nil
}

// readPart reads a part out of the answer, whole or partial, and tells the whole's
// size. An answer that contradicts what was told before is refused.
func readPart(res *http.Response, offset int64, max int, told int64) (bytes []byte, size int64, err error) {
	size = told
	switch res.StatusCode {
	case http.StatusPartialContent:
		from, whole, ok := contentRange(res.Header.Get("Content-Range"))
		if !ok || from != offset || told >= 0 && whole != told {
			return nil, 0, errUnavailable
		}
		size = whole
	case http.StatusOK:
		if size < 0 {
			size = res.ContentLength
		}
		if offset > maxDavSkip {
			return nil, 0, tool.Fail(tool.TooLarge, "limit", maxDavSkip)
		}
		if _, err := io.CopyN(io.Discard, res.Body, offset); err != nil {
			return nil, 0, errUnavailable
		}
	default:
		return nil, 0, errUnavailable
	}
	bytes, err = io.ReadAll(io.LimitReader(res.Body, int64(max)))
	if err != nil {
		return nil, 0, errUnavailable
	}
	if size < 0 { // nobody told it: look whether more comes
		more, _ := io.ReadAll(io.LimitReader(res.Body, 1))
		size = offset + int64(len(bytes)+len(more))
	}
	if int64(len(bytes)) != min(int64(max), maxZero(size-offset)) {
		return nil, 0, errUnavailable // shorter or longer than it says
	}
	return bytes, size, nil
}

// contentRange reads "bytes FROM-TO/SIZE".
func contentRange(text string) (from, size int64, ok bool) {
	rest, is := strings.CutPrefix(text, "bytes ")
	span, whole, cut := strings.Cut(rest, "/")
	first, _, cut2 := strings.Cut(span, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	size, err2 := strconv.ParseInt(whole, 10, 64)
	return from, size, is && cut && cut2 && err1 == nil && err2 == nil && from >= 0 && size >= 0
}

// Write: an external provider is only read.
func (d *DAV) Write(context.Context, Place, Write) (Written, error) { return Written{}, errFunction }

// Delete: an external provider is only read.
func (d *DAV) Delete(context.Context, Place, string, string, string) error { return errFunction }

// Settle: what can't begin didn't happen.
func (d *DAV) Settle(context.Context, Place, Write) (Written, Settled, error) {
	return Written{}, Not, nil
}

// SettleDelete: what can't begin didn't happen.
func (d *DAV) SettleDelete(context.Context, Place, string, string, string) (Settled, error) {
	return Not, nil
}
