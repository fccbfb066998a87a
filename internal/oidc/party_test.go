package oidc_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"chaperone/internal/audit"
	"chaperone/internal/idptest"
	"chaperone/internal/oidc"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, nil) }

const origin = "http://localhost:7080"

// site is a relying party with its session book and one browser.
type site struct {
	*session.Book
	db    *store.DB
	party *oidc.Party
	agent *idptest.Agent
}

func openBook(t testing.TB, url string) (*session.Book, *store.DB) {
	t.Helper()
	db := storetest.Open(t, url, store.Options{})
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		t.Fatal(err)
	}
	book, err := session.NewBook(db, log, "local", session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return book, db
}

// newSite makes a relying party of a provider.
func newSite(t testing.TB, url string, c oidc.Config) *site {
	t.Helper()
	book, db := openBook(t, url)
	c.Origin = origin
	party, err := oidc.New(context.Background(), c, book, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Book: book, db: db, party: party}
	s.agent = s.browser()
	t.Cleanup(func() {
		if err := db.View(context.Background(), func(tx *store.Tx) error { return session.Check(tx) }); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
	return s
}

// browser makes one more browser of the site.
func (s *site) browser() *idptest.Agent {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth/login", s.party.SignIn)
	mux.HandleFunc("GET /auth/callback", s.party.Callback)
	mux.HandleFunc("POST /auth/backchannel-logout", s.party.BackChannel)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	return &idptest.Agent{Origin: origin, Handler: mux}
}

// faulty makes a site at a provider that misbehaves.
func faulty(t testing.TB, change func(*oidc.Config)) (*site, *idptest.Faulty) {
	t.Helper()
	f := idptest.NewFaulty(t)
	c := oidc.Config{Issuer: f.URL, ClientID: "client", ClientSecret: "secret", ACRValues: []string{"gold", "platinum"}, RolesClaim: "roles"}
	if change != nil {
		change(&c)
	}
	return newSite(t, storetest.SQLite(t), c), f
}

// signIn opens the sign-in and answers where it ends.
func signIn(t testing.TB, a *idptest.Agent, next string) idptest.Page {
	t.Helper()
	p, err := a.Get("/auth/login?next=" + url.QueryEscape(next))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mustSignIn signs the site's browser in and answers its session.
func (s *site) mustSignIn(t testing.TB) (session.Session, idptest.Page) {
	t.Helper()
	p := signIn(t, s.agent, "/home?a=b")
	found, err := s.Find(context.Background(), s.agent.Cookie(oidc.SessionCookie))
	if err != nil {
		t.Fatalf("not signed in: %v\n%d %s", err, p.Status, p.Body)
	}
	return found, p
}

// stepUp begins a step-up in the site's browser and answers where it ends.
func (s *site) stepUp(t testing.TB, of session.Session) idptest.Page {
	t.Helper()
	to, cookie, err := s.party.StepUp(context.Background(), of, "/after")
	if err != nil {
		t.Fatal(err)
	}
	s.agent.Plant("localhost:7080", cookie.Name, cookie.Value)
	p, err := s.agent.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// refusedWith compares the code on a page with what it should be.
func refusedWith(t testing.TB, what string, p idptest.Page, code refusal.Code) {
	t.Helper()
	if !strings.Contains(p.Body, "<code>"+string(code)+"</code>") || p.Status < 400 {
		t.Errorf("%s: got %d, want the code %s:\n%s", what, p.Status, code, p.Body)
	}
	if p.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: the page may be stored", what)
	}
}

// each runs f on both engines.
func each(t *testing.T, f func(t *testing.T, url string)) { storetest.EachURL(t, f) }
