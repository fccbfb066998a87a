package mcp_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/controltest"
	"chaperone/internal/oauth"
	"chaperone/internal/portal/item"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
	"chaperone/internal/surface/guard"
	"chaperone/internal/surface/mcp"
)

// world is a server with everything behind /mcp and /oauth that is ours: a
// database, the account's ledger, its sources, tokens, and HTTP on loopback. Ada
// is signed in, as a page of hers would be.
type world struct {
	t        testing.TB
	db       *store.DB
	ledger   *ledger.Book
	tokens   *oauth.Book
	desk     *operation.Desk
	consents mcp.Consents
	control  *controltest.Desk // attended control, with worldOptions.control
	handler  http.Handler      // of /mcp
	origin   string
	ada      mcp.Owner
}

// worldOptions change what is served; zero is what a node serves.
type worldOptions struct {
	limits operation.Limits
	wrap   func(mcp.HTTPConfig) http.Handler // of /mcp; nil is mcp.NewHTTP
	before func(http.Handler) http.Handler   // stands before /mcp
	files  func(source.Source) source.Source // stands before hosted storage
	offers []mcp.Offer
	// control offers attended control as well.
	control bool
	fetch   *oauth.Fetcher // of metadata documents; nil is the real network
}

// newWorld starts one over SQLite; a test of ours doesn't need both engines here,
// where no statement is ours.
func newWorld(t testing.TB, o worldOptions) *world {
	t.Helper()
	ctx := context.Background()
	dir := t.TempDir()
	w := &world{t: t, db: storetest.Open(t, filepath.Join(dir, "chaperone.db"), store.Options{}), ada: mcp.Owner{Actor: "ada"}}
	log, err := audit.Open(w.db, audit.Options{Tenant: "local"})
	must(t, err)
	w.ledger, err = ledger.NewBook(w.db, log, "local", ledger.Options{})
	must(t, err)
	items, err := item.NewBook(w.db, log, "local", item.Options{})
	must(t, err)
	inbox, err := source.NewMaildir(filepath.Join(dir, "mail"))
	must(t, err)
	hosted, err := source.NewHosted(items, filepath.Join(dir, "blobs"))
	must(t, err)
	files := source.Source(hosted)
	if o.files != nil {
		files = o.files(files)
	}
	w.desk = operation.New(operation.Config{Ledger: w.ledger, Sources: map[string]source.Source{"inbox": inbox, "storage": files}, Limits: o.limits})
	t.Cleanup(func() { must(t, w.desk.Close(context.Background())) })
	must(t, w.ledger.EnsureAccount(ctx, w.ada.Actor))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w.origin = "http://" + listener.Addr().String()
	w.tokens, err = oauth.NewBook(w.db, log, "local", oauth.Options{Origin: w.origin, Documents: o.fetch})
	must(t, err)
	w.consents = mcp.Consents{Tokens: w.tokens, Ledger: w.ledger}
	if o.control {
		w.control = controltest.Open(t, w.db, log, w.origin)
		o.offers = append(o.offers, mcp.NewControl(&guard.Control{Authority: w.control, Families: w.tokens, Connections: w.ledger}))
	}
	authorization, err := mcp.NewAuthorization(mcp.AuthorizationConfig{Consents: w.consents, Origin: w.origin, Scopes: oauth.Scopes, Log: slog.New(slog.NewTextHandler(testLog{t}, nil))})
	must(t, err)
	mux := http.NewServeMux()
	for _, r := range authorization.Routes() {
		mux.HandleFunc(r.Method+" "+r.Path, r.Handler)
	}
	if o.wrap == nil {
		o.wrap = func(c mcp.HTTPConfig) http.Handler { return mcp.NewHTTP(c) }
	}
	w.handler = o.wrap(mcp.HTTPConfig{Tokens: w.tokens, Offers: append([]mcp.Offer{mcp.NewAccount(w.desk, w.ledger)}, o.offers...), Origin: w.origin,
		Version: "test", Node: "n1", Log: slog.New(slog.NewTextHandler(testLog{t}, nil))})
	if h, ok := w.handler.(*mcp.HTTP); ok {
		t.Cleanup(func() { must(t, h.Close()) })
	}
	if o.before != nil {
		w.handler = o.before(w.handler)
	}
	mux.Handle("/mcp", w.handler)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testLog keeps what the server logs beside the test that caused it.
type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) { l.t.Logf("%s", bytes.TrimSpace(b)); return len(b), nil }

// everything is each function of both collections.
var everything = []tool.Selected{
	{Collection: "files", Functions: []tool.Name{tool.ListItems, tool.ReadItem, tool.WriteItem, tool.DeleteItem}},
	{Collection: "inbox", Functions: []tool.Name{tool.ListItems, tool.ReadItem, tool.WriteItem}},
}

// token makes a script's token over a selection.
func (w *world) token(selection []tool.Selected, scopes ...string) (token, connection string) {
	w.t.Helper()
	if len(scopes) == 0 {
		scopes = []string{oauth.ScopeCollections}
	}
	token, connection, err := w.consents.Issue(context.Background(), w.ada, mcp.Script{Name: "Script", Scopes: scopes, Selection: selection, Life: time.Hour})
	must(w.t, err)
	return token, connection
}

// put writes a file as Ada's own page would.
func (w *world) put(token, item, content string) {
	w.t.Helper()
	c := w.client(token)
	r := c.call("item_write", map[string]any{"collection": "files", "item": item, "request_id": uuid(), "content": content, "if_absent": true})
	if r.IsError {
		w.t.Fatalf("writing %s: %s", item, r.Structured)
	}
}

func uuid() string {
	b := make([]byte, 16)
	rand.Read(b)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// client speaks raw JSON-RPC of 2026-07-28.
type client struct {
	w     *world
	token string
	id    int
}

func (w *world) client(token string) *client { return &client{w: w, token: token} }

// answer is what came back, whatever it is.
type answer struct {
	Status     int
	Header     http.Header
	Body       string
	Result     map[string]json.RawMessage
	IsError    bool
	Structured json.RawMessage
	Code       string // of a structured refusal, or of an error's data
	Error      int    // of JSON-RPC
	ID         json.RawMessage
}

// post sends a body with headers and reads the last message of the answer.
func (w *world) post(body string, headers ...string) answer {
	w.t.Helper()
	return w.send(context.Background(), http.MethodPost, body, headers...)
}

func (w *world) send(ctx context.Context, method, body string, headers ...string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, w.origin+"/mcp", strings.NewReader(body))
	must(w.t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Content-Type" || headers[i] == "Accept" {
			req.Header.Set(headers[i], headers[i+1])
			continue
		}
		req.Header[headers[i]] = append(req.Header[headers[i]], headers[i+1]) // as it is, twice too
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{Body: err.Error()}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(w.t, err)
	return read(w.t, resp, data)
}

func read(t testing.TB, resp *http.Response, data []byte) answer {
	t.Helper()
	a := answer{Status: resp.StatusCode, Header: resp.Header, Body: string(data)}
	text := data
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "data: "); ok {
				text = []byte(rest)
			}
		}
	}
	var m struct {
		ID     json.RawMessage
		Result map[string]json.RawMessage
		Error  json.RawMessage
		Code   string
	}
	if json.Unmarshal(text, &m) != nil {
		return a
	}
	a.ID, a.Result, a.Code = m.ID, m.Result, m.Code
	var e struct {
		Code int
		Data struct{ Code string }
	}
	if json.Unmarshal(m.Error, &e) == nil {
		a.Error = e.Code
		if e.Data.Code != "" {
			a.Code = e.Data.Code
		}
	}
	if m.Result != nil {
		a.IsError = string(m.Result["isError"]) == "true"
		a.Structured = m.Result["structuredContent"]
		var s struct{ Code string }
		if a.IsError && json.Unmarshal(a.Structured, &s) == nil {
			a.Code = s.Code
		}
	}
	return a
}

// message makes a request of 2026-07-28 and the headers that mirror it.
func message(id any, method string, params map[string]any) (body string, headers []string) {
	if params == nil {
		params = map[string]any{}
	}
	params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "1"}}
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		panic(err)
	}
	headers = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name, ok := params["name"].(string); ok {
		headers = append(headers, "Mcp-Name", name)
	}
	return string(data), headers
}

// ask sends one request.
func (c *client) ask(method string, params map[string]any) answer {
	c.w.t.Helper()
	c.id++
	body, headers := message(c.id, method, params)
	return c.w.post(body, append(headers, "Authorization", "Bearer "+c.token)...)
}

func (c *client) call(name string, arguments map[string]any) answer {
	c.w.t.Helper()
	return c.ask("tools/call", map[string]any{"name": name, "arguments": arguments})
}

// names answers what is listed.
func (c *client) names() (names []string) {
	c.w.t.Helper()
	var tools []struct{ Name string }
	a := c.ask("tools/list", nil)
	if err := json.Unmarshal(a.Result["tools"], &tools); err != nil {
		c.w.t.Fatalf("tools/list answered %d %s", a.Status, a.Body)
	}
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

// browser is Ada's: it follows nothing by itself.
var browser = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// form posts a form and answers the status and the JSON.
func (w *world) form(path string, values ...string) (int, map[string]any) {
	w.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(values); i += 2 {
		form.Add(values[i], values[i+1])
	}
	resp, err := browser.PostForm(w.origin+path, form)
	must(w.t, err)
	return decoded(w.t, resp)
}

func decoded(t testing.TB, resp *http.Response) (int, map[string]any) {
	t.Helper()
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(t, err)
	var m map[string]any
	if len(data) > 0 {
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatalf("%d %s", resp.StatusCode, data)
		}
	}
	if resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s may be kept by a cache", resp.Request.URL.Path)
	}
	return resp.StatusCode, m
}

// get answers where a GET leads, or its body.
func (w *world) get(path string) (status int, location, body string) {
	w.t.Helper()
	resp, err := browser.Get(w.origin + path)
	must(w.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(w.t, err)
	return resp.StatusCode, resp.Header.Get("Location"), string(data)
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
