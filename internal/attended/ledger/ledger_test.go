package ledger_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/audit"
	"chaperone/internal/identity"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

var (
	ctx     = context.Background()
	key, _  = ref.NewKey(make([]byte, 32))
	terms   = id("policy_1")
	schema  = []byte(`{"type":"object"}`)
	catalog = mustCatalog("read_page:read", "save_draft:local-ui-mutation", "pay:account-mutation", "secret_read:read:clerk", "secret_pay:account-mutation:clerk")
)

// book is a ledger with what a test needs to look behind it.
type book struct {
	*ledger.Book
	db *store.DB
}

// open opens the ledger at url as one process would.
func open(t testing.TB, url string, opts store.Options) *book {
	t.Helper()
	db := storetest.Open(t, url, opts)
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := policy.NewBook(db, log, "local", policy.Options{Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ledger.NewBook(db, log, "local", ledger.Options{Receipts: receipts})
	if err != nil {
		t.Fatal(err)
	}
	return &book{b, db}
}

// each runs f on both engines.
func each(t *testing.T, f func(t *testing.T, b *book)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) { f(t, open(t, url, store.Options{})) })
}

// check walks the ledger's invariants.
func (b *book) check(t testing.TB) {
	t.Helper()
	if err := b.db.View(ctx, func(tx *store.Tx) error { return errors.Join(ledger.Check(tx), policy.Check(tx)) }); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// edit changes rows behind the ledger's back.
func (b *book) edit(t testing.TB, statement string, args ...any) {
	t.Helper()
	if err := b.db.Update(ctx, func(tx *store.Tx) error { _, err := tx.Exec(statement, args...); return err }); err != nil {
		t.Fatal(err)
	}
}

// text answers a statement's one value.
func (b *book) text(t testing.TB, query string, args ...any) (s string) {
	t.Helper()
	if err := b.db.View(ctx, func(tx *store.Tx) error { return tx.QueryRow(query, args...).Scan(&s) }); err != nil {
		t.Fatal(err)
	}
	return s
}

func fresh(prefix string) string {
	var r [8]byte
	rand.Read(r[:])
	return prefix + hex.EncodeToString(r[:])
}

func id(s string) controlv1.ID {
	i, err := controlv1.ParseID(s)
	if err != nil {
		panic(err)
	}
	return i
}

func mustCatalog(tools ...string) controlv1.Catalog {
	var all []controlv1.Tool
	for _, spec := range tools {
		f := controlv1.Facts{Version: "1", Input: schema, Output: schema, SourceRef: "test"}
		var role string
		for n, part := range split(spec) {
			switch n {
			case 0:
				f.ID = part
			case 1:
				f.Class = controlv1.Class(part)
			case 2:
				role = part
			}
		}
		f.Confirmation = f.Class.Confirmation()
		if role != "" {
			f.Roles = []string{role}
		}
		tool, err := controlv1.NewTool(f)
		if err != nil {
			panic(err)
		}
		all = append(all, tool)
	}
	c, err := controlv1.NewCatalog(all)
	if err != nil {
		panic(err)
	}
	return c
}

func split(s string) (parts []string) {
	last := 0
	for i := range len(s) {
		if s[i] == ':' {
			parts = append(parts, s[last:i])
			last = i + 1
		}
	}
	return append(parts, s[last:])
}

// stage is one person's armed page, as far as it got.
type stage struct {
	t        testing.TB
	b        *book
	evidence controlv1.Evidence
	who      identity.Principal
	page     controlv1.Page
	arm      ledger.Arm
	nonce    controlv1.Nonce
	reg      ledger.Registration
	lease    ledger.Lease
	caller   ledger.Caller
}

// person is somebody with fresh evidence, and a page that they loaded.
func (b *book) person(t testing.TB) *stage {
	t.Helper()
	who := controlv1.Person{Tenant: "local", Actor: fresh("ann"), Login: ref.Mint[ref.LoginKind](), Browser: ref.Mint[ref.BrowserKind](), Issuer: "https://idp.example",
		ACR: "urn:passkey", AuthMS: time.Now().Add(-2 * time.Hour).UnixMilli(), CredentialUntilMS: time.Now().Add(time.Hour).UnixMilli(), PolicyVersion: terms}
	e := must[controlv1.Evidence](t)(who.Private(key))
	person := must[identity.Principal](t)(identity.New(identity.Claims{Tenant: who.Tenant, Actor: who.Actor, Roles: []string{"clerk"}}))
	s := &stage{t: t, b: b, evidence: e, who: person, caller: ledger.Caller{Principal: e.Principal, PolicyVersion: terms, Roles: []string{"clerk"}, GrantGeneration: 1}}
	s.load()
	return s
}

// load is one load of the page.
func (s *stage) load() *stage {
	s.t.Helper()
	origin, err := controlv1.ParseOrigin("https://app.example")
	ok(s.t, err)
	generation, err := controlv1.NewGeneration(7)
	ok(s.t, err)
	place := controlv1.Place{Origin: origin, Document: ref.Mint[ref.DocumentKind](), Route: id("shell"), Generation: generation, Catalog: catalog.Digest(), Scope: catalog.Scope()}
	s.page = must[controlv1.Page](s.t)(place.Private(key))
	return s
}

func (s *stage) granted() *stage {
	s.t.Helper()
	s.arm = must[ledger.Arm](s.t)(s.b.Grant(ctx, s.evidence))
	return s
}

func (s *stage) active() *stage {
	s.t.Helper()
	s.granted()
	var err error
	s.arm, s.nonce, err = s.b.Finalize(ctx, s.arm.Ref, s.evidence, s.page)
	ok(s.t, err)
	return s
}

func (s *stage) consumed() *stage {
	s.t.Helper()
	s.active()
	s.arm = must[ledger.Arm](s.t)(s.b.Open(ctx, s.arm.Ref, s.evidence, s.page, s.nonce))
	return s
}

func (s *stage) registered() *stage {
	s.t.Helper()
	s.consumed()
	s.reg = must[ledger.Registration](s.t)(s.b.Register(ctx, s.arm.Ref, s.arm.Binding, catalog))
	return s
}

func (s *stage) published() *stage {
	s.t.Helper()
	s.registered()
	ok(s.t, s.b.Point(ctx, s.reg.ID))
	s.reg = must[ledger.Registration](s.t)(s.b.Publish(ctx, s.reg.ID))
	return s
}

func (s *stage) leased() *stage {
	s.t.Helper()
	s.published()
	s.lease = must[ledger.Lease](s.t)(s.b.Issue(ctx, s.caller, s.ask()))
	return s
}

func (s *stage) ask() ledger.Ask {
	return ledger.Ask{Document: s.page.Document, Tools: []controlv1.ID{id("read_page"), id("save_draft"), id("pay")}, TTL: 5 * time.Minute, Policy: terms}
}

// admission is a request for one call of a tool.
func (s *stage) admission(tool string) ledger.Admission {
	s.t.Helper()
	arguments := must[controlv1.Value](s.t)(controlv1.ParseValue(fmt.Appendf(nil, `{"n":%q}`, fresh("")), controlv1.MaxArguments))
	return ledger.Admission{Caller: s.caller, Request: controlv1.Request{Binding: s.lease.Binding, Lease: s.lease.LeaseReceipt.Lease, ID: id(fresh("request-")), Tool: id(tool),
		Schemas: catalog.Tool(id(tool)).Schemas(), Arguments: arguments}, Timeout: 30 * time.Second, Ruling: s.ruling(tool), Reference: ledger.NewReference()}
}

// rules allow every tool of the catalog, mutations after a click.
var rules = func() *policy.Set {
	set, err := policy.Parse("test.cedar", []byte(`
@id("reads") permit (principal, action == Action::"observe", resource);
@id("changes") @require_confirmation("visible_click") permit (principal, action in Action::"mutate", resource);`))
	if err != nil {
		panic(err)
	}
	return set
}()

// ruling is the request for a tool in the policy's terms.
func (s *stage) ruling(tool string) ledger.Ruling {
	s.t.Helper()
	resource := must[policy.Resource](s.t)(policy.OwnTool(tool, "https://app.example", "shell"))
	return ledger.Ruling{Set: rules, Who: s.who, Resource: resource}
}

func (s *stage) admit(tool string) ledger.Call {
	s.t.Helper()
	c, isFresh, err := s.b.Admit(ctx, s.admission(tool))
	ok(s.t, err)
	if !isFresh {
		s.t.Fatal("the call isn't fresh")
	}
	return c
}

func (s *stage) confirmed(c ledger.Call) ledger.Confirmed {
	return ledger.Confirmed{Call: c.ID, Confirmation: c.Confirmation, Level: c.Level, Caller: s.caller, Claim: ledger.NewReference()}
}

func (s *stage) dispatched(tool string) ledger.Call {
	s.t.Helper()
	c := s.admit(tool)
	if c.State == ledger.CallDispatched {
		return c
	}
	return must[ledger.Call](s.t)(s.b.Confirm(ctx, s.confirmed(c)))
}

var success = controlv1.Success{Value: controlv1.Null}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[V any](t testing.TB) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		ok(t, err)
		return v
	}
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

func want(t testing.TB, what string, err error, code refusal.Code) {
	t.Helper()
	if got := word(err); got != code {
		t.Errorf("%s: %s, want %s (%v)", what, got, code, err)
	}
}

// TestLife takes a read and a mutation all the way.
func TestLife(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).leased()
		b.check(t)
		read := s.admit("read_page")
		if read.State != ledger.CallDispatched || read.Effect != controlv1.NoEffect || read.Attempts != 1 {
			t.Errorf("a read is %+v", read)
		}
		b.check(t)
		read = must[ledger.Call](t)(b.Settle(ctx, read.ID, success, ""))
		if read.State != ledger.CallSucceeded || read.Effect != controlv1.NoEffect || read.ResultDigest != controlv1.Null.Digest() {
			t.Errorf("a read that succeeded is %+v", read)
		}
		b.check(t)
		pay := s.admit("pay")
		if pay.State != ledger.CallPending || pay.Attempts != 0 || pay.Confirmation.IsZero() {
			t.Errorf("a mutation is %+v", pay)
		}
		b.check(t)
		pay = must[ledger.Call](t)(b.Confirm(ctx, s.confirmed(pay)))
		b.check(t)
		pay = must[ledger.Call](t)(b.Settle(ctx, pay.ID, success, ""))
		if pay.State != ledger.CallSucceeded || pay.Effect != controlv1.Committed || pay.Receipt().Level != controlv1.VisibleClick {
			t.Errorf("a mutation that succeeded is %+v", pay)
		}
		b.check(t)
		waiting, sent := s.admit("pay"), s.dispatched("save_draft")
		ok(t, b.Disconnect(ctx, s.arm.Ref, refusal.ChannelUnavailable))
		b.check(t)
		waiting, sent = must[ledger.Call](t)(b.Show(ctx, s.caller, waiting.ID)), must[ledger.Call](t)(b.Show(ctx, s.caller, sent.ID))
		if waiting.State != ledger.CallCancelled || waiting.Effect != controlv1.NoEffect || sent.State != ledger.CallUnknown {
			t.Errorf("after the channel's end: %+v, %+v", waiting, sent)
		}
		if docs := must[[]ledger.Document](t)(b.Documents(ctx, s.caller.Principal)); len(docs) != 0 {
			t.Errorf("%d documents are live", len(docs))
		}
		ok(t, b.Repair(ctx))
		sent = must[ledger.Call](t)(b.Show(ctx, s.caller, sent.ID))
		if sent.State != ledger.CallReaped || sent.Effect != controlv1.UnknownEffect || sent.Receipt().Code != refusal.WindowExpired {
			t.Errorf("after the window: %+v", sent)
		}
		b.check(t)
	})
}

// newBook is another node over a database that is open already.
func newBook(t testing.TB, db *store.DB) *ledger.Book {
	t.Helper()
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	ok(t, err)
	return must[*ledger.Book](t)(ledger.NewBook(db, log, "local", ledger.Options{Receipts: must[*policy.Book](t)(policy.NewBook(db, log, "local", policy.Options{Secret: make([]byte, 32)}))}))
}
