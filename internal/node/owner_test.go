package node_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"chaperone/internal/idp"
	"chaperone/internal/idptest"
	"chaperone/internal/surface/guard"
)

// owner is a signed-in person without a screen: an agent of the server's pages with
// a passkey of its own.
type owner struct {
	t      testing.TB
	s      *server
	agent  *idptest.Agent
	key    *idptest.Authenticator
	secret string // X-Session-Key
	csrf   string
}

// over hands an agent's requests to the server's own port.
type over struct{}

func (over) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", r.Host
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
}

// settle enrols the first person and signs them in.
func (s *server) settle(name string) *owner {
	s.t.Helper()
	w, err := s.node.Welcome(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	_, link, _ := strings.Cut(w.Enrolment, "#")
	return s.settleBy(link, name)
}

func (s *server) settleBy(link, name string) *owner {
	s.t.Helper()
	o := &owner{t: s.t, s: s, agent: &idptest.Agent{Origin: s.origin, Handler: over{}},
		key: &idptest.Authenticator{Origin: s.origin, RPID: "localhost", Counting: true}}
	begun := o.provider("enrol/begin", map[string]any{"secret": link, "name": name})
	made, err := o.key.Create(begun["options"])
	if err != nil {
		s.t.Fatal(err)
	}
	o.provider("enrol/finish", map[string]any{"secret": link, "name": name, "response": json.RawMessage(made)})
	o.signIn("/auth/login?next=/")
	return o
}

// provider calls an endpoint of the provider's own pages.
func (o *owner) provider(path string, message any) map[string]json.RawMessage {
	o.t.Helper()
	status, body := o.send("POST", "/idp/api/"+path, message, func(r *http.Request) {
		r.Header.Set("Origin", o.s.origin)
		if c := o.agent.Cookie(idp.Cookie); c != "" {
			r.AddCookie(&http.Cookie{Name: idp.Cookie, Value: c})
		}
	})
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &out); err != nil || status != http.StatusOK {
		o.t.Fatalf("%s: %d %s", path, status, body)
	}
	return out
}

// signIn goes through the provider from a URL of the server's, and reads the
// session's secrets where the server hands them out.
func (o *owner) signIn(from string) {
	o.t.Helper()
	page, err := o.agent.Get(from)
	if err != nil {
		o.t.Fatal(err)
	}
	request := page.URL.Query().Get("authRequestID")
	begun := o.provider("login/begin", map[string]any{"request": request})
	response, err := o.key.Get(begun["options"])
	if err != nil {
		o.t.Fatal(err)
	}
	done := o.provider("login/finish", map[string]any{"request": request, "response": json.RawMessage(response)})
	var next string
	if err := json.Unmarshal(done["redirect"], &next); err != nil {
		o.t.Fatal(err)
	}
	if page, err = o.agent.Get(next); err != nil {
		o.t.Fatal(err)
	}
	o.enter(page)
}

// enter reads the session's secrets from the page that ends a sign-in. After a
// step-up the key stays what it was.
func (o *owner) enter(page idptest.Page) {
	o.t.Helper()
	if key := page.Meta("session-key"); key != "" {
		o.secret = key
	}
	var told struct {
		CSRF string `json:"csrf"`
	}
	o.get("/api/session", &told)
	o.csrf = told.CSRF
}

// stepUp proves the person again.
func (o *owner) stepUp() {
	o.t.Helper()
	var to struct {
		URL string `json:"authorization_url"`
	}
	r := o.do("POST", "/api/step-up", map[string]any{"next": "/settings"}, &to)
	for _, c := range r.Cookies() {
		u, _ := url.Parse(o.s.origin)
		o.agent.Plant(u.Host, c.Name, c.Value)
	}
	o.signIn(to.URL)
}

// dress makes a request the owner's own page's.
func (o *owner) dress(r *http.Request) {
	if c := o.agent.Cookie(guard.Cookie); c != "" {
		r.AddCookie(&http.Cookie{Name: guard.Cookie, Value: c})
	}
	r.Header.Set(guard.KeyHeader, o.secret)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if r.Method != "GET" {
		r.Header.Set("Origin", o.s.origin)
		r.Header.Set(guard.CSRFHeader, o.csrf)
	}
}

// send sends one request as it is and reads its answer.
func (o *owner) send(method, path string, message any, edit func(*http.Request)) (int, []byte) {
	o.t.Helper()
	r := o.request(method, path, message, edit)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return resp.StatusCode, data
}

func (o *owner) request(method, path string, message any, edit func(*http.Request)) *http.Request {
	o.t.Helper()
	var body io.Reader
	if message != nil {
		data, err := json.Marshal(message)
		if err != nil {
			o.t.Fatal(err)
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(o.t.Context(), method, o.s.origin+path, body)
	if err != nil {
		o.t.Fatal(err)
	}
	if message != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if edit != nil {
		edit(r)
	}
	return r
}

// do is a call of the owner's page that must succeed.
func (o *owner) do(method, path string, message, into any) *http.Response {
	o.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(o.request(method, path, message, o.dress))
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode > 299 {
		o.t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, data, err)
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			o.t.Fatalf("%s %s: %s: %v", method, path, data, err)
		}
	}
	return resp
}

func (o *owner) get(path string, into any) { o.t.Helper(); o.do("GET", path, nil, into) }

// refused is a call of the owner's page that must be refused with that code.
func (o *owner) refused(method, path string, message any, status int, code string) {
	o.t.Helper()
	got, body := o.send(method, path, message, o.dress)
	if got != status || !strings.Contains(string(body), `"code":"`+code+`"`) {
		o.t.Errorf("%s %s: %d %s, want %d %s", method, path, got, body, status, code)
	}
}

// readAll reads an answer whole.
func readAll(t testing.TB, r *http.Response) []byte {
	t.Helper()
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
