package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/audit"
	"chaperone/internal/policy"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

var ctx = context.Background()

// secret is a home's.
var secret = []byte("0123456789abcdef0123456789abcdef")

// book is receipts with what a test needs to look behind them.
type book struct {
	*policy.Book
	db *store.DB
}

func open(t testing.TB, url string, opts store.Options) *book {
	t.Helper()
	db := storetest.Open(t, url, opts)
	log := must[*audit.Log](t)(audit.Open(db, audit.Options{Tenant: "local"}))
	return &book{must[*policy.Book](t)(policy.NewBook(db, log, "local", policy.Options{Secret: secret})), db}
}

func eachBook(t *testing.T, f func(t *testing.T, b *book)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) { f(t, open(t, url, store.Options{})) })
}

func (b *book) verify() error {
	return b.db.View(ctx, func(tx *store.Tx) error { return policy.Check(tx) })
}

func (b *book) check(t testing.TB) {
	t.Helper()
	if err := b.verify(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func (b *book) edit(t testing.TB, statement string) {
	t.Helper()
	ok(t, b.db.Update(ctx, func(tx *store.Tx) error { _, err := tx.Exec(statement); return err }))
}

// kinds answers the log's kinds, in its order.
func (b *book) kinds(t testing.TB) (all []string) {
	t.Helper()
	ok(t, audit.Records(ctx, b.db, audit.Filter{}, func(r audit.Record) error {
		all = append(all, strings.TrimSpace(r.Kind+" "+string(r.Code)))
		return nil
	}))
	return all
}

func word(err error) refusal.Code {
	switch code := refusal.Of(err); {
	case err == nil:
		return "ok"
	case code != "":
		return code
	}
	return refusal.Code("no code: " + err.Error())
}

var asked atomic.Int64

func digest() string { return fmt.Sprintf("sha256:%064x", asked.Add(1)) }

// write asks to write an item, by planner for ana, within a minute.
func write(t testing.TB) policy.Ask {
	return ask(t, policy.AccountMutation, own(t, "item_write"))
}

func ask(t testing.TB, a policy.Action, r policy.Resource) policy.Ask {
	t.Helper()
	return policy.Ask{Request: policy.Request{Who: who(t, "planner", "staff"), Action: a, Resource: r, Arguments: []byte(`{"item":"canary-argument"}`)},
		RequestDigest: digest(), Expires: time.Now().Add(time.Minute)}
}

func TestReceipts(t *testing.T) {
	eachBook(t, func(t *testing.T, b *book) {
		set := policy.Default()
		a := write(t)
		r := must[policy.Receipt](t)(b.Admit(ctx, set, a))
		if !r.Decision.Allow || r.Decision.Level != policy.VisibleClick || r.State != policy.Allowed || r.Decision.PolicyVersion != set.Version() {
			t.Errorf("%+v", r)
		}
		// Never decided a second time, whatever the policies say by then.
		closed := parse(t, `@id("closed") forbid (principal, action, resource);`)
		again := must[policy.Receipt](t)(b.Admit(ctx, closed, a))
		if again.ID != r.ID || again.Decision.PolicyVersion != set.Version() {
			t.Errorf("again: %+v", again)
		}
		// Bound to the request, the person, the agent.
		other := a
		other.Resource = own(t, "item_delete")
		if _, err := b.Admit(ctx, set, other); word(err) != refusal.Conflict {
			t.Errorf("another tool: %v", err)
		}
		other = a
		other.Who = who(t, "")
		if got := must[policy.Receipt](t)(b.Admit(ctx, set, other)); got.ID == r.ID || got.Agent != "" || got.Principal != r.Principal {
			t.Errorf("the person herself: %+v", got)
		}
		for want, err := range map[refusal.Code]error{
			refusal.Conflict:     b.Use(ctx, r.ID, digest(), policy.Passkey),
			refusal.PolicyDenied: b.Use(ctx, r.ID, a.RequestDigest, policy.None),
		} {
			if word(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		if err := b.Use(ctx, r.ID, a.RequestDigest, "certainly"); word(err) != refusal.PolicyDenied {
			t.Errorf("a level that doesn't exist: %v", err)
		}
		if err := b.Use(ctx, strings.Repeat("0", 64), a.RequestDigest, policy.Passkey); word(err) != refusal.PolicyDenied {
			t.Errorf("no such receipt: %v", err)
		}
		ok(t, b.Use(ctx, r.ID, a.RequestDigest, policy.Passkey))
		if got := must[policy.Receipt](t)(b.Receipt(ctx, r.ID)); got.State != policy.Used || got.Given != policy.Passkey {
			t.Errorf("used: %+v", got)
		}
		denied, err := b.Admit(ctx, closed, write(t))
		if word(err) != refusal.PolicyDenied || denied.State != policy.Denied || cmp.Diff([]string{"closed"}, denied.Decision.Rules) != "" {
			t.Errorf("denied: %+v, %v", denied, err)
		}
		b.check(t)
		want := []string{"policy.allowed", "policy.allowed", "policy.used", "policy.denied policy_denied"}
		if diff := cmp.Diff(want, b.kinds(t)); diff != "" {
			t.Errorf("the log (-want +got):\n%s", diff)
		}
	})
}

// What can't be judged is told, refused, and asked again.
func TestUnavailableIsNoReceipt(t *testing.T) {
	eachBook(t, func(t *testing.T, b *book) {
		a := write(t)
		if r, err := b.Admit(ctx, nil, a); word(err) != refusal.PolicyUnavailable || r.State != "" {
			t.Errorf("%+v, %v", r, err)
		}
		ok(t, func() error { _, err := b.Admit(ctx, policy.Default(), a); return err }())
		if diff := cmp.Diff([]string{"policy.unavailable policy_unavailable", "policy.allowed"}, b.kinds(t)); diff != "" {
			t.Error(diff)
		}
		b.check(t)
	})
}

// Requests that nobody can make, or for too long.
func TestWrongAsks(t *testing.T) {
	b := open(t, storetest.SQLite(t), store.Options{})
	for name, c := range map[string]struct {
		change func(*policy.Ask)
		want   refusal.Code
	}{
		"no resource":   {func(a *policy.Ask) { a.Resource = policy.Resource{} }, refusal.PolicyDenied},
		"no action":     {func(a *policy.Ask) { a.Action = "" }, refusal.PolicyDenied},
		"no digest":     {func(a *policy.Ask) { a.RequestDigest = "x" }, refusal.BadDocument},
		"in the past":   {func(a *policy.Ask) { a.Expires = time.Now().Add(-time.Second) }, refusal.Expired},
		"for too long":  {func(a *policy.Ask) { a.Expires = time.Now().Add(time.Hour) }, refusal.Expired},
		"bad arguments": {func(a *policy.Ask) { a.Arguments = []byte(`{"a":1.5}`) }, refusal.PolicyUnavailable},
	} {
		a := write(t)
		c.change(&a)
		if r, err := b.Admit(ctx, policy.Default(), a); word(err) != c.want || r.State != "" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	other := must[*policy.Book](t)(policy.NewBook(b.db, must[*audit.Log](t)(audit.Open(b.db, audit.Options{Tenant: "other"})), "other", policy.Options{Secret: secret}))
	if _, err := other.Admit(ctx, policy.Default(), write(t)); word(err) != refusal.PolicyDenied {
		t.Errorf("another tenant's: %v", err)
	}
	if _, err := policy.NewBook(b.db, nil, "local", policy.Options{Secret: []byte("short")}); err == nil {
		t.Error("a short secret was taken")
	}
	b.check(t)
}

// TestVerbs walks each verb from each state.
func TestVerbs(t *testing.T) {
	want := map[policy.State][3]string{ // use, drop, sweep
		policy.Allowed: {"ok used", "ok dropped", "ok allowed"},
		policy.Denied:  {"policy_denied denied", "ok denied", "ok denied"},
		policy.Used:    {"replayed used", "ok used", "ok used"},
		policy.Dropped: {"conflict dropped", "ok dropped", "ok dropped"},
		policy.Expired: {"expired expired", "ok expired", "ok expired"},
	}
	eachBook(t, func(t *testing.T, b *book) {
		for state, row := range want {
			for i, then := range row {
				a, set := write(t), policy.Default()
				switch state {
				case policy.Denied:
					set = parse(t, `@id("f") forbid (principal, action, resource);`)
				case policy.Expired:
					a.Expires = time.Now().Add(30 * time.Millisecond)
				}
				r, _ := b.Admit(ctx, set, a)
				switch state {
				case policy.Used:
					ok(t, b.Use(ctx, r.ID, a.RequestDigest, policy.VisibleClick))
				case policy.Dropped:
					ok(t, b.Drop(ctx, r.ID, refusal.Cancelled))
				case policy.Expired:
					time.Sleep(35 * time.Millisecond)
					ok(t, b.Sweep(ctx))
				}
				err := []func() error{
					func() error { return b.Use(ctx, r.ID, a.RequestDigest, policy.VisibleClick) },
					func() error { return b.Drop(ctx, r.ID, refusal.Cancelled) },
					func() error { return b.Sweep(ctx) },
				}[i]()
				got := fmt.Sprintf("%s %s", word(err), must[policy.Receipt](t)(b.Receipt(ctx, r.ID)).State)
				if got != then {
					t.Errorf("verb %d from %s: %s, want %s", i, state, got, then)
				}
			}
		}
		if err := b.Drop(ctx, "nothing", refusal.Cancelled); word(err) != refusal.Unknown {
			t.Errorf("dropping nothing: %v", err)
		}
		b.check(t)
	})
}

// TestClaims decides and claims in one: both stand in the log, and the request is over.
func TestClaims(t *testing.T) {
	eachBook(t, func(t *testing.T, b *book) {
		read := ask(t, policy.Observe, own(t, "item_read"))
		read.Claims = true
		r := must[policy.Receipt](t)(b.Admit(ctx, policy.Default(), read))
		if r.State != policy.Used || r.Given != policy.None {
			t.Errorf("%+v", r)
		}
		if stands := must[policy.Receipt](t)(b.Receipt(ctx, r.ID)); stands.State != policy.Used || stands.Given != policy.None {
			t.Errorf("as it stands: %+v", stands)
		}
		if _, err := b.Admit(ctx, policy.Default(), read); word(err) != refusal.Replayed {
			t.Errorf("claimed again: %v", err)
		}
		if err := b.Use(ctx, r.ID, read.RequestDigest, policy.None); word(err) != refusal.Replayed {
			t.Errorf("used again: %v", err)
		}
		// What somebody has to confirm is claimed by nobody who only asks.
		mutation := write(t)
		mutation.Claims = true
		w, err := b.Admit(ctx, policy.Default(), mutation)
		if word(err) != refusal.PolicyDenied || w.State != policy.Allowed {
			t.Errorf("a mutation: %v, %+v", err, w)
		}
		denied := ask(t, policy.Observe, own(t, "item_read"))
		denied.Claims = true
		if d, err := b.Admit(ctx, parse(t, `@id("f") forbid (principal, action, resource);`), denied); word(err) != refusal.PolicyDenied || d.State != policy.Denied {
			t.Errorf("what is denied: %v, %+v", err, d)
		}
		// One that was decided before is claimed like any other.
		early := ask(t, policy.Observe, own(t, "item_read"))
		e := must[policy.Receipt](t)(b.Admit(ctx, policy.Default(), early))
		early.Claims = true
		if _, err := b.Admit(ctx, policy.Default(), early); err != nil || must[policy.Receipt](t)(b.Receipt(ctx, e.ID)).State != policy.Used {
			t.Errorf("decided before: %v", err)
		}
		if got, want := strings.Join(b.kinds(t), ", "), "policy.allowed, policy.used, policy.allowed, policy.denied policy_denied, policy.allowed, policy.used"; got != want {
			t.Errorf("the log has %s, want %s", got, want)
		}
		b.check(t)
	})
}

// Of many claims of one decision, one; of many who ask, one decision.
func TestRaces(t *testing.T) {
	eachBook(t, func(t *testing.T, b *book) {
		a := write(t)
		ids, codes := make(chan string, 24), make(chan refusal.Code, 24)
		for range cap(ids) {
			go func() {
				r, err := b.Admit(ctx, policy.Default(), a)
				if err != nil {
					t.Error(err)
				}
				ids <- r.ID
			}()
		}
		id := <-ids
		for range cap(ids) - 1 {
			if other := <-ids; other != id {
				t.Errorf("%s and %s", id, other)
			}
		}
		for range cap(codes) {
			go func() { codes <- word(b.Use(ctx, id, a.RequestDigest, policy.VisibleClick)) }()
		}
		got := map[refusal.Code]int{}
		for range cap(codes) {
			got[<-codes]++
		}
		if diff := cmp.Diff(map[refusal.Code]int{"ok": 1, refusal.Replayed: 23}, got); diff != "" {
			t.Error(diff)
		}
		if n := len(b.kinds(t)); n != 2 {
			t.Errorf("%d records, want 2", n)
		}
		b.check(t)
	})
}

var errLost = errors.New("the commit's answer was lost")

// Each durable step fails twice: not applied, and applied but told as failed.
func TestEachDurableStepFailsTwice(t *testing.T) {
	steps := map[string]struct {
		make  func(t *testing.T, b *book) func() error
		again refusal.Code // where the first was applied
	}{
		"Admit": {func(t *testing.T, b *book) func() error {
			a := write(t)
			return func() error { _, err := b.Admit(ctx, policy.Default(), a); return err }
		}, "ok"},
		"Admit, denied": {func(t *testing.T, b *book) func() error {
			a := ask(t, policy.Launch, engagement(t, "acme"))
			return func() error { _, err := b.Admit(ctx, policy.Default(), a); return err }
		}, refusal.PolicyDenied},
		"Use": {func(t *testing.T, b *book) func() error {
			a := write(t)
			r := must[policy.Receipt](t)(b.Admit(ctx, policy.Default(), a))
			return func() error { return b.Use(ctx, r.ID, a.RequestDigest, policy.VisibleClick) }
		}, refusal.Replayed},
		"Drop": {func(t *testing.T, b *book) func() error {
			r := must[policy.Receipt](t)(b.Admit(ctx, policy.Default(), write(t)))
			return func() error { return b.Drop(ctx, r.ID, refusal.Cancelled) }
		}, "ok"},
	}
	storetest.EachURL(t, func(t *testing.T, url string) {
		var lose, applied atomic.Bool
		b := open(t, url, store.Options{Commit: func(commit func() error) error {
			if !lose.Load() {
				return commit()
			}
			if applied.Load() {
				if err := commit(); err != nil {
					return err
				}
			}
			return errLost
		}})
		for name, s := range steps {
			for _, was := range []bool{false, true} {
				do := s.make(t, b)
				applied.Store(was)
				lose.Store(true)
				err := do()
				lose.Store(false)
				if !errors.Is(err, errLost) || word(err) != refusal.PolicyUnavailable {
					t.Errorf("%s: the lost commit answers %v", name, err)
				}
				b.check(t)
				want := refusal.Code("ok")
				if was || s.again == refusal.PolicyDenied {
					want = s.again
				}
				if got := word(do()); got != want {
					t.Errorf("%s again, applied %v: %s, want %s", name, was, got, want)
				}
				b.check(t)
			}
		}
	})
}

// Receipts edited, added or dropped behind the authority's back are found.
func TestCheckFindsEdits(t *testing.T) {
	for _, edit := range []string{
		`update policy_receipt set state='allowed', code='' where state='denied'`,
		`update policy_receipt set state='used', given='passkey' where state='allowed'`,
		`update policy_receipt set state='asleep' where state='allowed'`,
		`update policy_receipt set level='none' where state='allowed'`,
		`update policy_receipt set level='visible_click' where level='passkey'`,
		`update policy_receipt set request_digest='sha256:` + strings.Repeat("0", 64) + `' where state='used'`,
		`update policy_receipt set policy_version='sha256:` + strings.Repeat("0", 64) + `' where state='used'`,
		`update policy_receipt set rules='other' where state='used'`,
		`update policy_receipt set facts='x' where state='used'`,
		`update policy_receipt set given='visible_click' where state='used'`,
		`update policy_receipt set principal='x' where state='used'`,
		`update policy_receipt set agent='' where state='used'`,
		`update policy_receipt set resource='item_delete' where state='used'`,
		`update policy_receipt set kind='Engagement' where state='used'`,
		`update policy_receipt set action='observe' where state='used'`,
		`update policy_receipt set expires_ms=expires_ms+1 where state='allowed'`,
		`update policy_receipt set tenant='other' where state='allowed'`,
		`delete from policy_receipt where state='allowed'`,
	} {
		b := open(t, storetest.SQLite(t), store.Options{})
		must[policy.Receipt](t)(b.Admit(ctx, policy.Default(), write(t)))
		a := ask(t, policy.AccountMutation, page(t, "pay"))
		r := must[policy.Receipt](t)(b.Admit(ctx, policy.Default(), a))
		ok(t, b.Use(ctx, r.ID, a.RequestDigest, policy.Passkey))
		b.Admit(ctx, policy.Default(), ask(t, policy.Launch, engagement(t, "acme")))
		b.check(t)
		b.edit(t, edit)
		if err := b.verify(); !errors.Is(err, refusal.Tampered) {
			t.Errorf("after %q: got %v, want tampered", edit, err)
		}
	}
}

// TestTime: a decision ends at its deadline, and is forgotten a month after.
func TestTime(t *testing.T) {
	path := storetest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, path, store.Options{})
		a, late := write(t), write(t)
		r := must[policy.Receipt](t)(b.Admit(ctx, policy.Default(), a))
		l := must[policy.Receipt](t)(b.Admit(ctx, policy.Default(), late))
		time.Sleep(time.Minute - time.Millisecond)
		ok(t, b.Use(ctx, r.ID, a.RequestDigest, policy.VisibleClick))
		time.Sleep(time.Millisecond)
		if err := b.Use(ctx, l.ID, late.RequestDigest, policy.VisibleClick); word(err) != refusal.Expired {
			t.Errorf("at its deadline: %v", err)
		}
		late.Expires = time.Now().Add(time.Minute)
		if _, err := b.Admit(ctx, policy.Default(), late); word(err) != refusal.Expired {
			t.Errorf("asked again: %v", err)
		}
		ok(t, b.Sweep(ctx))
		b.check(t)
		time.Sleep(policy.Memory + time.Second)
		ok(t, b.Sweep(ctx))
		if _, err := b.Receipt(ctx, r.ID); word(err) != refusal.Unknown {
			t.Errorf("after a month: %v", err)
		}
		if diff := cmp.Diff([]string{"policy.allowed", "policy.allowed", "policy.used", "policy.expired expired", "policy.swept"}, b.kinds(t)); diff != "" {
			t.Error(diff)
		}
		b.check(t)
	})
}

// Nothing of a request is in the records: no argument, no person, no page.
func TestRecordsNameNobody(t *testing.T) {
	eachBook(t, func(t *testing.T, b *book) {
		must[policy.Receipt](t)(b.Admit(ctx, policy.Default(), ask(t, policy.AccountMutation, page(t, "pay"))))
		var all strings.Builder
		ok(t, audit.Records(ctx, b.db, audit.Filter{}, func(r audit.Record) error { fmt.Fprintf(&all, "%+v\n", r); return nil }))
		ok(t, b.db.View(ctx, func(tx *store.Tx) error {
			rows, err := tx.Query(`select * from policy_receipt`)
			if err != nil {
				return err
			}
			defer rows.Close()
			names, err := rows.Columns()
			if err != nil {
				return err
			}
			for rows.Next() {
				cells := make([]any, len(names))
				for i := range cells {
					cells[i] = new(any)
				}
				if err := rows.Scan(cells...); err != nil {
					return err
				}
				for _, c := range cells {
					fmt.Fprintf(&all, "%v ", *c.(*any))
				}
			}
			return rows.Err()
		}))
		if all.Len() < 500 {
			t.Fatalf("only %d bytes were read", all.Len())
		}
		for _, canary := range []string{"canary-argument", `"ana"`, " ana ", "planner", "staff", "shop.example", "cart"} {
			if strings.Contains(all.String(), canary) {
				t.Errorf("%q is in the records", canary)
			}
		}
	})
}

// TestReplay judges what was recorded by another file.
func TestReplay(t *testing.T) {
	eachBook(t, func(t *testing.T, b *book) {
		for _, a := range []policy.Ask{
			ask(t, policy.Observe, own(t, "item_read")), write(t), ask(t, policy.AccountMutation, own(t, "item_delete")),
			ask(t, policy.AccountMutation, page(t, "pay")), ask(t, policy.LocalUIMutation, page(t, "sort")), ask(t, policy.Launch, engagement(t, "acme")),
		} {
			b.Admit(ctx, policy.Default(), a)
		}
		replay := func(set *policy.Set) (policy.Summary, []string) {
			var told []string
			s, err := b.Replay(ctx, set, time.Time{}, func(r policy.Replayed) error {
				told = append(told, strings.TrimSpace(fmt.Sprintf("%s::%s %s->%s %s", r.Kind, r.Resource, r.Was, r.Would, strings.Join(r.Rules, " "))))
				return nil
			})
			ok(t, err)
			return s, told
		}
		s, told := replay(policy.Default())
		if s.Recorded != 6 || s.Same != 6 || told != nil {
			t.Errorf("the same policies: %+v %v", s, told)
		}
		s, told = replay(parse(t, `
			@id("night") permit (principal in Role::"staff", action in [Action::"observe", Action::"launch"], resource);
			@id("writes") @require_confirmation("passkey") permit (principal, action in Action::"mutate", resource == Tool::"item_write");
			@id("clean") permit (principal, action in Action::"mutate", resource == Tool::"item_delete");
			@id("small") @arguments("amount: Long") permit (principal, action in Action::"mutate", resource == PageTool::"https://shop.example#pay")
				when { context.arguments has amount && context.arguments.amount < 50 };`))
		want := []string{"Tool::item_write visible_click->passkey writes", "Tool::item_delete passkey->visible_click clean", "PageTool::pay passkey->depends",
			"PageTool::sort passkey->deny", "Engagement::acme deny->none night"}
		if diff := cmp.Diff(want, sorted(told, want)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(policy.Summary{PolicyVersion: s.PolicyVersion, Recorded: 6, Same: 1, Stricter: 2, Looser: 2, Depends: 1}, s); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// Another home's key opens nothing.
		log := must[*audit.Log](t)(audit.Open(b.db, audit.Options{Tenant: "local"}))
		other := must[*policy.Book](t)(policy.NewBook(b.db, log, "local", policy.Options{Secret: []byte(strings.Repeat("x", 32))}))
		s, err := other.Replay(ctx, policy.Default(), time.Time{}, func(policy.Replayed) error { return nil })
		if err != nil || s.Unreadable != 6 {
			t.Errorf("%+v %v", s, err)
		}
	})
}

// sorted brings got into want's order: receipts of one millisecond have none.
func sorted(got, want []string) (out []string) {
	rest := map[string]int{}
	for _, g := range got {
		rest[g]++
	}
	for _, w := range want {
		if rest[w] > 0 {
			rest[w]--
			out = append(out, w)
		}
	}
	for g, n := range rest {
		for range n {
			out = append(out, g)
		}
	}
	return out
}
