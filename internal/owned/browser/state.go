package browser

import (
	"context"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/go-json-experiment/json"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// Bounds of an imported state.
const (
	maxCookies = 1000
	maxOrigins = 50
	maxItems   = 1000 // of one origin's storage
)

// ImportResult answers ImportState.
type ImportResult struct {
	Cookies int `json:"cookies"`
	Origins int `json:"origins"`
	Items   int `json:"items"` // of all storages
}

// state is the imported document. Its names are those of the storage state that
// other browser tools write; another name is refused.
type state struct {
	Cookies []cookie `json:"cookies"`
	Origins []origin `json:"origins"`
}

type cookie struct {
	Name     string  `json:"name"`
	Value    string  `json:"value"`
	Domain   string  `json:"domain"` // a leading dot: subdomains too
	Path     string  `json:"path"`
	Expires  float64 `json:"expires"` // seconds since 1970; -1 or 0: the session's
	HTTPOnly bool    `json:"httpOnly"`
	Secure   bool    `json:"secure"`
	SameSite string  `json:"sameSite"` // Strict, Lax, None or nothing
}

type origin struct {
	Origin         string `json:"origin"`
	LocalStorage   []item `json:"localStorage"`
	SessionStorage []item `json:"sessionStorage"`
}

type item struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// secretive lists the actions that could read an imported sign-in back. After an
// import only a scope whose actions name them has them.
var secretive = []string{ownedv1.ActionEvalJS, ownedv1.ActionPageSource, ActionNetworkLog}

// guarded answers why an action is refused after an import, or nil.
func (b *Browser) guarded(name string) *Failure {
	b.mu.Lock()
	imported := b.imported
	b.mu.Unlock()
	if !imported || !slices.Contains(secretive, name) || b.config.Scope.NamesAction(name) {
		return nil
	}
	f := failed(refusal.ScopeDenied, "it could read the imported state back")
	f.Rule, f.Fix = "import_state", "actions: […, "+name+"]"
	return f
}

// importState sets cookies and storage. The whole state is judged before any of
// it is set. Storage needs a document of its origin: an empty one is served by
// ourselves to the active tab, so nothing of the site runs meanwhile, and the tab
// ends at about:blank.
func importState(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	p := a.(ImportState)
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	raw := []byte(p.State)
	if p.File != "" {
		if raw, err = on.b.stateFile(p.File); err != nil {
			return nil, err
		}
	}
	s, err := decodeState(raw)
	if err != nil {
		return nil, err
	}
	if err := on.b.judgeState(s, time.Now()); err != nil {
		return nil, err
	}
	// From here on the run holds secrets, whatever becomes of the rest.
	on.b.mu.Lock()
	on.b.imported = true
	on.b.mu.Unlock()
	on.sent = true
	if err := t.setCookies(ctx, s.Cookies); err != nil {
		return nil, err
	}
	r := ImportResult{Cookies: len(s.Cookies), Origins: len(s.Origins)}
	for _, o := range s.Origins {
		if err := t.fillStorage(ctx, o); err != nil {
			return nil, err
		}
		r.Items += len(o.LocalStorage) + len(o.SessionStorage)
	}
	if len(s.Origins) > 0 {
		return r, t.visit(ctx, blankURL)
	}
	return r, nil
}

func (b *Browser) stateFile(name string) ([]byte, error) {
	file, err := b.hostFile(name, MaxStateBytes)
	if err != nil {
		return nil, err
	}
	defer file.Close() // read only: nothing is lost
	raw, err := io.ReadAll(io.LimitReader(file, MaxStateBytes))
	if err != nil {
		return nil, failed(refusal.Failed, "the file can't be read")
	}
	return raw, nil
}

// decodeState reads a state strictly. An error names no value: they are secrets.
func decodeState(raw []byte) (state, error) {
	var s state
	if len(raw) > MaxStateBytes {
		return s, failed(refusal.TooLarge, "the state is over %d MiB", MaxStateBytes>>20)
	}
	if err := json.Unmarshal(raw, &s, json.RejectUnknownMembers(true)); err != nil {
		return s, failed(refusal.Failed, "the state isn't {cookies: […], origins: […]} with the members of a storage state")
	}
	if len(s.Cookies) > maxCookies || len(s.Origins) > maxOrigins {
		return s, failed(refusal.TooLarge, "the state has over %d cookies or %d origins", maxCookies, maxOrigins)
	}
	for i := range s.Cookies {
		c := &s.Cookies[i]
		if c.Path == "" {
			c.Path = "/"
		}
		if c.Name == "" || c.Domain == "" || !strings.HasPrefix(c.Path, "/") || !slices.Contains([]string{"", "Strict", "Lax", "None"}, c.SameSite) {
			return s, failed(refusal.Failed, "cookie %d lacks a name, a domain, a path or a known sameSite", i)
		}
	}
	for i, o := range s.Origins {
		u, err := url.Parse(o.Origin)
		if err != nil || u.Host == "" || u.User != nil || o.Origin != u.Scheme+"://"+u.Host || len(o.LocalStorage) > maxItems || len(o.SessionStorage) > maxItems {
			return s, failed(refusal.Failed, "origin %d isn't written scheme://host[:port], or holds over %d items", i, maxItems)
		}
	}
	return s, nil
}

// judgeState refuses a state of which any part is for a host out of scope.
func (b *Browser) judgeState(s state, at time.Time) error {
	for _, c := range s.Cookies {
		d := b.judgeHost(strings.TrimPrefix(c.Domain, "."), c.Secure, c.Path, at)
		if !d.Allowed && strings.HasPrefix(c.Domain, ".") {
			// A rule for *.example.com doesn't hold the apex, yet such a cookie is for it.
			d = b.judgeHost("any"+c.Domain, c.Secure, c.Path, at)
		}
		if !d.Allowed {
			return denied(d)
		}
	}
	for _, o := range s.Origins {
		target, err := scope.ParseURL(o.Origin + "/")
		if err != nil {
			return failed(refusal.Malformed, "an origin of the state isn't a host that can be judged")
		}
		target.Method = "GET"
		if d := b.config.Scope.Decide(target, at); !d.Allowed && d.Code != refusal.BadPath {
			return denied(d)
		}
	}
	return nil
}

// judgeHost judges a cookie's host. A cookie has no port and goes with any
// method, so a rule that leaves out only those holds the host all the same.
func (b *Browser) judgeHost(host string, secure bool, path string, at time.Time) scope.Decision {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	target, err := scope.ParseURL(scheme + "://" + host + "/")
	if err != nil {
		return scope.Decision{Code: refusal.Malformed, Rule: "no rule"}
	}
	target.Method = "GET"
	d := b.config.Scope.Decide(target, at)
	switch d.Code {
	case refusal.BadPort, refusal.BadPath, refusal.BadMethod, refusal.BadScheme:
		d.Allowed = true
	}
	return d
}

func (t *tab) setCookies(ctx context.Context, cookies []cookie) error {
	if len(cookies) == 0 {
		return nil
	}
	list := make([]*network.CookieParam, len(cookies))
	for i, c := range cookies {
		scheme := "http://"
		if c.Secure {
			scheme = "https://"
		}
		p := &network.CookieParam{
			Name: c.Name, Value: c.Value, Path: c.Path, Secure: c.Secure, HTTPOnly: c.HTTPOnly, SameSite: network.CookieSameSite(c.SameSite),
			URL: scheme + strings.TrimPrefix(c.Domain, ".") + "/",
		}
		if strings.HasPrefix(c.Domain, ".") {
			p.Domain = c.Domain // without a dot the cookie is that host's alone
		}
		if c.Expires > 0 {
			p.Expires = cdp.TimeSinceEpoch(c.Expires)
		}
		list[i] = p
	}
	if _, err := cdp.Call(ctx, t.s, network.SetCookies, network.SetCookiesParams{Cookies: list}); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return failed(refusal.Failed, "the browser refused a cookie of the state")
	}
	return nil
}

// fillStorage opens an empty document of an origin, fills its storages and reads
// them back.
func (t *tab) fillStorage(ctx context.Context, o origin) error {
	address := o.Origin + "/"
	t.b.mu.Lock()
	t.planted = address
	t.b.mu.Unlock()
	defer func() {
		t.b.mu.Lock()
		t.planted = ""
		t.b.mu.Unlock()
	}()
	if err := t.visit(ctx, address); err != nil {
		return err
	}
	main, err := t.mainFrame()
	if err != nil {
		return err
	}
	at, err := ask[string](ctx, t, main, "fillStorage", o.LocalStorage, o.SessionStorage)
	if err != nil {
		return err
	}
	if at != o.Origin {
		return failed(refusal.Failed, "an origin's storage doesn't take the state")
	}
	return nil
}

// visit navigates the tab and waits for the load.
func (t *tab) visit(ctx context.Context, address string) error {
	r, err := cdp.Call(ctx, t.s, page.Navigate, page.NavigateParams{URL: address})
	if err != nil {
		return err
	}
	if r.ErrorText != "" {
		return failed(refusal.Failed, "%s", r.ErrorText)
	}
	return t.loaded(ctx, r.LoaderID)
}

// serve answers the request for the empty document that fillStorage waits for.
// It runs on the reading goroutine, after the scope has allowed the request.
func (b *Browser) serve(r request) bool {
	b.mu.Lock()
	t := b.mainFrame(r)
	mine := t != nil && t.planted != "" && r.Request.URL == t.planted && r.Type == network.ResourceTypeDocument
	b.mu.Unlock()
	if mine {
		b.engine.post(fetch.FulfillRequest.Method, fetch.FulfillRequestParams{
			RequestID: r.ID, ResponseCode: 200, Body: []byte("<!doctype html>"),
			ResponseHeaders: []*fetch.HeaderEntry{{Name: "Content-Type", Value: "text/html"}, {Name: "Cache-Control", Value: "no-store"}},
		})
	}
	return mine
}
