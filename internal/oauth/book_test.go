package oauth_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, nil) }

const (
	origin   = "http://localhost:7080"
	callback = "http://127.0.0.1/callback"
)

// book is a book with what a test needs to look behind it.
type book struct {
	*oauth.Book
	db *store.DB
}

// open opens the book at url as one process would.
func open(t testing.TB, url string, opts store.Options, o oauth.Options) *book {
	t.Helper()
	db := storetest.Open(t, url, opts)
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		t.Fatal(err)
	}
	if o.Origin == "" {
		o.Origin = origin
	}
	b, err := oauth.NewBook(db, log, "local", o)
	if err != nil {
		t.Fatal(err)
	}
	return &book{b, db}
}

// each runs f on both engines.
func each(t *testing.T, f func(t *testing.T, b *book)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) { f(t, open(t, url, store.Options{}, oauth.Options{})) })
}

// check walks the invariants.
func (b *book) check(t testing.TB) {
	t.Helper()
	if err := b.db.View(context.Background(), func(tx *store.Tx) error { return oauth.Check(tx) }); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// text answers a statement's one text, "" for no row.
func (b *book) text(t testing.TB, query string, args ...any) (s string) {
	t.Helper()
	if err := b.db.View(context.Background(), func(tx *store.Tx) error { return tx.QueryRow(query, args...).Scan(&s) }); err != nil {
		s = ""
	}
	return s
}

func (b *book) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := b.db.View(context.Background(), func(tx *store.Tx) error { return tx.QueryRow(query, args...).Scan(&n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// word answers an error's code, "ok" where there is none.
func word(err error) refusal.Code {
	var code refusal.Code
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &code):
		return code
	}
	return refusal.Code("no code: " + err.Error())
}

// flow is one client's way to its tokens.
type flow struct {
	t        testing.TB
	b        *book
	client   oauth.Client
	verifier string
	request  string
	code     string
	oauth.Tokens
}

func random() string { return rand.Text() + rand.Text() }

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (b *book) register(t testing.TB) oauth.Client {
	t.Helper()
	c, err := b.Register(context.Background(), []byte(`{"client_name":"Probe","redirect_uris":["`+callback+`"]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// asked is a flow whose request waits for an answer.
func (b *book) asked(t testing.TB) *flow {
	t.Helper()
	f := &flow{t: t, b: b, client: b.register(t), verifier: random()}
	id, err := b.Begin(context.Background(), oauth.Ask{Client: f.client, Redirect: callback, State: "s t", Challenge: challenge(f.verifier),
		Scopes: []string{oauth.ScopeCollections, oauth.ScopeOwned}, Resource: origin + "/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	f.request = id
	return f
}

func (f *flow) approval() oauth.Approval {
	return oauth.Approval{Actor: "ada", Roles: []string{"a role"}, Scopes: []string{oauth.ScopeCollections}, Connection: random()[:32], Ends: time.Now().Add(60 * 24 * time.Hour)}
}

// approve answers yes and keeps the code.
func (f *flow) approve() error {
	next, err := f.b.Approve(context.Background(), f.request, f.approval())
	if err != nil {
		return err
	}
	u, err := url.Parse(next)
	if err != nil {
		f.t.Fatal(err)
	}
	if q := u.Query(); q.Get("state") != "s t" || q.Get("iss") != origin {
		f.t.Errorf("answered at %s", next)
	}
	f.code = u.Query().Get("code")
	return nil
}

func (f *flow) redeem() (err error) {
	f.Tokens, err = f.b.Redeem(context.Background(), oauth.Redemption{Code: f.code, Client: f.client.ID, Redirect: callback, Verifier: f.verifier, Resource: origin + "/mcp"})
	return err
}

func (f *flow) refresh(token string) (oauth.Tokens, error) {
	return f.b.Refresh(context.Background(), oauth.Renewal{Token: token, Client: f.client.ID})
}

// approved is a flow with a code.
func (b *book) approved(t testing.TB) *flow {
	t.Helper()
	f := b.asked(t)
	if err := f.approve(); err != nil {
		t.Fatal(err)
	}
	return f
}

// connected is a flow with tokens.
func (b *book) connected(t testing.TB) *flow {
	t.Helper()
	f := b.approved(t)
	if err := f.redeem(); err != nil {
		t.Fatal(err)
	}
	return f
}

func (b *book) find(token string) refusal.Code {
	_, err := b.Find(context.Background(), token)
	return word(err)
}

// family answers where the family of a client stands.
func (f *flow) family() oauth.State {
	return oauth.State(f.b.text(f.t, `select state from oauth_family where client=$1`, f.client.ID))
}

func (f *flow) codeState() oauth.State {
	return oauth.State(f.b.text(f.t, `select state from oauth_code where client=$1`, f.client.ID))
}

func (f *flow) requestState() oauth.State {
	return oauth.State(f.b.text(f.t, `select state from oauth_request where id=$1`, f.request))
}
