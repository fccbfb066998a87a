package live_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/audit"
	"chaperone/internal/controltest"
	"chaperone/internal/credential"
	"chaperone/internal/identity"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

const origin = "http://localhost:7080"

var (
	ctx     = context.Background()
	key, _  = ref.NewKey(make([]byte, 32))
	catalog = tools("read_page:read", "item_read:read", "save:account-mutation", "item_delete:account-mutation")
)

func id(s string) controlv1.ID { return sure(controlv1.ParseID(s)) }

func sure[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func fresh(prefix string) string {
	var r [8]byte
	rand.Read(r[:])
	return prefix + hex.EncodeToString(r[:])
}

func value(text string) controlv1.Value {
	return sure(controlv1.ParseValue([]byte(text), controlv1.MaxArguments))
}

// tools makes a catalog of "name:class".
func tools(specs ...string) controlv1.Catalog {
	var all []controlv1.Tool
	for _, s := range specs {
		i := slices.Index([]byte(s), ':')
		class := controlv1.Class(s[i+1:])
		all = append(all, sure(controlv1.NewTool(controlv1.Facts{ID: s[:i], Version: "1", SourceRef: "test", Class: class, Confirmation: class.Confirmation(),
			Input:  []byte(`{"type":"object","properties":{"n":{"type":"string"}},"required":["n"],"additionalProperties":false}`),
			Output: []byte(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`)})))
	}
	return sure(controlv1.NewCatalog(all))
}

// world is one node over a database.
type world struct {
	t      testing.TB
	db     *store.DB
	book   *ledger.Book
	people *credential.Book
	a      *live.Authority
}

func open(t testing.TB, url string, change func(*live.Config)) *world {
	t.Helper()
	return openWith(t, url, store.Options{}, change)
}

func openWith(t testing.TB, url string, opts store.Options, change func(*live.Config)) *world {
	t.Helper()
	db := storetest.Open(t, url, opts)
	log := sure(audit.Open(db, audit.Options{Tenant: "local"}))
	receipts := sure(policy.NewBook(db, log, "local", policy.Options{Secret: make([]byte, 32)}))
	book := sure(ledger.NewBook(db, log, "local", ledger.Options{Receipts: receipts}))
	people := sure(credential.NewBook(db, log, "local", credential.Options{Origin: origin, Key: make([]byte, 32)}))
	config := live.Config{Book: book, Policy: policy.Default(), Passkeys: people, Key: key, Tenant: "local", Origin: origin}
	if change != nil {
		change(&config)
	}
	w := &world{t: t, db: db, book: book, people: people, a: sure(live.New(config))}
	sure(0, book.Beat(ctx))
	t.Cleanup(func() {
		end, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if err := w.a.Close(end); err != nil {
			t.Error(err)
		}
		w.check()
	})
	return w
}

func each(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) { f(t, open(t, url, nil)) })
}

func (w *world) check() {
	w.t.Helper()
	err := w.db.View(ctx, func(tx *store.Tx) error { return errors.Join(ledger.Check(tx), policy.Check(tx)) })
	if err != nil {
		w.t.Errorf("Check: %v", err)
	}
}

// page is a person's page as a test plays it.
type page struct {
	w      *world
	who    controlv1.Person
	place  controlv1.Place
	arm    ledger.Arm
	nonce  controlv1.Nonce
	pipe   *controltest.Pipe
	served chan struct{}
	no     atomic.Pointer[error] // what revalidation answers; nil is yes
	slow   chan struct{}         // where set, revalidation waits for it
	asked  atomic.Int64
}

// person is somebody whose page offers a catalog, and who has stepped up.
func (w *world) person(catalog controlv1.Catalog) *page {
	w.t.Helper()
	return w.page(fresh("person-"), origin, catalog)
}

func (w *world) page(actor, at string, catalog controlv1.Catalog) *page {
	w.t.Helper()
	p := &page{w: w, who: controlv1.Person{Tenant: "local", Actor: actor, Login: ref.Mint[ref.LoginKind](), Browser: ref.Mint[ref.BrowserKind](),
		Issuer: "https://idp.example", ACR: "urn:passkey", AuthMS: time.Now().Add(-time.Second).UnixMilli(), CredentialUntilMS: time.Now().Add(time.Hour).UnixMilli(),
		PolicyVersion: w.a.Terms()}}
	p.place = controlv1.Place{Origin: sure(controlv1.ParseOrigin(at)), Document: ref.Mint[ref.DocumentKind](), Route: id("portal"), Generation: sure(controlv1.NewGeneration(7)),
		Catalog: catalog.Digest(), Scope: catalog.Scope()}
	return p
}

func (p *page) trust() live.Trust {
	return live.Trust{Person: p.who, Revalidate: func(ctx context.Context) error {
		p.asked.Add(1)
		if p.slow != nil {
			select {
			case <-p.slow:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if no := p.no.Load(); no != nil {
			return *no
		}
		return nil
	}}
}

func (p *page) refuse(err error) { p.no.Store(&err) }

// armed grants and finalizes.
func (p *page) armed() *page {
	p.w.t.Helper()
	grant := must[ledger.Arm](p.w.t)(p.w.a.Grant(ctx, p.trust()))
	var err error
	if p.arm, p.nonce, err = p.w.a.Finalize(ctx, p.trust(), grant.Ref, p.place); err != nil {
		p.w.t.Fatal(err)
	}
	return p
}

// dial opens the socket and says nothing.
func (p *page) dial() *page {
	p.pipe = controltest.NewPipe()
	p.served = make(chan struct{})
	go func() {
		defer close(p.served)
		p.w.a.Channel(ctx, p.trust(), p.arm.Ref, p.place, p.pipe)
	}()
	return p
}

func (p *page) open() controlv1.Open {
	return controlv1.Open{Nonce: p.nonce, Route: p.place.Route, Generation: p.place.Generation}
}

// ready arms a page and brings its channel up.
func (p *page) ready(catalog controlv1.Catalog) *page {
	p.w.t.Helper()
	p.armed().dial()
	p.say(p.open())
	p.say(controlv1.Register{Route: p.place.Route, Generation: p.place.Generation, Catalog: catalog})
	if r, ok := p.hear().(controlv1.Ready); !ok || r.Catalog != catalog.Digest() || r.Authority != id("chaperone") || r.Route != p.place.Route {
		p.w.t.Fatalf("not ready: %+v", r)
	}
	return p
}

func (p *page) say(f controlv1.PageFrame) { p.raw(sure(controlv1.EncodePage(f))) }

func (p *page) raw(data []byte) {
	select {
	case p.pipe.Up <- data:
	case <-p.pipe.Gone:
	}
}

// hear answers the next frame, nil at the socket's end.
func (p *page) hear() controlv1.AuthorityFrame {
	p.w.t.Helper()
	select {
	case data := <-p.pipe.Down:
		f, err := controlv1.DecodeAuthority(data)
		if err != nil {
			p.w.t.Fatalf("an own frame doesn't decode: %v", err)
		}
		return f
	case <-p.pipe.Gone:
		return nil
	case <-time.After(20 * time.Second):
		p.w.t.Fatal("nothing came")
		return nil
	}
}

func next[F controlv1.AuthorityFrame](p *page) F {
	p.w.t.Helper()
	f, ok := p.hear().(F)
	if !ok {
		p.w.t.Fatalf("another frame than %T: %+v (%d %s)", *new(F), f, p.pipe.Code, p.pipe.Reason)
	}
	return f
}

// quiet tells that nothing more came.
func (p *page) quiet() {
	p.w.t.Helper()
	select {
	case data := <-p.pipe.Down:
		p.w.t.Errorf("a frame came: %.80s", data)
	case <-time.After(30 * time.Millisecond):
	}
}

// closed waits for the end, and holds it to its code.
func (p *page) closed(code controlv1.Close, reason refusal.Code) {
	p.w.t.Helper()
	select {
	case <-p.pipe.Gone:
	case <-time.After(30 * time.Second):
		p.w.t.Fatalf("not closed, want %d %s", code, reason)
	}
	<-p.served
	if p.pipe.Code != code || p.pipe.Reason != reason {
		p.w.t.Errorf("closed %d %s, want %d %s", p.pipe.Code, p.pipe.Reason, code, reason)
	}
}

// agent is a caller that acts for the page's person.
type agent struct {
	p     *page
	c     live.Caller
	lease controlv1.LeaseReceipt
}

func (p *page) agent(name string) *agent {
	p.w.t.Helper()
	who := must[identity.Principal](p.w.t)(identity.New(identity.Claims{Tenant: "local", Actor: p.who.Actor, Scopes: []string{"control:write"}, Agent: name}))
	return &agent{p: p, c: live.Caller{Who: who, Generation: 1}}
}

// leased takes a lease over the whole catalog.
func (a *agent) leased(catalog controlv1.Catalog) *agent {
	a.p.w.t.Helper()
	var all []controlv1.ID
	for _, t := range catalog.Tools() {
		all = append(all, t.ID())
	}
	a.lease = must[live.Answer](a.p.w.t)(a.p.w.a.Dispatch(ctx, a.c, controlv1.IssueLease{Document: a.p.place.Document, Tools: all, TTLSeconds: 300})).(controlv1.LeaseReceipt)
	return a
}

func (a *agent) request(tool string) controlv1.ExecuteCall {
	return controlv1.ExecuteCall{Lease: a.lease.Lease, Request: id(fresh("request-")), Tool: id(tool), Schemas: catalog.Tool(id(tool)).Schemas(), Arguments: value(`{"n":"` + fresh("") + `"}`)}
}

type answered struct {
	receipt controlv1.Receipt
	err     error
}

// call asks and doesn't wait.
func (a *agent) call(ctx context.Context, x controlv1.Action) <-chan answered {
	out := make(chan answered, 1)
	go func() {
		got, err := a.p.w.a.Dispatch(ctx, a.c, x)
		r, _ := got.(controlv1.Receipt)
		out <- answered{r, err}
	}()
	return out
}

// do asks and waits.
func (a *agent) do(x controlv1.Action) answered { return <-a.call(ctx, x) }

func must[V any](t testing.TB) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func want(t testing.TB, what string, err error, code refusal.Code) {
	t.Helper()
	if got := refusal.Of(err); got != code || (err == nil) != (code == "") {
		t.Errorf("%s: got %v, want %q", what, err, code)
	}
}

// is holds a receipt to what it must say.
func (a answered) is(t testing.TB, what string, status controlv1.Status, effect controlv1.Effect, code refusal.Code) {
	t.Helper()
	if a.err != nil || a.receipt.Status != status || a.receipt.Effect != effect || a.receipt.Code != code {
		t.Errorf("%s: %s %s %q (%v), want %s %s %q", what, a.receipt.Status, a.receipt.Effect, a.receipt.Code, a.err, status, effect, code)
	}
}
