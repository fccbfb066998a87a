package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/surface/guard"
	"chaperone/spec"
)

const attendedArm = "/api/browser-control/attended-arm"

// page is an owner's page with tools, without a screen: it is armed as a real one is,
// through the provider, and speaks its side of the protocol over a real socket.
type page struct {
	*owner
	route   controlv1.ID
	catalog controlv1.Catalog
	nonce   controlv1.Nonce
	ws      *websocket.Conn
}

// page is a new load of the owner's page. Without facts it offers one that reads
// and one that writes.
func (o *owner) page(tools ...controlv1.Facts) *page {
	o.t.Helper()
	if len(tools) == 0 {
		tools = []controlv1.Facts{
			{ID: "look", Version: "1", Class: controlv1.Read, Confirmation: controlv1.NoConfirmation, SourceRef: "test"},
			{ID: "write", Version: "1", Class: controlv1.AccountMutation, Confirmation: controlv1.ExactRequest, SourceRef: "test"},
		}
	}
	p := &page{owner: o}
	var all []controlv1.Tool
	for _, f := range tools {
		if f.Input == nil {
			f.Input = []byte(`{"type":"object"}`)
		}
		if f.Output == nil {
			f.Output = []byte(`{"type":"object"}`)
		}
		t, err := controlv1.NewTool(f)
		if err != nil {
			o.t.Fatal(err)
		}
		all = append(all, t)
	}
	var err error
	if p.catalog, err = controlv1.NewCatalog(all); err != nil {
		o.t.Fatal(err)
	}
	if p.route, err = controlv1.ParseID("portal"); err != nil {
		o.t.Fatal(err)
	}
	return p
}

// keep keeps the cookies of an answer, and drops those that it takes back.
func (o *owner) keep(r *http.Response) {
	u, _ := url.Parse(o.s.origin)
	for _, c := range r.Cookies() {
		if c.MaxAge < 0 {
			c.Value = ""
		}
		o.agent.Plant(u.Host, c.Name, c.Value)
	}
}

// call is a call of the owner's page that sends every cookie of attended control, and
// keeps what it is given.
func (p *page) call(method, path string, body any) (int, []byte) {
	p.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(p.request(method, path, body, func(r *http.Request) {
		p.dress(r)
		for _, name := range attendedCookies {
			if c := p.agent.Cookie(name); c != "" {
				r.AddCookie(&http.Cookie{Name: name, Value: c})
			}
		}
	}))
	if err != nil {
		p.t.Fatal(err)
	}
	p.keep(resp)
	return resp.StatusCode, readAll(p.t, resp)
}

var attendedCookies = []string{"__Host-chaperone-recent", "__Host-chaperone-arm", "__Host-chaperone-document"}

// arm steps up, loads the page and finalizes it.
func (p *page) arm() {
	p.t.Helper()
	p.armBy(p.signIn)
}

func (p *page) armBy(signIn func(from string)) {
	p.t.Helper()
	var to struct {
		URL string `json:"authorization_url"`
	}
	p.must("POST", attendedArm, map[string]any{"route_id": p.route.String(), "next": "/"}, &to)
	signIn(to.URL)
	p.must("POST", "/api/browser-control/document", map[string]any{"csrf": p.csrf, "route_id": p.route.String()}, nil)
	var armed struct {
		Nonce string `json:"open_nonce"`
	}
	p.must("POST", attendedArm+"/finalize", map[string]any{"route_id": p.route.String(), "registration_generation": 1,
		"catalog_digest": p.catalog.Digest().String(), "tools": p.offer()}, &armed)
	var err error
	if p.nonce, err = controlv1.ParseNonce(armed.Nonce); err != nil {
		p.t.Fatal(err)
	}
}

// offer is what finalize is told of the page's tools.
func (p *page) offer() (tools []any) {
	for _, t := range p.catalog.Tools() {
		tools = append(tools, map[string]any{"tool_id": t.ID().String(), "schema_digest": t.Schemas().String()})
	}
	return tools
}

func (p *page) must(method, path string, body, into any) {
	p.t.Helper()
	status, data := p.call(method, path, body)
	if status > 299 {
		p.t.Fatalf("%s %s: %d %s", method, path, status, data)
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			p.t.Fatalf("%s %s: %s: %v", method, path, data, err)
		}
	}
}

// open opens the page's socket and goes on until it is ready.
func (p *page) open() {
	p.t.Helper()
	h := http.Header{"Origin": {p.s.origin}}
	for _, name := range append([]string{guard.Cookie}, attendedCookies...) {
		if c := p.agent.Cookie(name); c != "" {
			h.Add("Cookie", name+"="+c)
		}
	}
	ws, resp, err := websocket.Dial(p.t.Context(), strings.Replace(p.s.origin, "http", "ws", 1)+"/ws/browser-control", &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { ws.CloseNow() })
	ws.SetReadLimit(controlv1.MaxFrame)
	p.keep(resp)
	p.ws = ws
	generation, err := controlv1.NewGeneration(1)
	if err != nil {
		p.t.Fatal(err)
	}
	p.say(controlv1.Open{Nonce: p.nonce, Route: p.route, Generation: generation})
	p.say(controlv1.Register{Route: p.route, Generation: generation, Catalog: p.catalog})
	if f, ready := p.hear().(controlv1.Ready); !ready || f.Catalog != p.catalog.Digest() {
		p.t.Fatalf("not ready: %v", f)
	}
}

// say sends a frame.
func (p *page) say(f controlv1.PageFrame) {
	p.t.Helper()
	data, err := controlv1.EncodePage(f)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.ws.Write(p.t.Context(), websocket.MessageText, data); err != nil {
		p.t.Fatal(err)
	}
}

// hear waits for the next frame.
func (p *page) hear() controlv1.AuthorityFrame {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	_, data, err := p.ws.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	f, err := controlv1.DecodeAuthority(data)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// closed waits for the close, which must be this one.
func (p *page) closed(what string, code controlv1.Close, reason string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 60*time.Second)
	defer cancel()
	_, _, err := p.ws.Read(ctx)
	var ce websocket.CloseError
	if !errors.As(err, &ce) || ce.Code != websocket.StatusCode(code) || ce.Reason != reason {
		p.t.Errorf("%s: %v, want %d %s", what, err, code, reason)
	}
}

// armed answers what the server says is armed.
func (p *page) armed() string {
	p.t.Helper()
	var told struct {
		Status string `json:"status"`
	}
	p.must("GET", attendedArm, nil, &told)
	return told.Status
}

// TestOwnerPage compares the page's table of the owner API with a real server's
// routes: none is missing, none is made up, and what wants a fresh step-up says so.
func TestOwnerPage(t *testing.T) {
	s := stand(t, nil)
	data, err := spec.Files.ReadFile("portal-tools.md")
	if err != nil {
		t.Fatal(err)
	}
	var told, want []string
	for _, m := range regexp.MustCompile("(?m)^\\| (GET|POST|PUT|DELETE) \\| `([^`]+)` \\| ([a-z]*) ?\\|").FindAllStringSubmatch(string(data), -1) {
		told = append(told, strings.TrimSpace(m[1]+" "+m[2]+" "+strings.TrimPrefix(m[3], "wider")))
	}
	for _, route := range s.node.Routes() {
		if route.Who == guard.Owner {
			want = append(want, strings.TrimSpace(route.Method+" "+route.Path+" "+map[bool]string{true: "fresh"}[route.Fresh]))
		}
	}
	slices.Sort(told)
	slices.Sort(want)
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("spec/portal-tools.md, section 7 (-server +page):\n%s", diff)
	}
}
