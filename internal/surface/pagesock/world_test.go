package pagesock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/audit"
	"chaperone/internal/idptest"
	"chaperone/internal/leaktest"
	"chaperone/internal/oauth"
	"chaperone/internal/oidc"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
	"chaperone/internal/surface/guard"
	"chaperone/internal/surface/pagesock"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

const (
	arming   = "/api/browser-control/attended-arm"
	finalize = arming + "/finalize"
	document = "/api/browser-control/document"
	socket   = "/ws/browser-control"
	route    = "portal"
)

// world is a server with everything under it, at a provider that says what a test
// wants.
type world struct {
	t        testing.TB
	origin   string
	provider *idptest.Faulty
	sessions *session.Book
	arms     *ledger.Book
	control  *live.Authority
	pages    *pagesock.Server
	key      []byte
	db       *store.DB // of the arms; the sessions' own where a test ends it
}

// fast is a world over SQLite.
func fast(t testing.TB) *world { return newWorld(t, storetest.SQLite(t), true) }

func newWorld(t testing.TB, url string, on bool) *world { return newWorldOver(t, url, url, on) }

// newWorldOver has its arms in another database than its sessions, where the two
// differ.
func newWorldOver(t testing.TB, url, armsURL string, on bool) *world {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	w := &world{t: t, provider: idptest.NewFaulty(t), key: bytes.Repeat([]byte{7}, 32)}
	db := storetest.Open(t, url, store.Options{})
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	must(err)
	w.sessions, err = session.NewBook(db, log, "local", session.Options{})
	must(err)
	tokens, err := oauth.NewBook(db, log, "local", oauth.Options{Origin: "http://localhost:1"})
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	w.origin = fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	party, err := oidc.New(ctx, oidc.Config{Issuer: w.provider.URL, ClientID: "client", ClientSecret: "secret", Origin: w.origin,
		ACRValues: []string{"gold"}, Introspection: on}, w.sessions, nil)
	must(err)
	if w.db = db; armsURL != url {
		w.db, err = store.Open(ctx, armsURL, store.Options{Migrate: true})
		must(err)
		log, err = audit.Open(w.db, audit.Options{Tenant: "local"})
		must(err)
	}
	if on {
		receipts, err := policy.NewBook(w.db, log, "local", policy.Options{Secret: w.key})
		must(err)
		w.arms, err = ledger.NewBook(w.db, log, "local", ledger.Options{Receipts: receipts})
		must(err)
		refs, err := ref.NewKey(w.key)
		must(err)
		w.control, err = live.New(live.Config{Book: w.arms, Policy: policy.Default(), Key: refs, Tenant: "local", Origin: w.origin})
		must(err)
	}
	w.pages, err = pagesock.New(pagesock.Config{Origin: w.origin, Key: w.key, Sessions: w.sessions, Provider: party, Authority: w.control})
	must(err)
	party.Armed = w.pages.Armed
	routes := append(w.pages.Routes(),
		guard.Route{Method: "GET", Path: "/auth/login", Who: guard.Nobody, Handler: party.SignIn},
		guard.Route{Method: "GET", Path: "/auth/callback", Who: guard.Nobody, Handler: party.Callback})
	server := &httptest.Server{Listener: listener, Config: &http.Server{
		Handler: guard.New(guard.Config{Origin: w.origin, Sessions: w.sessions, Tokens: tokens}, routes...)}}
	server.Start()
	t.Cleanup(func() {
		if w.control != nil {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			if err := errors.Join(w.control.Close(ctx), w.pages.Close(ctx)); err != nil {
				t.Error(err)
			}
		}
		server.Close()
		http.DefaultClient.CloseIdleConnections()
		if !on || w.db != db {
			return
		}
		if err := db.View(ctx, func(tx *store.Tx) error { return ledger.Check(tx) }); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
	return w
}

// page is a signed-in person's page in a browser of its own.
type page struct {
	*world
	jar   map[string]string
	key   string
	nonce string
}

// person signs somebody in.
func (w *world) person() *page {
	w.t.Helper()
	p := &page{world: w, jar: map[string]string{}}
	a := p.send("GET", "/auth/login?next=/", nil, nil)
	p.key = p.follow(a.header.Get("Location"))
	if p.key == "" {
		w.t.Fatal("not signed in")
	}
	return p
}

var keyTag = regexp.MustCompile(`name="session-key" content="([0-9a-f]{64})"`)

// follow goes to the provider and comes back; it answers the session's key where
// the page has one.
func (p *page) follow(to string) (key string) {
	p.t.Helper()
	back := p.provided(to)
	a := p.send("GET", back, nil, nil)
	if a.status != http.StatusOK {
		p.t.Fatalf("the callback: %d %s", a.status, a.body)
	}
	if m := keyTag.FindStringSubmatch(a.body); m != nil {
		key = m[1]
	}
	return key
}

// provided answers where the provider sends the browser back to.
func (p *page) provided(to string) string {
	p.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := client.Get(to)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Body.Close()
	u, err := url.Parse(r.Header.Get("Location"))
	if err != nil || u.RawQuery == "" {
		p.t.Fatalf("the provider answered %d %v", r.StatusCode, err)
	}
	return u.RequestURI()
}

// answer is one answer, read whole.
type answer struct {
	status  int
	header  http.Header
	body    string
	cookies map[string]*http.Cookie
}

// code answers a refusal's code.
func (a answer) code() string {
	var told struct {
		Code string `json:"code"`
	}
	json.Unmarshal([]byte(a.body), &told)
	return told.Code
}

// send sends a request as the page does; edit undresses it. What it is given in
// cookies it keeps.
func (p *page) send(method, path string, body any, edit func(*http.Request)) answer {
	p.t.Helper()
	var text io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		text = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			p.t.Fatal(err)
		}
		text = bytes.NewReader(data)
	}
	r, err := http.NewRequest(method, p.origin+path, text)
	if err != nil {
		p.t.Fatal(err)
	}
	for name, value := range p.jar {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if strings.HasPrefix(path, "/api/") {
		r.Header.Set(guard.KeyHeader, p.key)
		if method != "GET" {
			r.Header.Set("Origin", p.origin)
			r.Header.Set(guard.CSRFHeader, session.CSRF(p.jar[guard.Cookie]))
		}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if edit != nil {
		edit(r)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, string(data), map[string]*http.Cookie{}}
	for _, c := range resp.Cookies() {
		a.cookies[c.Name] = c
		if p.jar[c.Name] = c.Value; c.MaxAge < 0 {
			delete(p.jar, c.Name)
		}
	}
	return a
}

// refused sends a request that must be refused so.
func (p *page) refused(what, method, path string, body any, edit func(*http.Request), status int, code string) {
	p.t.Helper()
	if a := p.send(method, path, body, edit); a.status != status || a.code() != code {
		p.t.Errorf("%s: %d %s, want %d %s", what, a.status, a.body, status, code)
	}
}

// stepUp proves the person for an arm: the grant's cookie is there afterwards.
func (p *page) stepUp() {
	p.t.Helper()
	a := p.send("POST", arming, map[string]any{"route_id": route, "next": "/files"}, nil)
	var to struct {
		URL string `json:"authorization_url"`
	}
	if err := json.Unmarshal([]byte(a.body), &to); err != nil || a.status != http.StatusOK {
		p.t.Fatalf("arming: %d %s", a.status, a.body)
	}
	p.follow(to.URL)
}

// load is the page's load after the step-up.
func (p *page) load() {
	p.t.Helper()
	if a := p.send("POST", document, map[string]any{"csrf": session.CSRF(p.jar[guard.Cookie]), "route_id": route}, nil); a.status != http.StatusNoContent {
		p.t.Fatalf("the document: %d %s", a.status, a.body)
	}
}

// arm goes the whole way.
func (p *page) arm() answer {
	p.t.Helper()
	p.stepUp()
	p.load()
	a := p.send("POST", finalize, offer(), nil)
	var told struct {
		Nonce string `json:"open_nonce"`
	}
	if err := json.Unmarshal([]byte(a.body), &told); err != nil || a.status != http.StatusOK {
		p.t.Fatalf("finalize: %d %s", a.status, a.body)
	}
	p.nonce = told.Nonce
	return a
}

// status answers what GET says.
func (p *page) status() string {
	p.t.Helper()
	a := p.send("GET", arming, nil, nil)
	var told struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(a.body), &told); err != nil || a.status != http.StatusOK {
		p.t.Fatalf("the status: %d %s", a.status, a.body)
	}
	return told.Status
}

// catalog is what the page offers.
func catalog() controlv1.Catalog {
	t, err := controlv1.NewTool(controlv1.Facts{ID: "items_list", Version: "1", Input: []byte(`{"type":"object"}`), Output: []byte(`{"type":"object"}`),
		Class: controlv1.Read, Confirmation: controlv1.NoConfirmation, SourceRef: "portal"})
	if err != nil {
		panic(err)
	}
	c, err := controlv1.NewCatalog([]controlv1.Tool{t})
	if err != nil {
		panic(err)
	}
	return c
}

func offer() map[string]any {
	c := catalog()
	var tools []any
	for _, t := range c.Tools() {
		tools = append(tools, map[string]any{"tool_id": t.ID().String(), "schema_digest": t.Schemas().String()})
	}
	return map[string]any{"route_id": route, "registration_generation": 1, "catalog_digest": c.Digest().String(), "tools": tools}
}

// dial opens the page's socket. Where it isn't accepted the answer says why.
func (p *page) dial(edit func(http.Header)) (*websocket.Conn, *http.Response, error) {
	p.t.Helper()
	h := http.Header{"Origin": {p.origin}}
	for name, value := range p.jar {
		h.Add("Cookie", name+"="+value)
	}
	if edit != nil {
		edit(h)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return websocket.Dial(ctx, strings.Replace(p.origin, "http", "ws", 1)+socket, &websocket.DialOptions{HTTPHeader: h})
}

// open opens the socket, which must be accepted, and keeps its cookie.
func (p *page) open() *websocket.Conn {
	p.t.Helper()
	ws, r, err := p.dial(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { ws.CloseNow() })
	for _, c := range r.Cookies() {
		p.jar[c.Name] = c.Value
	}
	return ws
}

// write sends a frame.
func write(t testing.TB, ws *websocket.Conn, f controlv1.PageFrame) {
	t.Helper()
	data, err := controlv1.EncodePage(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Write(context.Background(), websocket.MessageText, data); err != nil {
		t.Fatal(err)
	}
}

// ready says what a page says until it is ready.
func (p *page) ready(ws *websocket.Conn) {
	p.t.Helper()
	write(p.t, ws, p.opening())
	write(p.t, ws, controlv1.Register{Route: id(route), Generation: generation(1), Catalog: catalog()})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, data, err := ws.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	f, err := controlv1.DecodeAuthority(data)
	if _, is := f.(controlv1.Ready); !is || err != nil {
		p.t.Fatalf("%T %v", f, err)
	}
}

func (p *page) opening() controlv1.Open {
	p.t.Helper()
	nonce, err := controlv1.ParseNonce(p.nonce)
	if err != nil {
		p.t.Fatal(err)
	}
	return controlv1.Open{Nonce: nonce, Route: id(route), Generation: generation(1)}
}

// closed reads until the close, which must be this one.
func closed(t testing.TB, what string, ws *websocket.Conn, code controlv1.Close, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	_, data, err := ws.Read(ctx)
	if err == nil {
		t.Errorf("%s: a frame of %d bytes came instead of the close", what, len(data))
		return
	}
	var ce websocket.CloseError
	if !asClose(err, &ce) || ce.Code != websocket.StatusCode(code) || ce.Reason != reason {
		t.Errorf("%s: %v, want %d %s", what, err, code, reason)
	}
}

func id(s string) controlv1.ID {
	id, err := controlv1.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

func generation(n int64) controlv1.Generation {
	g, err := controlv1.NewGeneration(n)
	if err != nil {
		panic(err)
	}
	return g
}
