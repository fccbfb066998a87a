package credential_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/credential"
	"chaperone/internal/idptest"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, nil) }

const origin = "http://localhost:7080"

var key = func() []byte { b := make([]byte, 32); rand.Read(b); return b }()

type book struct {
	*credential.Book
	db *store.DB
}

func open(t testing.TB, url string, opts store.Options) *book {
	t.Helper()
	db := storetest.Open(t, url, opts)
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := credential.NewBook(db, log, "local", credential.Options{Origin: origin, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return &book{b, db}
}

func each(t *testing.T, f func(t *testing.T, b *book)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) {
		b := open(t, url, store.Options{})
		f(t, b)
		b.check(t)
	})
}

func (b *book) check(t testing.TB) {
	t.Helper()
	if err := b.db.View(context.Background(), func(tx *store.Tx) error { return credential.Check(tx) }); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func want(t testing.TB, what string, err error, code refusal.Code) {
	t.Helper()
	if got := refusal.Of(err); got != code || (err != nil) != (code != "") {
		t.Errorf("%s: got %v, want %q", what, err, code)
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// device makes an authenticator that behaves.
func device() *idptest.Authenticator {
	return &idptest.Authenticator{Origin: origin, RPID: "localhost", Counting: true}
}

// enrol makes a person with a passkey.
func (b *book) enrol(t testing.TB, name string) (credential.Person, *idptest.Authenticator, []string) {
	t.Helper()
	ctx := context.Background()
	secret := must[string](t)(b.Enrolment(ctx, name))
	a := device()
	options := must[[]byte](t)(b.BeginEnrol(ctx, secret, name))
	p, codes, err := b.FinishEnrol(ctx, secret, name, must[[]byte](t)(a.Create(options)))
	if err != nil {
		t.Fatal(err)
	}
	return p, a, codes
}

// request begins an authorization request of a browser.
func (b *book) request(t testing.TB, acr ...string) (id, browser string) {
	t.Helper()
	browser = credential.NewSecret()
	r := credential.Request{Client: "chaperone", Redirect: origin + "/auth/callback", Scopes: []string{"openid"}, State: "s", Nonce: "n", Challenge: "c", ACR: acr}
	return must[string](t)(b.BeginRequest(context.Background(), browser, r)), browser
}

// login answers a fresh request with the authenticator, and tells what came of it.
func (b *book) login(t testing.TB, a *idptest.Authenticator, acr ...string) (id, browser string, err error) {
	t.Helper()
	ctx := context.Background()
	id, browser = b.request(t, acr...)
	options := must[[]byte](t)(b.BeginLogin(ctx, id, browser))
	return id, browser, b.FinishLogin(ctx, id, browser, must[[]byte](t)(a.Get(options)))
}

func TestEnrolment(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		if has := must[bool](t)(b.HasPeople(ctx)); has {
			t.Error("somebody is there already")
		}
		ann, _, codes := b.enrol(t, "Ann")
		bob, _, _ := b.enrol(t, "Bob")
		if has := must[bool](t)(b.HasPeople(ctx)); !has {
			t.Error("nobody is there")
		}
		if fmt.Sprint(ann.Roles) != "[admin]" || len(bob.Roles) != 0 || len(codes) != credential.Codes {
			t.Errorf("ann has %v, bob %v, %d codes", ann.Roles, bob.Roles, len(codes))
		}
		if all := must[[]credential.Person](t)(b.People(ctx)); len(all) != 2 || all[0].Name != "Ann" {
			t.Errorf("people: %+v", all)
		}
		if keys := must[[]credential.Passkey](t)(b.Passkeys(ctx, ann.ID)); len(keys) != 1 || keys[0].Created.IsZero() {
			t.Errorf("passkeys: %+v", keys)
		}
		for name, bad := range map[string]string{"no name": "", "a newline": "a\nb", "bidi": "a\u202eb", "space around": " a", "long": strings.Repeat("a", 65), "tag": "a\U000E0041"} {
			_, err := b.Enrolment(ctx, bad)
			if bad != "" {
				want(t, name, err, refusal.BadDocument)
			}
			_, err = b.BeginEnrol(ctx, credential.NewSecret(), bad)
			want(t, name, err, refusal.BadDocument)
		}
		_, err := b.Invited(ctx, credential.NewSecret())
		want(t, "a link that was never made", err, refusal.BadCredential)
	})
}

// Somebody who lost their passkeys gets in by a link of the operator's.
func TestEnrolmentForSomebodyKnown(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		ann, old, codes := b.enrol(t, "Ann")
		_, err := b.EnrolmentFor(ctx, ann.ID, "person-0000000000000000")
		want(t, "nobody", err, refusal.Unknown)
		secret := must[string](t)(b.EnrolmentFor(ctx, ann.ID, ann.ID))
		if name := must[string](t)(b.Invited(ctx, secret)); name != "Ann" {
			t.Errorf("the link is for %q", name)
		}
		a := device()
		p, renewed, err := b.FinishEnrol(ctx, secret, "Another name", must[[]byte](t)(a.Create(must[[]byte](t)(b.BeginEnrol(ctx, secret, "Another name")))))
		want(t, "FinishEnrol", err, "")
		if p.ID != ann.ID || p.Name != "Ann" || len(renewed) != credential.Codes || len(must[[]credential.Person](t)(b.People(ctx))) != 1 {
			t.Errorf("%+v", p)
		}
		for _, device := range []*idptest.Authenticator{old, a} {
			_, _, err = b.login(t, device)
			want(t, "a passkey", err, "")
		}
		id, browser := b.request(t)
		want(t, "an old code", b.Recover(ctx, id, browser, codes[0]), refusal.BadCredential)
		_, err = b.BeginEnrol(ctx, secret, "Ann")
		want(t, "the link again", err, refusal.BadCredential)
		secret = must[string](t)(b.EnrolmentFor(ctx, ann.ID, ann.ID))
		want(t, "Disable", b.Disable(ctx, ann.ID, ann.ID), "")
		_, err = b.BeginEnrol(ctx, secret, "Ann")
		want(t, "disabled meanwhile", err, refusal.Disabled)
	})
}

// Of 64 racers with good answers exactly one enrols by a link.
func TestRacingEnrolments(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		books := []*book{open(t, url, store.Options{}), open(t, url, store.Options{})}
		ctx := context.Background()
		secret := must[string](t)(books[0].Enrolment(ctx, ""))
		answers := make([][]byte, 64)
		for i := range answers {
			answers[i] = must[[]byte](t)(device().Create(must[[]byte](t)(books[i%2].BeginEnrol(ctx, secret, "Ann"))))
		}
		if n := race(t, refusal.BadCredential, func(i int) error {
			_, _, err := books[i%2].FinishEnrol(ctx, secret, "Ann", answers[i])
			return err
		}); n != 1 {
			t.Errorf("%d of 64 enrolled", n)
		}
		if all := must[[]credential.Person](t)(books[0].People(ctx)); len(all) != 1 {
			t.Errorf("%d people", len(all))
		}
		books[1].check(t)
	})
}

// race runs 64 at once and counts who won; each other must be refused with code.
func race(t testing.TB, code refusal.Code, f func(i int) error) int64 {
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			switch err := f(i); {
			case err == nil:
				won.Add(1)
			case refusal.Of(err) != code:
				t.Errorf("racer %d: %v", i, err)
			}
		})
	}
	all.Wait()
	return won.Load()
}

// One answer of an authenticator, shown 64 times for one request, counts once.
func TestRacingChallenge(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		books := []*book{open(t, url, store.Options{}), open(t, url, store.Options{})}
		ctx := context.Background()
		_, a, _ := books[0].enrol(t, "Ann")
		id, browser := books[0].request(t)
		answer := must[[]byte](t)(a.Get(must[[]byte](t)(books[0].BeginLogin(ctx, id, browser))))
		if n := race(t, refusal.BadCredential, func(i int) error { return books[i%2].FinishLogin(ctx, id, browser, answer) }); n != 1 {
			t.Errorf("%d of 64 signed in", n)
		}
		books[1].check(t)
	})
}

func TestRacingRecoveryCode(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		books := []*book{open(t, url, store.Options{}), open(t, url, store.Options{})}
		_, _, codes := books[0].enrol(t, "Ann")
		requests, browsers := make([]string, 64), make([]string, 64)
		for i := range requests {
			requests[i], browsers[i] = books[0].request(t)
		}
		if n := race(t, refusal.BadCredential, func(i int) error {
			return books[i%2].Recover(context.Background(), requests[i], browsers[i], codes[0])
		}); n != 1 {
			t.Errorf("%d of 64 signed in", n)
		}
		books[1].check(t)
	})
}

func TestRacingCode(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		books := []*book{open(t, url, store.Options{}), open(t, url, store.Options{})}
		ctx := context.Background()
		_, a, _ := books[0].enrol(t, "Ann")
		id, browser, err := books[0].login(t, a)
		want(t, "login", err, "")
		if n := race(t, refusal.Replayed, func(i int) error { return books[i%2].GiveCode(ctx, id, browser, fmt.Sprint("code", i)) }); n != 1 {
			t.Errorf("%d of 64 codes were handed out", n)
		}
		var code string
		id, browser, err = books[0].login(t, a)
		want(t, "login", err, "")
		code = credential.NewSecret()
		want(t, "GiveCode", books[0].GiveCode(ctx, id, browser, code), "")
		if n := race(t, refusal.Replayed, func(i int) error { _, err := books[i%2].ClaimCode(ctx, code); return err }); n != 1 {
			t.Errorf("%d of 64 claimed the code", n)
		}
		books[1].check(t)
	})
}

// What an authenticator, or somebody who plays one, must not get away with.
func TestAssertionsRefused(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		ann, good, _ := b.enrol(t, "Ann")
		bob, _, _ := b.enrol(t, "Bob")
		if _, _, err := b.login(t, good); err != nil {
			t.Fatal(err)
		}
		stranger := device()
		if _, err := stranger.Create(must[[]byte](t)(b.BeginPasskey(ctx, credential.Who{ID: ann.ID}))); err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func(*idptest.Authenticator){
			"another challenge":       func(a *idptest.Authenticator) { a.Challenge = []byte(strings.Repeat("x", 32)) },
			"another origin":          func(a *idptest.Authenticator) { a.Origin = "http://localhost:7081" },
			"another scheme":          func(a *idptest.Authenticator) { a.Origin = "https://localhost:7080" },
			"a subdomain":             func(a *idptest.Authenticator) { a.Origin = "http://evil.localhost:7080" },
			"another RP ID":           func(a *idptest.Authenticator) { a.RPID = "evil.example" },
			"no user verification":    func(a *idptest.Authenticator) { a.Unverified = true },
			"nobody present":          func(a *idptest.Authenticator) { a.Absent = true },
			"a counter that is back":  func(a *idptest.Authenticator) { a.Counting, a.Counter = false, 1 },
			"a counter that is zero":  func(a *idptest.Authenticator) { a.Counting, a.Counter = false, 0 },
			"a creation":              func(a *idptest.Authenticator) { a.Type = "webauthn.create" },
			"a spoilt signature":      func(a *idptest.Authenticator) { a.Spoil = true },
			"another person's handle": func(a *idptest.Authenticator) { a.Handle = []byte(bob.ID) },
			"no handle":               func(a *idptest.Authenticator) { a.Handle = nil },
			"another credential id":   func(a *idptest.Authenticator) { a.ID = []byte("nobody's") },
		} {
			bad := *good
			change(&bad)
			_, _, err := b.login(t, &bad)
			want(t, name, err, refusal.BadCredential)
		}
		_, _, err := b.login(t, stranger)
		want(t, "a passkey that was never registered", err, refusal.BadCredential)
		id, browser := b.request(t)
		options := must[[]byte](t)(b.BeginLogin(ctx, id, browser))
		answer := must[[]byte](t)(good.Get(options))
		want(t, "another browser", b.FinishLogin(ctx, id, credential.NewSecret(), answer), refusal.BadState)
		other, otherBrowser := b.request(t)
		want(t, "another request", b.FinishLogin(ctx, other, otherBrowser, answer), refusal.BadCredential)
		for name, mangled := range map[string]string{
			"nothing": "", "no object": "[]", "two objects": string(answer) + "{}", "a member twice": strings.Replace(string(answer), `{`, `{"type":"public-key",`, 1),
			"no JSON": "{", "another type": strings.Replace(string(answer), "public-key", "password", 1), "huge": `{"a":"` + strings.Repeat("a", 70000) + `"}`,
		} {
			want(t, name, b.FinishLogin(ctx, id, browser, []byte(mangled)), refusal.BadCredential)
		}
		want(t, "the good answer", b.FinishLogin(ctx, id, browser, answer), "")
		want(t, "the good answer again", b.FinishLogin(ctx, id, browser, answer), refusal.BadCredential)
		// A spent challenge is spent by a bad answer too.
		id, browser = b.request(t)
		options = must[[]byte](t)(b.BeginLogin(ctx, id, browser))
		bad := *good
		bad.Unverified = true
		want(t, "a bad answer", b.FinishLogin(ctx, id, browser, must[[]byte](t)(bad.Get(options))), refusal.BadCredential)
		want(t, "a good answer to a spent challenge", b.FinishLogin(ctx, id, browser, must[[]byte](t)(good.Get(options))), refusal.BadCredential)
	})
}

// Registrations are judged as strictly.
func TestCreationsRefused(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		for name, change := range map[string]func(*idptest.Authenticator){
			"another challenge":    func(a *idptest.Authenticator) { a.Challenge = []byte(strings.Repeat("x", 32)) },
			"another origin":       func(a *idptest.Authenticator) { a.Origin = "http://localhost" },
			"another RP ID":        func(a *idptest.Authenticator) { a.RPID = "localhost2" },
			"no user verification": func(a *idptest.Authenticator) { a.Unverified = true },
			"nobody present":       func(a *idptest.Authenticator) { a.Absent = true },
			"an assertion":         func(a *idptest.Authenticator) { a.Type = "webauthn.get" },
		} {
			secret := must[string](t)(b.Enrolment(ctx, ""))
			a := device()
			change(a)
			answer := must[[]byte](t)(a.Create(must[[]byte](t)(b.BeginEnrol(ctx, secret, "Ann"))))
			_, codes, err := b.FinishEnrol(ctx, secret, "Ann", answer)
			want(t, name, err, refusal.BadCredential)
			if codes != nil {
				t.Errorf("%s: codes were told", name)
			}
			_, err = b.Invited(ctx, secret)
			want(t, name+": the link", err, "")
		}
		// One link's challenge is no other's.
		one, two := must[string](t)(b.Enrolment(ctx, "")), must[string](t)(b.Enrolment(ctx, ""))
		answer := must[[]byte](t)(device().Create(must[[]byte](t)(b.BeginEnrol(ctx, one, "Ann"))))
		_, _, err := b.FinishEnrol(ctx, two, "Ann", answer)
		want(t, "another link's challenge", err, refusal.BadCredential)
	})
}

func TestRecovery(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		ann, _, codes := b.enrol(t, "Ann")
		id, browser := b.request(t, credential.Passkeyed)
		want(t, "a step-up", b.Recover(ctx, id, browser, codes[0]), refusal.BadACR)
		id, browser = b.request(t)
		want(t, "as a person writes it", b.Recover(ctx, id, browser, " "+strings.ToUpper(strings.ReplaceAll(codes[0], "-", " "))), "")
		p := must[credential.Pending](t)(b.Request(ctx, id, browser))
		if p.Person != ann.ID || p.Level != credential.Recovered || p.AuthTime.IsZero() {
			t.Errorf("answered %+v", p)
		}
		want(t, "an answered request", b.Recover(ctx, id, browser, codes[1]), refusal.Replayed)
		id, browser = b.request(t)
		for _, bad := range []string{codes[0], "", "xxxx-xxxx-xxxx-xxxx", codes[1] + "a", strings.Repeat("a", 1000), "'; drop table person"} {
			want(t, bad, b.Recover(ctx, id, browser, bad), refusal.BadCredential)
		}
		renewed := must[[]string](t)(b.RecoveryCodes(ctx, ann.ID))
		want(t, "an old code", b.Recover(ctx, id, browser, codes[2]), refusal.BadCredential)
		want(t, "a new code", b.Recover(ctx, id, browser, renewed[0]), "")
		if left := must[int](t)(b.CodesLeft(ctx, ann.ID)); left != credential.Codes-1 {
			t.Errorf("%d codes left", left)
		}
	})
}

func TestPasskeys(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		ann, first, _ := b.enrol(t, "Ann")
		second := device()
		made, err := b.FinishPasskey(ctx, credential.Who{ID: ann.ID}, "Phone", must[[]byte](t)(second.Create(must[[]byte](t)(b.BeginPasskey(ctx, credential.Who{ID: ann.ID})))))
		want(t, "FinishPasskey", err, "")
		_, _, err = b.login(t, second)
		want(t, "the second passkey", err, "")
		keys := must[[]credential.Passkey](t)(b.Passkeys(ctx, ann.ID))
		if len(keys) != 2 || keys[1].Name != "Phone" || keys[1].Used.IsZero() {
			t.Errorf("passkeys %+v", keys)
		}
		want(t, "another's", b.RemovePasskey(ctx, "person-0000000000000000", made.ID), refusal.Unknown)
		want(t, "RemovePasskey", b.RemovePasskey(ctx, ann.ID, keys[0].ID), "")
		_, _, err = b.login(t, first)
		want(t, "a removed passkey", err, refusal.BadCredential)
		want(t, "the last", b.RemovePasskey(ctx, ann.ID, made.ID), refusal.Conflict)
		_, err = b.BeginPasskey(ctx, credential.Who{ID: "person-0000000000000000"})
		want(t, "nobody's", err, refusal.Unknown)
	})
}

// Who is disabled between the steps of a sign-in gets nothing at the next one.
func TestDisabledBetweenSteps(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		ann, a, codes := b.enrol(t, "Ann")
		off := func() { t.Helper(); want(t, "Disable", b.Disable(ctx, ann.ID, ann.ID), "") }
		on := func() { t.Helper(); want(t, "Enable", b.Enable(ctx, ann.ID, ann.ID), "") }

		off()
		_, _, err := b.login(t, a)
		want(t, "a passkey", err, refusal.Disabled)
		id, browser := b.request(t)
		want(t, "a code", b.Recover(ctx, id, browser, codes[0]), refusal.Disabled)
		_, err = b.BeginPasskey(ctx, credential.Who{ID: ann.ID})
		want(t, "one more passkey", err, refusal.Disabled)
		want(t, "twice", b.Disable(ctx, ann.ID, ann.ID), refusal.Conflict)
		on()

		coded := func() (string, string) {
			id, browser, err := b.login(t, a)
			want(t, "login", err, "")
			code := credential.NewSecret()
			want(t, "GiveCode", b.GiveCode(ctx, id, browser, code), "")
			return id, code
		}
		_, code := coded()
		off()
		_, err = b.ClaimCode(ctx, code)
		want(t, "a code", err, refusal.Disabled)
		on()
		_, err = b.ClaimCode(ctx, code)
		want(t, "that code later", err, refusal.Replayed)

		_, code = coded()
		p := must[credential.Pending](t)(b.ClaimCode(ctx, code))
		off()
		_, _, err = b.IssueToken(ctx, p, nil)
		want(t, "a token", err, refusal.Disabled)
		on()
		secret, _, err := b.IssueToken(ctx, p, []string{"openid"})
		want(t, "IssueToken", err, "")
		if token := must[credential.Token](t)(b.Token(ctx, secret)); token.Person != ann.ID || token.ACR != credential.Passkeyed {
			t.Errorf("token %+v", token)
		}
		off()
		_, err = b.Token(ctx, secret)
		want(t, "the token of a disabled person", err, refusal.Inactive)
		on()
		_, err = b.Token(ctx, secret)
		want(t, "that token later", err, refusal.Inactive)
	})
}

// A code that is shown twice takes back what it was exchanged for.
func TestReplayedCode(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		_, a, _ := b.enrol(t, "Ann")
		id, browser, err := b.login(t, a)
		want(t, "login", err, "")
		want(t, "another browser's", b.GiveCode(ctx, id, credential.NewSecret(), "x"), refusal.BadState)
		code := credential.NewSecret()
		want(t, "GiveCode", b.GiveCode(ctx, id, browser, code), "")
		_, err = b.ClaimCode(ctx, credential.NewSecret())
		want(t, "no code of ours", err, refusal.BadState)
		_, err = b.ClaimCode(ctx, "")
		want(t, "no code", err, refusal.BadState)
		p := must[credential.Pending](t)(b.ClaimCode(ctx, code))
		if p.Nonce != "n" || p.State != "s" || p.Level != credential.Passkeyed {
			t.Errorf("claimed %+v", p)
		}
		secret, _, err := b.IssueToken(ctx, p, nil)
		want(t, "IssueToken", err, "")
		for range 2 {
			_, err = b.ClaimCode(ctx, code)
			want(t, "the code again", err, refusal.Replayed)
		}
		_, err = b.Token(ctx, secret)
		want(t, "its token", err, refusal.Inactive)
		_, _, err = b.IssueToken(ctx, p, nil)
		want(t, "another token", err, refusal.Replayed)
	})
}

func TestClock(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		synctest.Test(t, func(t *testing.T) {
			b := open(t, url, store.Options{})
			ctx := context.Background()
			secret := must[string](t)(b.Enrolment(ctx, "Ann"))
			answer := func() []byte {
				return must[[]byte](t)(device().Create(must[[]byte](t)(b.BeginEnrol(ctx, secret, "Ann"))))
			}
			late := answer()
			time.Sleep(5 * time.Minute)
			_, _, err := b.FinishEnrol(ctx, secret, "Ann", late)
			want(t, "a challenge of five minutes", err, refusal.BadCredential)
			time.Sleep(10*time.Minute - time.Second)
			late = answer()
			time.Sleep(time.Second)
			_, _, err = b.FinishEnrol(ctx, secret, "Ann", late)
			want(t, "a link of fifteen minutes", err, refusal.BadCredential)
			_, err = b.Invited(ctx, secret)
			want(t, "a link of fifteen minutes", err, refusal.BadCredential)

			_, a, _ := b.enrol(t, "Ann")
			id, browser := b.request(t)
			options := must[[]byte](t)(b.BeginLogin(ctx, id, browser))
			time.Sleep(credential.RequestLife)
			want(t, "a request of ten minutes", b.FinishLogin(ctx, id, browser, must[[]byte](t)(a.Get(options))), refusal.BadCredential)
			id, browser, err = b.login(t, a)
			want(t, "login", err, "")
			want(t, "GiveCode", b.GiveCode(ctx, id, browser, "code"), "")
			time.Sleep(credential.CodeLife)
			_, err = b.ClaimCode(ctx, "code")
			want(t, "a code of a minute", err, refusal.Expired)
			id, browser, err = b.login(t, a)
			want(t, "login", err, "")
			want(t, "GiveCode", b.GiveCode(ctx, id, browser, "code2"), "")
			token, _, err := b.IssueToken(ctx, must[credential.Pending](t)(b.ClaimCode(ctx, "code2")), nil)
			want(t, "IssueToken", err, "")
			time.Sleep(credential.TokenLife)
			_, err = b.Token(ctx, token)
			want(t, "a token of an hour", err, refusal.Inactive)

			// A key signs for 90 days, and is told for two more.
			first := must[[]credential.SigningKey](t)(b.SigningKeys(ctx))
			if again := must[[]credential.SigningKey](t)(b.SigningKeys(ctx)); len(again) != 1 || again[0].ID != first[0].ID {
				t.Error("the key didn't stay")
			}
			time.Sleep(90 * 24 * time.Hour)
			second := must[[]credential.SigningKey](t)(b.SigningKeys(ctx))
			if len(second) != 2 || second[0].ID == first[0].ID || second[1].ID != first[0].ID {
				t.Error("the key wasn't renewed")
			}
			time.Sleep(48 * time.Hour)
			if third := must[[]credential.SigningKey](t)(b.SigningKeys(ctx)); len(third) != 1 || third[0].ID != second[0].ID {
				t.Error("the old key is still told")
			}
			want(t, "Sweep", b.Sweep(ctx), "")
			b.check(t)
		})
	})
}

func TestCheckFindsEdits(t *testing.T) {
	for _, edit := range []string{
		`update person set state='active' where state='disabled'`, `update person set state='odd'`, `delete from passkey`,
		`insert into passkey select 'x', person, 'x', name, body, counter, created_ms, used_ms from passkey`,
		`update recovery_code set state='unused'`, `update recovery_code set code_hash='short' where state='used'`,
		`update enrolment set person='' where state='used'`, `update enrolment set person='x'`, `update enrolment set until_ms=until_ms+1`,
		`update idp_request set person='' where state='spent'`, `update idp_request set code_hash='' where state='spent'`,
		`update idp_token set state='active'`, `update idp_token set person='x'`,
		`insert into person select 'x', tenant, name, 'x', roles, state, created_ms from person`,
	} {
		b := open(t, storetest.SQLite(t), store.Options{})
		ctx := context.Background()
		ann, a, codes := b.enrol(t, "Ann")
		id, browser := b.request(t)
		want(t, "Recover", b.Recover(ctx, id, browser, codes[0]), "")
		id, browser, err := b.login(t, a)
		want(t, "login", err, "")
		want(t, "GiveCode", b.GiveCode(ctx, id, browser, "code"), "")
		if _, _, err := b.IssueToken(ctx, must[credential.Pending](t)(b.ClaimCode(ctx, "code")), nil); err != nil {
			t.Fatal(err)
		}
		want(t, "Disable", b.Disable(ctx, ann.ID, ann.ID), "")
		b.check(t)
		if err := b.db.Update(ctx, func(tx *store.Tx) error { _, err := tx.Exec(edit); return err }); err != nil {
			t.Fatal(err)
		}
		if err := b.db.View(ctx, func(tx *store.Tx) error { return credential.Check(tx) }); !errors.Is(err, refusal.Tampered) {
			t.Errorf("after %q: got %v, want tampered", edit, err)
		}
	}
}

func TestLostCommits(t *testing.T) {
	lost := errors.New("the commit's answer was lost")
	for _, applied := range []bool{false, true} {
		storetest.EachURL(t, func(t *testing.T, url string) {
			var armed atomic.Bool
			b := open(t, url, store.Options{Commit: func(commit func() error) error {
				if !armed.CompareAndSwap(true, false) {
					return commit()
				}
				if applied {
					if err := commit(); err != nil {
						return err
					}
				}
				return lost
			}})
			ctx := context.Background()
			after := func(code refusal.Code) refusal.Code {
				if applied {
					return code
				}
				return ""
			}
			secret := must[string](t)(b.Enrolment(ctx, ""))
			a := device()
			answer := must[[]byte](t)(a.Create(must[[]byte](t)(b.BeginEnrol(ctx, secret, "Ann"))))
			armed.Store(true)
			if _, codes, err := b.FinishEnrol(ctx, secret, "Ann", answer); !errors.Is(err, lost) || codes != nil {
				t.Errorf("a lost enrolment answered %v", err)
			}
			_, codes, err := b.FinishEnrol(ctx, secret, "Ann", answer)
			want(t, "the enrolment again", err, after(refusal.BadCredential))

			id, browser := b.request(t)
			answer = must[[]byte](t)(a.Get(must[[]byte](t)(b.BeginLogin(ctx, id, browser))))
			armed.Store(true)
			if err := b.FinishLogin(ctx, id, browser, answer); !errors.Is(err, lost) {
				t.Errorf("a lost sign-in answered %v", err)
			}
			want(t, "the sign-in again", b.FinishLogin(ctx, id, browser, answer), after(refusal.BadCredential))
			want(t, "GiveCode", b.GiveCode(ctx, id, browser, "code"), "")
			armed.Store(true)
			if _, err := b.ClaimCode(ctx, "code"); !errors.Is(err, lost) {
				t.Errorf("a lost claim answered %v", err)
			}
			_, err = b.ClaimCode(ctx, "code")
			want(t, "the claim again", err, after(refusal.Replayed))
			if codes != nil {
				id, browser = b.request(t)
				armed.Store(true)
				if err := b.Recover(ctx, id, browser, codes[0]); !errors.Is(err, lost) {
					t.Errorf("a lost recovery answered %v", err)
				}
				want(t, "the recovery again", b.Recover(ctx, id, browser, codes[0]), after(refusal.Replayed))
			}
			b.check(t)
		})
	}
}

// Another key opens nothing, and says so.
func TestAnotherKey(t *testing.T) {
	url := storetest.SQLite(t)
	b := open(t, url, store.Options{})
	ctx := context.Background()
	id, browser := b.request(t)
	must[[]credential.SigningKey](t)(b.SigningKeys(ctx))
	log := must[*audit.Log](t)(audit.Open(b.db, audit.Options{Tenant: "local"}))
	other := must[*credential.Book](t)(credential.NewBook(b.db, log, "local", credential.Options{Origin: origin, Key: make([]byte, 32)}))
	_, err := other.Request(ctx, id, browser)
	want(t, "a request", err, refusal.Tampered)
	_, err = other.SigningKeys(ctx)
	want(t, "a signing key", err, refusal.Tampered)
	for name, opts := range map[string]credential.Options{
		"no key": {Origin: origin}, "a short key": {Origin: origin, Key: key[:31]}, "no origin": {Key: key}, "a path": {Origin: origin + "/x", Key: key}, "an address": {Origin: "http://127.0.0.1:7080", Key: key},
	} {
		_, err := credential.NewBook(b.db, log, "local", opts)
		want(t, name, err, refusal.BadDocument)
	}
}
