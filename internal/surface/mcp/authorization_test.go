package mcp_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/oauth"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/mcp"
)

const verifier = "a-verifier-of-at-least-forty-three-characters-0123456789"

// app is a client that registered itself.
type app struct {
	w        *world
	id       string
	redirect string
}

func (w *world) app() *app {
	w.t.Helper()
	resp, err := browser.Post(w.origin+"/oauth/register", "application/json", strings.NewReader(`{"client_name":"Probe","redirect_uris":["http://127.0.0.1/cb"],
		"token_endpoint_auth_method":"client_secret_post","grant_types":["authorization_code","refresh_token"],"logo_uri":"https://x.example/"}`))
	must(w.t, err)
	status, m := decoded(w.t, resp)
	if status != http.StatusCreated || m["token_endpoint_auth_method"] != "none" || m["client_secret"] != nil || m["client_name"] != "Probe" {
		w.t.Fatalf("register: %d %v", status, m)
	}
	return &app{w, m["client_id"].(string), "http://127.0.0.1:4711/cb"}
}

// query makes an authorization request; pairs change it, "" removes.
func (a *app) query(pairs ...string) string {
	q := url.Values{"response_type": {"code"}, "client_id": {a.id}, "redirect_uri": {a.redirect}, "state": {"st&te"}, "scope": {"collections"},
		"code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"}, "resource": {a.w.origin + "/mcp"}}
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			q.Del(pairs[i])
		}
	}
	return "/oauth/authorize?" + q.Encode()
}

// ask begins a request and answers its id.
func (a *app) ask() string {
	a.w.t.Helper()
	status, location, body := a.w.get(a.query())
	id, ok := strings.CutPrefix(location, "/connect/")
	if status != http.StatusFound || !ok || len(id) != 32 {
		a.w.t.Fatalf("authorize: %d %q %s", status, location, body)
	}
	return id
}

// code answers the code of an approval, as the browser brings it.
func (a *app) code() string {
	a.w.t.Helper()
	next, err := a.w.consents.Approve(context.Background(), a.ask(), a.w.ada, everything, []string{"collections"}, 30)
	must(a.w.t, err)
	u, err := url.Parse(next)
	must(a.w.t, err)
	if q := u.Query(); !strings.HasPrefix(next, a.redirect+"?") || q.Get("state") != "st&te" || q.Get("iss") != a.w.origin {
		a.w.t.Errorf("sent to %s", next)
	}
	return u.Query().Get("code")
}

func (a *app) trade(code string, pairs ...string) (int, map[string]any) {
	a.w.t.Helper()
	values := map[string]string{"grant_type": "authorization_code", "code": code, "redirect_uri": a.redirect, "client_id": a.id, "code_verifier": verifier, "resource": a.w.origin + "/mcp"}
	for i := 0; i+1 < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	var flat []string
	for k, v := range values {
		if v != "" {
			flat = append(flat, k, v)
		}
	}
	return a.w.form("/oauth/token", flat...)
}

func TestMetadataDocuments(t *testing.T) {
	w := newWorld(t, worldOptions{})
	for path, want := range map[string]map[string]any{
		"/.well-known/oauth-protected-resource":     {"resource": w.origin + "/mcp"},
		"/.well-known/oauth-protected-resource/mcp": {"resource": w.origin + "/mcp"},
		"/.well-known/oauth-authorization-server": {"issuer": w.origin, "code_challenge_methods_supported": []any{"S256"}, "client_id_metadata_document_supported": true,
			"authorization_response_iss_parameter_supported": true, "token_endpoint_auth_methods_supported": []any{"none"}},
	} {
		_, _, body := w.get(path)
		var got map[string]any
		must(t, json.Unmarshal([]byte(body), &got))
		for k, v := range want {
			if diff := cmp.Diff(v, got[k]); diff != "" {
				t.Errorf("%s: %s: %s", path, k, diff)
			}
		}
		for k, v := range got {
			if s, ok := v.(string); ok && strings.HasSuffix(k, "_endpoint") && !strings.HasPrefix(s, w.origin+"/oauth/") {
				t.Errorf("%s: %s is %s", path, k, s)
			}
		}
	}
}

// TestAuthorize: what isn't the client's own goes nowhere, and what is wrong beyond
// that is told to the client, with the issuer.
func TestAuthorize(t *testing.T) {
	w := newWorld(t, worldOptions{})
	a := w.app()
	for name, c := range map[string]struct {
		query string
		page  string // the code that is shown
		back  string // the error that is told
	}{
		"no client":              {a.query("client_id", ""), "malformed", ""},
		"an unknown client":      {a.query("client_id", "client_"+strings.Repeat("0", 32)), "unknown", ""},
		"another redirect":       {a.query("redirect_uri", "https://evil.example/cb"), "bad_redirect", ""},
		"another path":           {a.query("redirect_uri", "http://127.0.0.1/other"), "bad_redirect", ""},
		"no redirect":            {a.query("redirect_uri", ""), "malformed", ""},
		"two redirects":          {a.query() + "&redirect_uri=x", "malformed", ""},
		"two clients":            {a.query() + "&client_id=x", "malformed", ""},
		"a document on loopback": {a.query("client_id", "https://127.0.0.1/client.json"), "bad_document", ""},
		"bad escapes":            {"/oauth/authorize?client_id=%zz", "malformed", ""},
		"a token at once":        {a.query("response_type", "token"), "", "unsupported_response_type"},
		"no challenge":           {a.query("code_challenge", ""), "", "invalid_request"},
		"a plain challenge":      {a.query("code_challenge_method", "plain"), "", "invalid_request"},
		"no method":              {a.query("code_challenge_method", ""), "", "invalid_request"},
		"a fragment's answer":    {a.query("response_mode", "fragment"), "", "invalid_request"},
		"a request object":       {a.query("request", "x"), "", "invalid_request"},
		"scope twice":            {a.query() + "&scope=owned", "", "invalid_request"},
		"an unknown scope":       {a.query("scope", "collections admin"), "", "invalid_scope"},
		"another resource":       {a.query("resource", "https://other.example/mcp"), "", "invalid_target"},
		"the bare origin":        {a.query("resource", w.origin), "", "invalid_target"},
	} {
		status, location, body := w.get(c.query)
		if c.page != "" {
			if status != http.StatusBadRequest || location != "" || !strings.Contains(body, "<code>"+c.page+"</code>") || strings.Contains(body, "evil.example") {
				t.Errorf("%s: %d %q %s", name, status, location, body)
			}
			continue
		}
		u, err := url.Parse(location)
		must(t, err)
		if q := u.Query(); status != http.StatusFound || !strings.HasPrefix(location, a.redirect+"?") || q.Get("error") != c.back || q.Get("iss") != w.origin || q.Get("state") != "st&te" || body != "" {
			t.Errorf("%s: %d %q", name, status, location)
		}
	}
	for name, query := range map[string]string{"as it should be": a.query(), "no resource": a.query("resource", ""), "no scope": a.query("scope", ""), "synonyms": a.query("scope", "kg:write collections")} {
		if status, location, _ := w.get(query); status != http.StatusFound || !strings.HasPrefix(location, "/connect/") {
			t.Errorf("%s: %d %q", name, status, location)
		}
	}
	req, err := http.NewRequest("GET", w.origin+a.query("client_id", ""), nil)
	must(t, err)
	req.Header.Set("Accept-Language", "es-ES,es;q=0.9")
	resp, err := browser.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the page: %v", resp.Header)
	}
}

func TestTokenEndpoint(t *testing.T) {
	w := newWorld(t, worldOptions{})
	a, other := w.app(), w.app()
	code := a.code()
	for name, c := range map[string]struct {
		pairs []string
		want  string
	}{
		"another client":    {[]string{"client_id", other.id}, "invalid_grant"},
		"no client":         {[]string{"client_id", ""}, "invalid_request"},
		"a secret":          {[]string{"client_secret", "x"}, "invalid_client"},
		"another redirect":  {[]string{"redirect_uri", "http://127.0.0.1:1/cb"}, "invalid_grant"},
		"no verifier":       {[]string{"code_verifier", ""}, "invalid_request"},
		"another verifier":  {[]string{"code_verifier", strings.Repeat("x", 50)}, "invalid_grant"},
		"another resource":  {[]string{"resource", w.origin}, "invalid_target"},
		"no grant type":     {[]string{"grant_type", ""}, "invalid_request"},
		"another grant":     {[]string{"grant_type", "client_credentials"}, "unsupported_grant_type"},
		"password":          {[]string{"grant_type", "password"}, "unsupported_grant_type"},
		"a code that isn't": {[]string{"code", "x"}, "invalid_grant"},
	} {
		if status, m := a.trade(code, c.pairs...); status < 400 || m["error"] != c.want {
			t.Errorf("%s: %d %v, want %s", name, status, m, c.want)
		}
	}
	status, m := a.trade(code)
	if status != 200 || m["token_type"] != "Bearer" || m["scope"] != "collections" || m["expires_in"].(float64) > 600 || m["expires_in"].(float64) < 590 {
		t.Fatalf("trade: %d %v", status, m)
	}
	access, refresh := m["access_token"].(string), m["refresh_token"].(string)
	if names := w.client(access).names(); len(names) != 5 {
		t.Errorf("tools: %v", names)
	}
	for name, c := range map[string]struct {
		pairs []string
		want  string
	}{
		"an unknown scope": {[]string{"scope", "admin"}, "invalid_scope"},
		"more scope":       {[]string{"scope", "collections owned"}, "invalid_scope"},
		"another client":   {[]string{"client_id", other.id}, "invalid_grant"},
		"an access token":  {[]string{"refresh_token", access}, "invalid_grant"},
	} {
		values := append([]string{"grant_type", "refresh_token"}, c.pairs...)
		for _, d := range [][2]string{{"refresh_token", refresh}, {"client_id", a.id}} {
			if !slicesContains(c.pairs, d[0]) {
				values = append(values, d[0], d[1])
			}
		}
		if status, m := w.form("/oauth/token", values...); status != 400 || m["error"] != c.want {
			t.Errorf("refreshing, %s: %d %v, want %s", name, status, m, c.want)
		}
	}
	status, next := w.form("/oauth/token", "grant_type", "refresh_token", "refresh_token", refresh, "client_id", a.id)
	if status != 200 || next["refresh_token"] == refresh {
		t.Fatalf("refresh: %d %v", status, next)
	}
	// The old one again: both are gone, since one of the two is a thief.
	if status, m := w.form("/oauth/token", "grant_type", "refresh_token", "refresh_token", refresh, "client_id", a.id); status != 400 || m["error"] != "invalid_grant" {
		t.Errorf("the old refresh token: %d %v", status, m)
	}
	for _, token := range []string{access, next["access_token"].(string)} {
		if a := w.client(token).ask("tools/list", nil); a.Status != 401 {
			t.Errorf("after a replay: %d %s", a.Status, a.Body)
		}
	}
	// A code twice, likewise.
	code = a.code()
	_, m = a.trade(code)
	if status, again := a.trade(code); status != 400 || again["error"] != "invalid_grant" {
		t.Errorf("a code twice: %d %v", status, again)
	}
	if a := w.client(m["access_token"].(string)).ask("tools/list", nil); a.Status != 401 {
		t.Errorf("what a replayed code gave: %d", a.Status)
	}
}

func slicesContains(all []string, s string) bool {
	for _, x := range all {
		if x == s {
			return true
		}
	}
	return false
}

// TestFormsAreReadStrictly: what two readers could read differently is refused.
func TestFormsAreReadStrictly(t *testing.T) {
	w := newWorld(t, worldOptions{})
	for name, c := range map[string]struct{ path, kind, body, auth string }{
		"a parameter twice": {"/oauth/token", "application/x-www-form-urlencoded", "grant_type=refresh_token&grant_type=x&client_id=a", ""},
		"in the query":      {"/oauth/token?client_id=a", "application/x-www-form-urlencoded", "grant_type=refresh_token", ""},
		"as JSON":           {"/oauth/token", "application/json", `{"grant_type":"refresh_token"}`, ""},
		"with a password":   {"/oauth/token", "application/x-www-form-urlencoded", "grant_type=refresh_token&client_id=a", "Basic YTpi"},
		"with semicolons":   {"/oauth/token", "application/x-www-form-urlencoded", "grant_type=refresh_token;client_id=a", ""},
		"too long":          {"/oauth/token", "application/x-www-form-urlencoded", "client_id=" + strings.Repeat("a", 17<<10), ""},
		"no token":          {"/oauth/revoke", "application/x-www-form-urlencoded", "client_id=a", ""},
	} {
		req, err := http.NewRequest("POST", w.origin+c.path, strings.NewReader(c.body))
		must(t, err)
		req.Header.Set("Content-Type", c.kind)
		if c.auth != "" {
			req.Header.Set("Authorization", c.auth)
		}
		resp, err := browser.Do(req)
		must(t, err)
		if status, m := decoded(t, resp); status != 400 && status != 401 || m["error"] != "invalid_request" && m["error"] != "invalid_client" {
			t.Errorf("%s: %d %v", name, status, m)
		}
	}
	for body, want := range map[string]string{
		`{"redirect_uris":["https://evil.example/#x"]}`: "invalid_redirect_uri", `{}`: "invalid_redirect_uri", `[]`: "invalid_client_metadata",
		`{"redirect_uris":["https://a.example/"],"client_name":"` + strings.Repeat("x", 6<<10) + `"}`: "invalid_client_metadata",
	} {
		resp, err := browser.Post(w.origin+"/oauth/register", "application/json", strings.NewReader(body))
		must(t, err)
		if status, m := decoded(t, resp); status != 400 || m["error"] != want {
			t.Errorf("%.40s: %d %v, want %s", body, status, m, want)
		}
	}
}

// TestRevocationEndsBoth: the token's family and the account's connection.
func TestRevocationEndsBoth(t *testing.T) {
	w := newWorld(t, worldOptions{})
	a, other := w.app(), w.app()
	_, m := a.trade(a.code())
	access := m["access_token"].(string)
	if status, _ := w.form("/oauth/revoke", "token", access, "client_id", other.id); status != 400 {
		t.Errorf("another client: %d", status)
	}
	if status, _ := w.form("/oauth/revoke", "token", "chap_at_"+strings.Repeat("0", 64), "client_id", a.id); status != 200 {
		t.Errorf("a token that isn't: %d", status)
	}
	if a := w.client(access).ask("tools/list", nil); a.Status != 200 {
		t.Fatalf("something took effect: %d", a.Status)
	}
	for range 2 {
		if status, _ := w.form("/oauth/revoke", "token", m["refresh_token"].(string), "token_type_hint", "refresh_token", "client_id", a.id); status != 200 {
			t.Errorf("revoke: %d", status)
		}
	}
	if a := w.client(access).ask("tools/list", nil); a.Status != 401 {
		t.Errorf("after revocation: %d %s", a.Status, a.Body)
	}
	all, err := w.ledger.Connections(t.Context(), "ada")
	if must(t, err); len(all) != 1 || all[0].State != ledger.Revoked || all[0].ClientName != "Probe" {
		t.Errorf("the ledger: %+v", all)
	}
}

// TestRateLimits: each endpoint has its own, by peer.
func TestRateLimits(t *testing.T) {
	w := newWorld(t, worldOptions{})
	for path, body := range map[string]string{"/oauth/register": "{}", "/oauth/token": "x=1", "/oauth/revoke": "x=1"} {
		limited := false
		for range 200 {
			resp, err := browser.Post(w.origin+path, "application/json", strings.NewReader(body))
			must(t, err)
			resp.Body.Close()
			if limited = resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != ""; limited {
				break
			}
		}
		if !limited {
			t.Errorf("%s has no limit", path)
		}
	}
	if status, _, _ := w.get("/.well-known/oauth-authorization-server"); status != 200 {
		t.Errorf("metadata: %d", status)
	}
}

// TestConsents: a person's yes makes exactly one connection, of what they chose.
func TestConsents(t *testing.T) {
	w := newWorld(t, worldOptions{})
	ctx, a := t.Context(), w.app()
	files := everything[:1]
	id := a.ask()
	for name, c := range map[string]struct {
		selection []tool.Selected
		scopes    []string
		days      int
		want      refusal.Code
	}{
		"nothing selected":    {nil, []string{"collections"}, 30, tool.InvalidInput},
		"an unknown one":      {[]tool.Selected{{Collection: "other", Functions: []tool.Name{tool.ReadItem}}}, []string{"collections"}, 30, tool.UnknownCollection},
		"what inbox can't":    {[]tool.Selected{{Collection: "inbox", Functions: []tool.Name{tool.DeleteItem}}}, []string{"collections"}, 30, tool.FunctionUnavailable},
		"a scope not asked":   {files, []string{"collections", "owned"}, 30, tool.InvalidInput},
		"no scope":            {files, nil, 30, tool.InvalidInput},
		"no days":             {files, []string{"collections"}, 0, tool.InvalidInput},
		"too many days":       {files, []string{"collections"}, 366, tool.InvalidInput},
		"a selection without": {files, []string{"owned"}, 30, tool.InvalidInput},
	} {
		if _, err := w.consents.Approve(ctx, id, w.ada, c.selection, c.scopes, c.days); refusal.Of(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if all, err := w.ledger.Connections(ctx, "ada"); err != nil || len(all) != 0 {
		t.Errorf("refusals left %+v, %v", all, err)
	}
	answers := make(chan error, 16)
	for range cap(answers) {
		go func() {
			_, err := w.consents.Approve(ctx, id, w.ada, files, []string{"collections"}, 30)
			answers <- err
		}()
	}
	won := 0
	for range cap(answers) {
		if err := <-answers; err == nil {
			won++
		} else if !errors.Is(err, refusal.Conflict) {
			t.Errorf("approving: %v", err)
		}
	}
	all, err := w.ledger.Connections(ctx, "ada")
	must(t, err)
	live := 0
	for _, c := range all {
		if c.State == ledger.Live {
			live++
			if diff := cmp.Diff(files, c.Selection); diff != "" || c.Expires.After(time.Now().Add(31*24*time.Hour)) {
				t.Errorf("the connection: %+v", c)
			}
		}
	}
	if won != 1 || live != 1 {
		t.Errorf("%d of 16 approvals won, and %d connections live; want 1 and 1", won, live)
	}
	if _, err := w.consents.Request(ctx, id); refusal.Of(err) != refusal.Conflict {
		t.Errorf("an answered request: %v", err)
	}
	denied := a.ask()
	next, err := w.consents.Deny(ctx, denied, w.ada)
	if must(t, err); !strings.Contains(next, "error=access_denied") || !strings.Contains(next, "iss=") {
		t.Errorf("denied: %s", next)
	}
	if err := w.consents.Revoke(ctx, "bob", all[0].ID); refusal.Of(err) != refusal.Unknown {
		t.Errorf("another person's revocation: %v", err)
	}
	_, connection := w.token(nil, oauth.ScopeOwned)
	if err := w.consents.Revoke(ctx, "bob", connection); refusal.Of(err) != refusal.Unknown {
		t.Errorf("another person's revocation of a token without collections: %v", err)
	}
	if err := w.consents.Revoke(ctx, "ada", connection); err != nil {
		t.Errorf("her own: %v", err)
	}
}

// TestNewAuthorizationChecksItsOrigin: a book of another origin would give tokens
// that nobody takes.
func TestNewAuthorizationChecksItsOrigin(t *testing.T) {
	w := newWorld(t, worldOptions{})
	if _, err := mcp.NewAuthorization(mcp.AuthorizationConfig{Consents: w.consents, Origin: "https://other.example"}); err == nil {
		t.Error("no error")
	}
}

// TestAClientByItsDocument: one that never registered is known by the document at
// its id, and the person is told that its host vouches for it.
func TestAClientByItsDocument(t *testing.T) {
	const id = "https://example.com/client.json"
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"client_id":%q,"client_name":"Reader","redirect_uris":["https://example.com/cb"],"token_endpoint_auth_method":"none"}`, id)
	}))
	defer host.Close()
	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate())
	w := newWorld(t, worldOptions{fetch: &oauth.Fetcher{
		Roots: roots,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", host.Listener.Addr().String())
		},
	}})
	a := &app{w, id, "https://example.com/cb"}
	p, err := w.consents.Request(t.Context(), a.ask())
	if must(t, err); !p.Client.Document || p.Client.Name != "Reader" || p.Client.ID != id || oauth.RedirectHost(p.Redirect) != "example.com" {
		t.Errorf("the person is asked %+v", p)
	}
	status, m := a.trade(a.code())
	if status != http.StatusOK {
		t.Fatalf("trade: %d %v", status, m)
	}
	g, err := w.tokens.Find(t.Context(), m["access_token"].(string))
	if must(t, err); g.Principal.Agent() != id || len(w.client(m["access_token"].(string)).names()) != 5 {
		t.Errorf("the grant: %+v", g)
	}
}
