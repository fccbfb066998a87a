package oauth_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/audit"
	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// TestFromRequestToRevocation is one app's whole life.
func TestFromRequestToRevocation(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		f := b.asked(t)
		p, err := b.Request(ctx, f.request)
		if err != nil || p.Client.Name != "Probe" || p.Client.Document || oauth.RedirectHost(p.Redirect) != "127.0.0.1" ||
			!cmp.Equal(p.Scopes, []string{"collections", "owned"}) {
			t.Fatalf("Request: %+v, %v", p, err)
		}
		if err := f.approve(); err != nil {
			t.Fatal(err)
		}
		if err := f.redeem(); err != nil {
			t.Fatal(err)
		}
		g, err := b.Find(ctx, f.Access)
		if err != nil {
			t.Fatal(err)
		}
		got := []any{g.Principal.Tenant(), g.Principal.Actor(), g.Principal.Agent(), g.Principal.Roles(), g.Scopes, g.Connection == f.Connection}
		want := []any{"local", "ada", f.client.ID, []string{"a role"}, []string{"collections"}, true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("grant (-want +got):\n%s", diff)
		}
		if left := time.Until(g.Expires); left > oauth.AccessLife || left < oauth.AccessLife-time.Minute {
			t.Errorf("the access token lives for %v", left)
		}
		if code := b.find(f.Refresh); code != refusal.Unknown {
			t.Errorf("a refresh token as a bearer: %s", code)
		}
		next, err := f.refresh(f.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		if b.find(next.Access) != "ok" || b.find(f.Access) != "ok" {
			t.Error("tokens of one family don't stand beside each other until they expire")
		}
		if stands, err := b.Stands(ctx, g.Family); !stands || err != nil {
			t.Errorf("Stands: %v, %v", stands, err)
		}
		ended, err := b.Revoke(ctx, f.client.ID, next.Access)
		if err != nil || ended == nil || ended.Connection != f.Connection || ended.Actor != "ada" {
			t.Fatalf("Revoke: %+v, %v", ended, err)
		}
		for _, token := range []string{f.Access, next.Access} {
			if code := b.find(token); code != refusal.Unknown {
				t.Errorf("after revocation: %s", code)
			}
		}
		if _, err := f.refresh(next.Refresh); word(err) != refusal.Unknown {
			t.Errorf("refreshing after revocation: %v", err)
		}
		if stands, err := b.Stands(ctx, g.Family); stands || err != nil {
			t.Errorf("Stands: %v, %v", stands, err)
		}
		if again, err := b.Revoke(ctx, f.client.ID, next.Access); again != nil || err != nil {
			t.Errorf("revoked twice: %+v, %v", again, err)
		}
		b.check(t)
	})
}

// TestWhatDoesntFit: everything but the exact thing is refused, and changes nothing.
func TestWhatDoesntFit(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		f, other := b.approved(t), b.register(t)
		right := oauth.Redemption{Code: f.code, Client: f.client.ID, Redirect: callback, Verifier: f.verifier}
		for name, c := range map[string]struct {
			change func(*oauth.Redemption)
			want   refusal.Code
		}{
			"another client":    {func(r *oauth.Redemption) { r.Client = other.ID }, refusal.Unknown},
			"no client":         {func(r *oauth.Redemption) { r.Client = "" }, refusal.Unknown},
			"another redirect":  {func(r *oauth.Redemption) { r.Redirect = "http://127.0.0.1:9/callback" }, refusal.Unknown},
			"another verifier":  {func(r *oauth.Redemption) { r.Verifier = random() }, refusal.Unknown},
			"no verifier":       {func(r *oauth.Redemption) { r.Verifier = "" }, refusal.Unknown},
			"plain challenge":   {func(r *oauth.Redemption) { r.Verifier = challenge(f.verifier) }, refusal.Unknown},
			"another resource":  {func(r *oauth.Redemption) { r.Resource = "https://other.example/mcp" }, refusal.BadResource},
			"another code":      {func(r *oauth.Redemption) { r.Code = "chap_ac_" + strings.Repeat("0", 64) }, refusal.Unknown},
			"a code in capital": {func(r *oauth.Redemption) { r.Code = strings.ToUpper(r.Code) }, refusal.Unknown},
		} {
			r := right
			c.change(&r)
			if _, err := b.Redeem(ctx, r); word(err) != c.want {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		}
		if err := f.redeem(); err != nil {
			t.Fatalf("the right one after that: %v", err)
		}
		for name, c := range map[string]struct {
			r    oauth.Renewal
			want refusal.Code
		}{
			"another client":   {oauth.Renewal{Token: f.Refresh, Client: other.ID}, refusal.Unknown},
			"the access token": {oauth.Renewal{Token: f.Access, Client: f.client.ID}, refusal.Unknown},
			"more scopes":      {oauth.Renewal{Token: f.Refresh, Client: f.client.ID, Scopes: []string{"owned"}}, refusal.BadDocument},
			"another resource": {oauth.Renewal{Token: f.Refresh, Client: f.client.ID, Resource: origin}, refusal.BadResource},
		} {
			if _, err := b.Refresh(ctx, c.r); word(err) != c.want {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		}
		if _, err := b.Revoke(ctx, other.ID, f.Access); word(err) != refusal.Conflict {
			t.Errorf("another client's revocation: %v", err)
		}
		if b.find(f.Access) != "ok" {
			t.Error("something of it took effect")
		}
		b.check(t)
	})
}

func TestBeginRefuses(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "c.db"), store.Options{}, oauth.Options{})
	c := b.register(t)
	right := oauth.Ask{Client: c, Redirect: callback, State: "x", Challenge: challenge("v"), Scopes: []string{"collections"}}
	for name, x := range map[string]struct {
		change func(*oauth.Ask)
		want   refusal.Code
	}{
		"as it should be":    {func(*oauth.Ask) {}, "ok"},
		"another port":       {func(a *oauth.Ask) { a.Redirect = "http://127.0.0.1:8123/callback" }, "ok"},
		"another path":       {func(a *oauth.Ask) { a.Redirect = "http://127.0.0.1/other" }, refusal.BadRedirect},
		"localhost":          {func(a *oauth.Ask) { a.Redirect = "http://localhost/callback" }, refusal.BadRedirect},
		"no client":          {func(a *oauth.Ask) { a.Client = oauth.Client{} }, refusal.BadRedirect},
		"no challenge":       {func(a *oauth.Ask) { a.Challenge = "" }, refusal.BadDocument},
		"padded challenge":   {func(a *oauth.Ask) { a.Challenge += "=" }, refusal.BadDocument},
		"short challenge":    {func(a *oauth.Ask) { a.Challenge = a.Challenge[:40] }, refusal.BadDocument},
		"no scope":           {func(a *oauth.Ask) { a.Scopes = nil }, refusal.BadDocument},
		"a scope unknown":    {func(a *oauth.Ask) { a.Scopes = []string{"admin"} }, refusal.BadDocument},
		"long state":         {func(a *oauth.Ask) { a.State = strings.Repeat("x", 1025) }, refusal.BadDocument},
		"state with newline": {func(a *oauth.Ask) { a.State = "a\nb" }, refusal.BadDocument},
		"another resource":   {func(a *oauth.Ask) { a.Resource = origin }, refusal.BadResource},
	} {
		a := right
		x.change(&a)
		if _, err := b.Begin(context.Background(), a); word(err) != x.want {
			t.Errorf("%s: %v, want %s", name, err, x.want)
		}
	}
}

// TestApproveRefuses: an approval gives what was asked, or less, and never for
// longer than it may.
func TestApproveRefuses(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "c.db"), store.Options{}, oauth.Options{})
	f := b.asked(t)
	for name, change := range map[string]func(*oauth.Approval){
		"more scopes":   func(a *oauth.Approval) { a.Scopes = []string{oauth.ScopeControl} },
		"no scopes":     func(a *oauth.Approval) { a.Scopes = nil },
		"nobody":        func(a *oauth.Approval) { a.Actor = "" },
		"no connection": func(a *oauth.Approval) { a.Connection = "" },
		"the past":      func(a *oauth.Approval) { a.Ends = time.Now() },
		"two years":     func(a *oauth.Approval) { a.Ends = time.Now().Add(2 * oauth.MaxLife) },
	} {
		a := f.approval()
		change(&a)
		if _, err := b.Approve(context.Background(), f.request, a); word(err) != refusal.BadDocument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := f.requestState(); s != oauth.Waiting {
		t.Errorf("the request is %s", s)
	}
}

// TestExpiries: each life ends at its time, by the database's records alone.
func TestExpiries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, filepath.Join(t.TempDir(), "c.db"), store.Options{}, oauth.Options{})
		ctx := context.Background()
		late := b.asked(t)
		code := b.approved(t)
		f := b.connected(t)
		short := b.asked(t)
		a := short.approval()
		a.Ends = time.Now().Add(3 * time.Minute)
		next, err := b.Approve(ctx, short.request, a)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(next, "code=")
		short.code, _, _ = strings.Cut(rest, "&")
		if err := short.redeem(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(oauth.CodeLife)
		if err := code.redeem(); word(err) != refusal.Expired || code.codeState() != oauth.Expired {
			t.Errorf("a code after its minute: %v, %s", err, code.codeState())
		}
		if err := code.redeem(); word(err) != refusal.Expired {
			t.Errorf("and again: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if b.find(short.Access) != refusal.Expired || b.find(f.Access) != "ok" {
			t.Error("a token outlives its family, or dies before its time")
		}
		if _, err := short.refresh(short.Refresh); word(err) != refusal.Expired {
			t.Errorf("refreshing past the family's end: %v", err)
		}
		time.Sleep(7 * time.Minute)
		if code := b.find(f.Access); code != refusal.Expired {
			t.Errorf("an access token after ten minutes: %s", code)
		}
		if _, err := b.Request(ctx, late.request); word(err) != refusal.Expired {
			t.Errorf("a request after ten minutes: %v", err)
		}
		if err := late.approve(); word(err) != refusal.Expired || late.requestState() != oauth.Expired {
			t.Errorf("approving it: %v, %s", err, late.requestState())
		}
		second, err := f.refresh(f.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(oauth.RefreshLife)
		if _, err := f.refresh(second.Refresh); word(err) != refusal.Expired {
			t.Errorf("a refresh token after thirty days: %v", err)
		}
		ended, err := b.Sweep(ctx)
		if err != nil || len(ended) != 2 { // short, past its end, and code, never redeemed
			t.Errorf("Sweep: %+v, %v", ended, err)
		}
		b.check(t)
		time.Sleep(61 * 24 * time.Hour)
		for range 2 {
			if _, err := b.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(31 * 24 * time.Hour)
		}
		for _, table := range []string{"client", "request", "family", "code", "token"} {
			if n := b.count(t, `select count(*) from oauth_`+table); n != 0 {
				t.Errorf("%d rows of oauth_%s are left", n, table)
			}
		}
		b.check(t)
	})
}

// TestNothingInClear: what was given stands nowhere in the database, in the log
// neither a token nor a URL nor a client's word for itself.
func TestNothingInClear(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		f := b.connected(t)
		script, err := b.Issue(ctx, oauth.Script{Client: oauth.NewScript(), Actor: "ada", Name: "Backup", Scopes: []string{"collections"},
			Connection: random()[:32], Ends: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if b.find(script) != "ok" {
			t.Error("a script's token isn't good")
		}
		var all strings.Builder
		err = b.db.View(ctx, func(tx *store.Tx) error {
			for _, table := range []string{"oauth_client", "oauth_request", "oauth_family", "oauth_code", "oauth_token", "audit_leaf"} {
				columns := map[string]string{"oauth_code": "hash||request||redirect", "oauth_token": "hash||scopes||kind", "oauth_family": "id||client||name||connection",
					"oauth_client": "id||name||redirects", "oauth_request": "id||redirect||challenge", "audit_leaf": "leaf"}[table]
				if err := texts(tx, `select `+columns+` from `+table, &all); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, secret := range map[string]string{"code": f.code, "access": f.Access, "refresh": f.Refresh, "script": script, "verifier": f.verifier} {
			_, hex, _ := strings.Cut(secret, "_")
			if strings.Contains(all.String(), secret) || hex != "" && strings.Contains(all.String(), hex) {
				t.Errorf("the %s stands in clear", name)
			}
		}
		var log strings.Builder
		if err := b.db.View(ctx, func(tx *store.Tx) error { return texts(tx, `select leaf from audit_leaf`, &log) }); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"http", "127.0.0.1", "Probe", "Backup", "callback"} {
			if strings.Contains(log.String(), text) {
				t.Errorf("the log tells %q", text)
			}
		}
		if !strings.Contains(log.String(), "oauth.approved") || !strings.Contains(log.String(), "oauth.redeemed") || !strings.Contains(log.String(), "oauth.issued") {
			t.Error("the log doesn't tell what happened")
		}
	})
}

func texts(tx *store.Tx, query string, into *strings.Builder) error {
	rows, err := tx.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return err
		}
		into.Write(b)
		into.WriteByte('\n')
	}
	return rows.Err()
}

// TestOtherTenant: a book finds nothing of another tenant's.
func TestOtherTenant(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "c.db"), store.Options{}, oauth.Options{})
	f, waiting := b.connected(t), b.asked(t)
	log, err := audit.Open(b.db, audit.Options{Tenant: "other"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := oauth.NewBook(b.db, log, "other", oauth.Options{Origin: origin})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := oauth.NewBook(b.db, log, "local", oauth.Options{Origin: "https://elsewhere.example"})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*oauth.Book{"another tenant": other, "another origin": elsewhere} {
		if _, err := o.Find(t.Context(), f.Access); word(err) != refusal.Unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := other.Request(t.Context(), waiting.request); word(err) != refusal.Unknown {
		t.Errorf("another tenant's request: %v", err)
	}
	if _, err := other.Client(t.Context(), f.client.ID); word(err) != refusal.Unknown {
		t.Errorf("another tenant's client: %v", err)
	}
	if err := other.RevokeConnection(t.Context(), f.Connection); err != nil || b.find(f.Access) != "ok" {
		t.Errorf("another tenant revoked: %v", err)
	}
}

// TestRefreshNeverWidens: a token can be narrowed to what was given to the letter,
// and what it is narrowed to isn't what the next one can have.
func TestRefreshNeverWidens(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		f := b.asked(t)
		a := f.approval()
		a.Scopes = []string{oauth.ScopeCollections, oauth.ScopeOwned, oauth.Engagement("acme")}
		next, err := b.Approve(ctx, f.request, a)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(next, "code=")
		f.code, _, _ = strings.Cut(rest, "&")
		if err := f.redeem(); err != nil {
			t.Fatal(err)
		}
		token := f.Refresh
		for _, c := range []struct {
			scope string
			want  refusal.Code
			given []string
		}{
			{"owned:evil", refusal.BadDocument, nil},
			{"collections owned owned:evil", refusal.BadDocument, nil},
			{"control:write", refusal.BadDocument, nil},
			{"owned: collections", refusal.BadDocument, nil},
			{"collections", "ok", []string{"collections"}},
			{"collections owned owned:acme", "ok", []string{"collections", "owned", "owned:acme"}},
			{"owned:acme owned", "ok", []string{"owned", "owned:acme"}},
		} {
			scopes, err := oauth.ParseGranted(c.scope)
			if err == nil {
				var tokens oauth.Tokens
				tokens, err = b.Refresh(ctx, oauth.Renewal{Token: token, Client: f.client.ID, Scopes: scopes})
				if err == nil {
					token = tokens.Refresh
					if g, err := b.Find(ctx, tokens.Access); err != nil || !cmp.Equal(c.given, g.Scopes) {
						t.Errorf("%q gives %v, %v", c.scope, g.Scopes, err)
					}
				}
			}
			if word(err) != c.want {
				t.Errorf("%q: %v, want %s", c.scope, err, c.want)
			}
		}
		b.check(t)
	})
}
