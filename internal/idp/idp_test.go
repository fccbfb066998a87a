package idp_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/audit"
	"chaperone/internal/credential"
	"chaperone/internal/idp"
	"chaperone/internal/idptest"
	"chaperone/internal/oidc"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
	"chaperone/web"
)

func TestMain(m *testing.M) { storetest.Main(m, nil) }

// site is a server with its own provider.
type site struct {
	origin   string
	sessions *session.Book
	people   *credential.Book
	provider *idp.Provider
	party    *oidc.Party
	mux      *http.ServeMux
}

func newSite(t testing.TB, db *store.DB, origin string) *site {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	must(err)
	s := &site{origin: origin, mux: http.NewServeMux()}
	s.sessions, err = session.NewBook(db, log, "local", session.Options{})
	must(err)
	key := make([]byte, 32)
	rand.Read(key)
	s.people, err = credential.NewBook(db, log, "local", credential.Options{Origin: origin, Key: key})
	must(err)
	s.provider, err = idp.New(idp.Config{Origin: origin, Credentials: s.people})
	must(err)
	s.party, err = oidc.New(context.Background(), oidc.Config{
		Issuer: s.provider.Issuer(), ClientID: idp.ClientID, ClientSecret: s.provider.ClientSecret(), Origin: origin,
		ACRValues: []string{credential.Passkeyed}, Introspection: true, HTTP: s.provider.Client(),
	}, s.sessions, nil)
	must(err)
	must(s.party.Ready(context.Background()))
	s.mux.Handle("/idp/", s.provider)
	s.mux.HandleFunc("GET /auth/login", s.party.SignIn)
	s.mux.HandleFunc("GET /auth/callback", s.party.Callback)
	s.mux.HandleFunc("GET /auth/callback.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		http.ServeFileFS(w, r, web.Dist, "dist/callback.js")
	})
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>home</title>")
	})
	t.Cleanup(func() {
		if err := db.View(context.Background(), func(tx *store.Tx) error {
			if err := session.Check(tx); err != nil {
				return err
			}
			return credential.Check(tx)
		}); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
	return s
}

// person is somebody with a browser and an authenticator.
type person struct {
	t     testing.TB
	site  *site
	agent *idptest.Agent
	key   *idptest.Authenticator
	codes []string
	id    string
}

func (s *site) browser() *idptest.Agent { return &idptest.Agent{Origin: s.origin, Handler: s.mux} }

// call sends a message to the pages' endpoints, with the cookies of an agent.
func (s *site) call(t testing.TB, a *idptest.Agent, path string, message any, headers map[string]string) (int, map[string]json.RawMessage) {
	t.Helper()
	data, err := json.Marshal(message)
	if raw, ok := message.(string); ok {
		data, err = []byte(raw), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, s.origin+"/idp/api/"+path, strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", s.origin)
	for name, value := range headers {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if cookie := a.Cookie(idp.Cookie); cookie != "" {
		r.AddCookie(&http.Cookie{Name: idp.Cookie, Value: cookie})
	}
	resp, err := a.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s may be stored", path)
	}
	out := map[string]json.RawMessage{}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Fatalf("%s: %d, %v", path, resp.StatusCode, err)
	}
	return resp.StatusCode, out
}

func (s *site) enrol(t testing.TB, name string) *person {
	t.Helper()
	p := &person{t: t, site: s, agent: s.browser(), key: &idptest.Authenticator{Origin: s.origin, RPID: "localhost", Counting: true}}
	secret, err := s.people.Enrolment(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	_, out := s.call(t, p.agent, "enrol/begin", map[string]any{"secret": secret, "name": name}, nil)
	answer, err := p.key.Create(out["options"])
	if err != nil {
		t.Fatal(err)
	}
	status, out := s.call(t, p.agent, "enrol/finish", map[string]any{"secret": secret, "name": name, "response": json.RawMessage(answer)}, nil)
	if status != http.StatusOK || json.Unmarshal(out["codes"], &p.codes) != nil || len(p.codes) != credential.Codes {
		t.Fatalf("%d %s", status, out)
	}
	all, err := s.people.People(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p.id = all[len(all)-1].ID
	return p
}

// open goes to a page that must be the login, and answers its request's id.
func (p *person) open(to string) string {
	p.t.Helper()
	page, err := p.agent.Get(to)
	if err != nil {
		p.t.Fatal(err)
	}
	if page.URL.Path != "/idp/login" || page.Status != http.StatusOK {
		p.t.Fatalf("came to %s: %d\n%s", page.URL, page.Status, page.Body)
	}
	return page.URL.Query().Get("authRequestID")
}

// answer proves a request with the passkey and goes on to the end.
func (p *person) answer(request string) idptest.Page {
	p.t.Helper()
	_, out := p.site.call(p.t, p.agent, "login/begin", map[string]any{"request": request}, nil)
	answer, err := p.key.Get(out["options"])
	if err != nil {
		p.t.Fatal(err)
	}
	status, out := p.site.call(p.t, p.agent, "login/finish", map[string]any{"request": request, "response": json.RawMessage(answer)}, nil)
	return p.goOn(status, out)
}

func (p *person) goOn(status int, out map[string]json.RawMessage) idptest.Page {
	p.t.Helper()
	var to string
	if status != http.StatusOK || json.Unmarshal(out["redirect"], &to) != nil {
		p.t.Fatalf("%d %s", status, out)
	}
	page, err := p.agent.Get(to)
	if err != nil {
		p.t.Fatal(err)
	}
	return page
}

func (p *person) session() session.Session {
	p.t.Helper()
	s, err := p.site.sessions.Find(context.Background(), p.agent.Cookie(oidc.SessionCookie))
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

const origin = "http://localhost:7080"

// The whole of it, without a network: enrol, sign in, step up, sign out.
func TestOneServer(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db, origin)
		ctx := context.Background()
		ann := s.enrol(t, "Ann")
		page := ann.answer(ann.open("/auth/login?next=/collections"))
		if page.Status != http.StatusOK || page.Meta("next") != "/collections" || page.Meta("session-key") == "" || page.URL.Query().Get("iss") != s.provider.Issuer() {
			t.Fatalf("%s: %d\n%s", page.URL, page.Status, page.Body)
		}
		in := ann.session()
		if in.Actor != ann.id || in.Name != "Ann" || in.ACR != credential.Passkeyed || !in.Fresh(time.Now()) || in.Recovery || in.SID == "" || len(in.Roles) != 1 || in.AccessUntil.IsZero() {
			t.Errorf("session: %s %s %s %s %v", in.Actor, in.Name, in.ACR, in.SID, in.Roles)
		}
		to, cookie, err := s.party.StepUp(ctx, in, "/settings")
		if err != nil {
			t.Fatal(err)
		}
		ann.agent.Plant("localhost:7080", cookie.Name, cookie.Value)
		if page = ann.answer(ann.open(to)); page.Status != http.StatusOK || page.Meta("session-key") != "" || page.Meta("next") != "/settings" {
			t.Fatalf("%d\n%s", page.Status, page.Body)
		}
		up := ann.session()
		if up.ID != in.ID || up.Generation != 2 {
			t.Errorf("stepped up to %d", up.Generation)
		}
		if err := s.provider.Stands(ctx, up.Tokens().Access, ann.id); err != nil {
			t.Errorf("a good token: %v", err)
		}
		if _, err := s.party.Introspect(ctx, up.Tokens().Access, ann.id); err != nil {
			t.Error(err)
		}
		out, err := s.party.Logout(ctx, up)
		if err != nil {
			t.Fatal(err)
		}
		if page, err = ann.agent.Get(out); err != nil || page.URL.Path != "/" || page.Status != http.StatusOK {
			t.Errorf("signing out came to %s: %d %v\n%s", page.URL, page.Status, err, page.Body)
		}
		for _, of := range [][2]string{{up.Tokens().Access, ann.id}, {"x", ann.id}, {"", ann.id}} {
			if err := s.provider.Stands(ctx, of[0], of[1]); refusal.Of(err) != refusal.Inactive {
				t.Errorf("a token that isn't good: %v", err)
			}
		}
		if _, err := s.party.Introspect(ctx, up.Tokens().Access, ann.id); refusal.Of(err) != refusal.Inactive {
			t.Errorf("its token afterwards: %v", err)
		}
	})
}

func TestRecoveryNeverStepsUp(t *testing.T) {
	s := newSite(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), origin)
	ann := s.enrol(t, "Ann")
	request := ann.open("/auth/login")
	page := ann.goOn(s.call(t, ann.agent, "login/recover", map[string]any{"request": request, "code": ann.codes[3]}, nil))
	if page.Status != http.StatusOK {
		t.Fatalf("%d\n%s", page.Status, page.Body)
	}
	in := ann.session()
	if !in.Recovery || in.Fresh(time.Now()) || in.ACR != credential.Recovered {
		t.Errorf("%v %s", in.Recovery, in.ACR)
	}
	to, cookie, err := s.party.StepUp(context.Background(), in, "/")
	if err != nil {
		t.Fatal(err)
	}
	ann.agent.Plant("localhost:7080", cookie.Name, cookie.Value)
	request = ann.open(to)
	if status, out := s.call(t, ann.agent, "login/recover", map[string]any{"request": request, "code": ann.codes[4]}, nil); status != http.StatusForbidden || string(out["code"]) != `"bad_acr"` {
		t.Errorf("%d %s", status, out)
	}
	// A person who edits the level in the address gets in at it, and no further.
	to, cookie, err = s.party.StepUp(context.Background(), in, "/")
	if err != nil {
		t.Fatal(err)
	}
	ann.agent.Plant("localhost:7080", cookie.Name, cookie.Value)
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("acr_values", credential.Recovered)
	u.RawQuery = q.Encode()
	request = ann.open(u.String())
	page = ann.goOn(s.call(t, ann.agent, "login/recover", map[string]any{"request": request, "code": ann.codes[4]}, nil))
	if page.Status != http.StatusForbidden || !strings.Contains(page.Body, "bad_acr") {
		t.Errorf("an edited level: %d\n%s", page.Status, page.Body)
	}
}

// Somebody who begins a sign-in and sends another person its link gets nothing.
func TestRequestsBelongToTheirBrowser(t *testing.T) {
	s := newSite(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), origin)
	ann, eve := s.enrol(t, "Ann"), s.enrol(t, "Eve")
	request := eve.open("/auth/login")
	page, err := ann.agent.Get("/idp/login?authRequestID=" + request)
	if err != nil || page.Status != http.StatusBadRequest {
		t.Errorf("another browser is shown the page: %d %v", page.Status, err)
	}
	if status, out := s.call(t, ann.agent, "login/begin", map[string]any{"request": request}, nil); status != http.StatusConflict {
		t.Errorf("another browser may answer: %d %s", status, out)
	}
	ann.open("/auth/login") // has a cookie of its own now
	if status, out := s.call(t, ann.agent, "login/begin", map[string]any{"request": request}, nil); status != http.StatusConflict {
		t.Errorf("another browser may answer: %d %s", status, out)
	}
	// Eve's browser answers; nobody else fetches the code.
	_, out := s.call(t, eve.agent, "login/begin", map[string]any{"request": request}, nil)
	answer, err := eve.key.Get(out["options"])
	if err != nil {
		t.Fatal(err)
	}
	if status, out := s.call(t, eve.agent, "login/finish", map[string]any{"request": request, "response": json.RawMessage(answer)}, nil); status != http.StatusOK {
		t.Fatalf("%d %s", status, out)
	}
	page, err = ann.agent.Get("/idp/authorize/callback?id=" + request)
	if err != nil || page.Status != http.StatusBadRequest || page.URL.Path != "/idp/authorize/callback" {
		t.Errorf("another browser fetched the code: %s %d %v", page.URL, page.Status, err)
	}
	page, err = eve.agent.Get("/idp/authorize/callback?id=" + request)
	if err != nil || page.Status != http.StatusOK || eve.session().Actor != eve.id {
		t.Errorf("its own browser: %d %v", page.Status, err)
	}
	page, err = eve.agent.Get("/idp/authorize/callback?id=" + request)
	if err != nil || strings.Contains(page.URL.String(), "code=") {
		t.Errorf("a second code: %s %v", page.URL, err)
	}
}

func TestDiscovery(t *testing.T) {
	s := newSite(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), origin)
	page, err := s.browser().Get("/idp/.well-known/openid-configuration")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(page.Body), &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"issuer": origin + "/idp", "authorization_endpoint": origin + "/idp/authorize", "token_endpoint": origin + "/idp/oauth/token",
		"jwks_uri": origin + "/idp/keys", "end_session_endpoint": origin + "/idp/end_session", "introspection_endpoint": origin + "/idp/oauth/introspect",
		"acr_values_supported": []any{credential.Passkeyed, credential.Recovered}, "authorization_response_iss_parameter_supported": true,
		"response_types_supported": []any{"code"}, "grant_types_supported": []any{"authorization_code"},
		"code_challenge_methods_supported": []any{"S256"}, "id_token_signing_alg_values_supported": []any{"ES256"},
	}
	for name := range doc {
		if _, asked := want[name]; !asked {
			delete(doc, name)
		}
	}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Error(diff)
	}
}

// What op would let pass is refused, and what it offers besides isn't there.
func TestRequestsRefused(t *testing.T) {
	s := newSite(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), origin)
	good := url.Values{
		"response_type": {"code"}, "client_id": {idp.ClientID}, "redirect_uri": {origin + "/auth/callback"}, "scope": {"openid profile"}, "state": {"s"}, "nonce": {"n"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	for name, c := range map[string]struct {
		change func(url.Values)
		back   string // error that goes to the client, "" where nothing may
	}{
		"no PKCE":             {func(q url.Values) { q.Del("code_challenge") }, "invalid_request"},
		"plain PKCE":          {func(q url.Values) { q.Set("code_challenge_method", "plain") }, "invalid_request"},
		"no method":           {func(q url.Values) { q.Del("code_challenge_method") }, "invalid_request"},
		"prompt none":         {func(q url.Values) { q.Set("prompt", "none") }, "login_required"},
		"implicit":            {func(q url.Values) { q.Set("response_type", "id_token") }, "unsupported_response_type"},
		"form_post":           {func(q url.Values) { q.Set("response_mode", "form_post") }, "invalid_request"},
		"no nonce":            {func(q url.Values) { q.Del("nonce") }, "invalid_request"},
		"no state":            {func(q url.Values) { q.Del("state") }, "invalid_request"},
		"no openid":           {func(q url.Values) { q.Set("scope", "profile") }, "invalid_scope"},
		"a request's address": {func(q url.Values) { q.Set("request_uri", "https://evil.example") }, "request_uri_not_supported"},
		"another level":       {func(q url.Values) { q.Set("acr_values", "urn:evil") }, "invalid_request"},
		"consent":             {func(q url.Values) { q.Set("prompt", "consent") }, "invalid_request"},
		"two states":          {func(q url.Values) { q.Add("state", "t") }, ""},
		"another client":      {func(q url.Values) { q.Set("client_id", "other") }, ""},
		"another redirect":    {func(q url.Values) { q.Set("redirect_uri", "https://evil.example/") }, ""},
		"a longer redirect":   {func(q url.Values) { q.Set("redirect_uri", origin+"/auth/callback/..") }, ""},
		"no redirect":         {func(q url.Values) { q.Del("redirect_uri") }, ""},
		"a request object":    {func(q url.Values) { q.Set("request", "a.b.c") }, "request_not_supported"},
	} {
		q, err := url.ParseQuery(good.Encode())
		if err != nil {
			t.Fatal(err)
		}
		c.change(q)
		a := s.browser()
		var back *url.URL
		a.Stop = func(u *url.URL) bool {
			if u.Path == "/idp/authorize" {
				return false
			}
			back = u
			return true
		}
		page, err := a.Get("/idp/authorize?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.back == "" && (back != nil || page.Status != http.StatusBadRequest || strings.Contains(page.Body, "evil")):
			t.Errorf("%s: went to %v, %d\n%s", name, back, page.Status, page.Body)
		case c.back != "" && (back == nil || back.Path != "/auth/callback"):
			t.Errorf("%s: went to %v (%d %s)", name, back, page.Status, page.Body)
		case c.back != "" && (back.Query().Get("error") != c.back || back.Query().Get("iss") != s.provider.Issuer()):
			t.Errorf("%s: went back with %v", name, back.Query())
		}
	}
	for _, path := range []string{"/idp/healthz", "/idp/ready", "/idp/device_authorization", "/idp/", "/idp/x", "/idp/api/people"} {
		if page, err := s.browser().Get(path); err != nil || page.Status != http.StatusNotFound {
			t.Errorf("%s: %d %v", path, page.Status, err)
		}
	}
	for path, form := range map[string]url.Values{
		"/idp/oauth/token":      {"grant_type": {"authorization_code"}, "code": {"x"}, "client_id": {idp.ClientID}, "client_secret": {s.provider.ClientSecret()}, "redirect_uri": {origin + "/auth/callback"}, "code_verifier": {"x"}},
		"/idp/oauth/introspect": {"token": {"x"}, "client_id": {idp.ClientID}},
		"/idp/revoke":           {"token": {"x"}, "client_id": {"other"}},
	} {
		if page, err := s.browser().Post(path, form); err != nil || page.Status == http.StatusOK || page.Status >= 500 {
			t.Errorf("%s: %d %v\n%s", path, page.Status, err, page.Body)
		}
	}
	for _, grant := range []string{"client_credentials", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:grant-type:device_code", "password"} {
		r, err := http.NewRequest(http.MethodPost, origin+"/idp/oauth/token", strings.NewReader(url.Values{"grant_type": {grant}, "refresh_token": {"x"}, "assertion": {"x"}, "device_code": {"x"}, "subject_token": {"x"}, "subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(idp.ClientID, s.provider.ClientSecret())
		resp, err := s.browser().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK || resp.StatusCode >= 500 {
			t.Errorf("%s was answered %d", grant, resp.StatusCode)
		}
	}
}

func TestCallsRefused(t *testing.T) {
	s := newSite(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), origin)
	secret, err := s.people.Enrolment(context.Background(), "Ann")
	if err != nil {
		t.Fatal(err)
	}
	good := map[string]any{"secret": secret}
	for name, c := range map[string]struct {
		message any
		headers map[string]string
		status  int
	}{
		"good":              {good, nil, 200},
		"no origin":         {good, map[string]string{"Origin": ""}, 403},
		"origin null":       {good, map[string]string{"Origin": "null"}, 403},
		"another origin":    {good, map[string]string{"Origin": "http://localhost:7081"}, 403},
		"another scheme":    {good, map[string]string{"Origin": "https://localhost:7080"}, 403},
		"as text":           {good, map[string]string{"Content-Type": "text/plain"}, 422},
		"an unknown member": {`{"secret":"` + secret + `","x":1}`, nil, 422},
		"a member twice":    {`{"secret":"` + secret + `","secret":"x"}`, nil, 422},
		"another case":      {`{"Secret":"` + secret + `"}`, nil, 422},
		"a list":            {`[]`, nil, 422},
		"nothing":           {``, nil, 422},
		"too much":          {`{"name":"` + strings.Repeat("a", 70000) + `"}`, nil, 422},
		"another link":      {map[string]any{"secret": strings.Repeat("0", 64)}, nil, 403},
	} {
		if status, out := s.call(t, s.browser(), "enrol/open", c.message, c.headers); status != c.status {
			t.Errorf("%s: %d %s", name, status, out)
		}
	}
}

// What never leaves the process is answered for this issuer alone.
func TestInProcessClient(t *testing.T) {
	s := newSite(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), origin)
	for to, ok := range map[string]bool{
		origin + "/idp/keys": true, "http://localhost:7081/idp/keys": false, "https://localhost:7080/idp/keys": false, origin + "/auth/login": false, "http://evil.example/idp/keys": false,
	} {
		resp, err := s.provider.Client().Get(to)
		if (err == nil) != ok {
			t.Errorf("%s: %v", to, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}

// The provider's answers to the client are logged nowhere and hold no secret of
// the people's book.
func TestWordsAreComplete(t *testing.T) {
	for name, missing := range idp.Missing() {
		t.Errorf("%s lacks %v", name, missing)
	}
}

// Nothing that a caller sends comes back in an answer or stands in the log: not
// even where the library refuses it in words of its own.
func TestWordsOfCallers(t *testing.T) {
	var logged bytes.Buffer
	was, flags, prefix := log.Writer(), log.Flags(), log.Prefix()
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(was); log.SetFlags(flags); log.SetPrefix(prefix) })
	s := newSite(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), origin)
	const canary = "CANARYq7"
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	token := func(claims string) string { return part(`{"alg":"none"}`) + "." + part(claims) + "." }
	values := []string{canary, canary + ".x.y", "http://[::1" + canary, token(`{"exp":"` + canary + `"}`), token(`{"iss":"` + canary + `"}`), token(`{"iss":["` + canary + `"]}`),
		token(`{"email_verified":"` + canary + `"}`), token(`{"iss":"` + s.provider.Issuer() + `","sub":"` + canary + `","aud":"` + idp.ClientID + `","exp":9999999999}`)}
	look := func(what string, page idptest.Page, err error) {
		t.Helper()
		if err != nil || page.Status >= 500 || page.Status < 400 || strings.Contains(page.Body+fmt.Sprint(page.Header), canary) {
			t.Errorf("%s: %d %v %s %v", what, page.Status, err, page.Body, page.Header)
		}
	}
	for _, v := range values {
		for _, name := range []string{"id_token_hint", "client_id", "post_logout_redirect_uri"} {
			page, err := s.browser().Get("/idp/end_session?" + url.Values{name: {v}}.Encode())
			look("end_session "+name, page, err)
		}
		for _, path := range []string{"/idp/oauth/token", "/idp/oauth/introspect", "/idp/revoke"} {
			for _, name := range []string{"code", "token", "client_id", "client_assertion", "token_type_hint", "grant_type"} {
				form := url.Values{"grant_type": {"authorization_code"}, "code": {"x"}, "token": {"x"}, "redirect_uri": {origin + "/auth/callback"},
					"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}}
				form.Set(name, v)
				page, err := s.browser().Post(path, form)
				look(path+" "+name, page, err)
			}
		}
		r, err := http.NewRequest(http.MethodGet, origin+"/idp/userinfo", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+v)
		resp, err := s.browser().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		look("userinfo", idptest.Page{Status: resp.StatusCode, Body: string(body), Header: resp.Header}, err)
	}
	if strings.Contains(logged.String(), canary) {
		t.Errorf("the log holds what was sent:\n%s", logged.String())
	}
}
