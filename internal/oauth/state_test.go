package oauth_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
)

// in makes a flow that stands in a state: of its request, its code or its family.
func in(t *testing.T, b *book, state string) *flow {
	t.Helper()
	ctx := context.Background()
	var f *flow
	var err error
	switch state {
	case "waiting":
		return b.asked(t)
	case "denied":
		f = b.asked(t)
		_, err = b.Deny(ctx, f.request, "ada")
	case "approved":
		return b.approved(t)
	case "redeemed":
		return b.connected(t)
	case "refreshed":
		f = b.connected(t)
		_, err = f.refresh(f.Refresh)
	case "replayed":
		f = b.connected(t)
		kept := f.Tokens
		if code := word(f.redeem()); code != refusal.Replayed {
			t.Fatalf("the code again: %s", code)
		}
		f.Tokens = kept
	case "burned":
		f = b.connected(t)
		if _, err = f.refresh(f.Refresh); err != nil {
			break
		}
		if _, again := f.refresh(f.Refresh); word(again) != refusal.Replayed {
			t.Fatalf("the refresh token again: %v", again)
		}
	case "revoked":
		f = b.connected(t)
		err = b.RevokeConnection(ctx, f.Connection)
	case "revoked before":
		f = b.approved(t)
		err = b.RevokeConnection(ctx, b.text(t, `select connection from oauth_family where client=$1`, f.client.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// stands is where the three records of a flow are.
type stands struct{ Request, Code, Family oauth.State }

// TestEveryVerbFromEveryState walks the table of moves: each verb from each
// state, what it answers and where the records stand then.
func TestEveryVerbFromEveryState(t *testing.T) {
	ctx := context.Background()
	verbs := []struct {
		name string
		do   func(f *flow) error
	}{
		{"request", func(f *flow) error { _, err := f.b.Request(ctx, f.request); return err }},
		{"approve", func(f *flow) error { return f.approve() }},
		{"deny", func(f *flow) error { _, err := f.b.Deny(ctx, f.request, "ada"); return err }},
		{"redeem", func(f *flow) error { return f.redeem() }},
		{"refresh", func(f *flow) error { _, err := f.refresh(f.Refresh); return err }},
		{"find", func(f *flow) error { _, err := f.b.Find(ctx, f.Access); return err }},
		{"revoke", func(f *flow) error { _, err := f.b.Revoke(ctx, f.client.ID, f.Access); return err }},
		{"revoke the connection", func(f *flow) error {
			return f.b.RevokeConnection(ctx, f.b.text(f.t, `select connection from oauth_family where client=$1`, f.client.ID))
		}},
		{"sweep", func(f *flow) error { _, err := f.b.Sweep(ctx); return err }},
	}
	type row struct {
		Code refusal.Code
		Then stands
	}
	const ok, no, conflict, replayed = refusal.Code("ok"), refusal.Unknown, refusal.Conflict, refusal.Replayed
	same := func(s stands, codes ...refusal.Code) (rows []row) {
		for _, c := range codes {
			rows = append(rows, row{c, s})
		}
		return rows
	}
	with := func(rows []row, changed map[int]row) []row {
		for i, r := range changed {
			rows[i] = r
		}
		return rows
	}
	pending, denied := stands{oauth.Waiting, "", ""}, stands{oauth.Denied, "", ""}
	approved, redeemed := stands{oauth.Approved, oauth.Issued, oauth.Live}, stands{oauth.Approved, oauth.Redeemed, oauth.Live}
	replay, burned := stands{oauth.Approved, oauth.Replayed, oauth.Burned}, stands{oauth.Approved, oauth.Redeemed, oauth.Burned}
	revoked, before := stands{oauth.Approved, oauth.Redeemed, oauth.Revoked}, stands{oauth.Approved, oauth.Issued, oauth.Revoked}
	spentAfter := func(s stands) stands { s.Code = oauth.Replayed; return s }
	want := map[string][]row{
		"waiting": with(same(pending, ok, ok, ok, no, no, no, ok, ok, ok),
			map[int]row{1: {ok, approved}, 2: {ok, denied}}),
		"denied": same(denied, conflict, conflict, conflict, no, no, no, ok, ok, ok),
		"approved": with(same(approved, conflict, conflict, conflict, ok, no, no, ok, ok, ok),
			map[int]row{3: {ok, redeemed}, 7: {ok, before}}),
		"redeemed": with(same(redeemed, conflict, conflict, conflict, replayed, ok, ok, ok, ok, ok),
			map[int]row{3: {replayed, replay}, 6: {ok, revoked}, 7: {ok, revoked}}),
		"refreshed": with(same(redeemed, conflict, conflict, conflict, replayed, replayed, ok, ok, ok, ok),
			map[int]row{3: {replayed, replay}, 4: {replayed, burned}, 6: {ok, revoked}, 7: {ok, revoked}}),
		"replayed": same(replay, conflict, conflict, conflict, replayed, no, no, ok, ok, ok),
		"burned": with(same(burned, conflict, conflict, conflict, replayed, replayed, no, ok, ok, ok),
			map[int]row{3: {replayed, spentAfter(burned)}}),
		"revoked": with(same(revoked, conflict, conflict, conflict, replayed, no, no, ok, ok, ok),
			map[int]row{3: {replayed, spentAfter(revoked)}}),
		"revoked before": same(before, conflict, conflict, conflict, no, no, no, ok, ok, ok),
	}
	each(t, func(t *testing.T, b *book) {
		for state, rows := range want {
			for i, verb := range verbs {
				f := in(t, b, state)
				code := word(verb.do(f))
				got := row{code, stands{f.requestState(), f.codeState(), f.family()}}
				if diff := cmp.Diff(rows[i], got); diff != "" {
					t.Errorf("%s from %s (-want +got):\n%s", verb.name, state, diff)
				}
			}
		}
		b.check(t)
	})
}

// race runs f in 64 goroutines over two handles, as two processes would be.
func race(f func(i int) error) map[refusal.Code]int {
	codes := make(chan refusal.Code, 64)
	for i := range cap(codes) {
		go func() { codes <- word(f(i)) }()
	}
	got := map[refusal.Code]int{}
	for range cap(codes) {
		got[<-codes]++
	}
	return got
}

// TestOneOfManyWins races each one-use thing. A code and a refresh token that were
// shown twice burn the family: of two holders nobody can tell the thief.
func TestOneOfManyWins(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		approving, redeeming, refreshing := b.asked(t), b.approved(t), b.connected(t)
		for _, c := range []struct {
			name string
			do   func(int) error
			lost refusal.Code
			then func() oauth.State
			want oauth.State
		}{
			{"approve", func(i int) error { _, err := b.Approve(ctx, approving.request, approving.approval()); return err }, refusal.Conflict, approving.family, oauth.Live},
			{"redeem", func(i int) error {
				_, err := b.Redeem(ctx, oauth.Redemption{Code: redeeming.code, Client: redeeming.client.ID, Redirect: callback, Verifier: redeeming.verifier})
				return err
			}, refusal.Replayed, redeeming.family, oauth.Burned},
			{"refresh", func(i int) error { _, err := refreshing.refresh(refreshing.Refresh); return err }, refusal.Replayed, refreshing.family, oauth.Burned},
		} {
			if diff := cmp.Diff(map[refusal.Code]int{"ok": 1, c.lost: 63}, race(c.do)); diff != "" {
				t.Errorf("64 × %s (-want +got):\n%s", c.name, diff)
			}
			if got := c.then(); got != c.want {
				t.Errorf("after 64 × %s the family is %s, want %s", c.name, got, c.want)
			}
		}
		if n := b.count(t, `select count(*) from oauth_code where request=$1`, approving.request); n != 1 {
			t.Errorf("%d codes, want 1", n)
		}
		b.check(t)
	})
}

// TestIssueRefuses: a script's token is made whole or not at all.
func TestIssueRefuses(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		right := oauth.Script{Client: oauth.NewScript(), Actor: "ada", Name: "Backup", Scopes: []string{"collections"}, Connection: random()[:32], Ends: time.Now().Add(time.Hour)}
		for name, change := range map[string]func(*oauth.Script){
			"no name":        func(s *oauth.Script) { s.Name = "" },
			"a hidden name":  func(s *oauth.Script) { s.Name = "a\u202eb" },
			"nobody":         func(s *oauth.Script) { s.Actor = "" },
			"no scope":       func(s *oauth.Script) { s.Scopes = nil },
			"another scope":  func(s *oauth.Script) { s.Scopes = []string{"admin"} },
			"the past":       func(s *oauth.Script) { s.Ends = time.Now().Add(-time.Second) },
			"for ever":       func(s *oauth.Script) { s.Ends = time.Now().Add(10 * oauth.MaxLife) },
			"no connection":  func(s *oauth.Script) { s.Connection = "" },
			"an app's id":    func(s *oauth.Script) { s.Client = "client_x" },
			"a document's":   func(s *oauth.Script) { s.Client = "https://a.example/x" },
			"no client's id": func(s *oauth.Script) { s.Client = "" },
		} {
			s := right
			change(&s)
			if _, err := b.Issue(t.Context(), s); word(err) != refusal.BadDocument {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := b.count(t, `select count(*) from oauth_family`); n != 0 {
			t.Errorf("%d families were made", n)
		}
		token, err := b.Issue(t.Context(), right)
		if err != nil || b.find(token) != "ok" {
			t.Fatalf("Issue: %v", err)
		}
		all, err := b.Families(t.Context(), "ada")
		if err != nil || len(all) != 1 || !all[0].Script || all[0].Name != "Backup" || all[0].State != oauth.Live {
			t.Errorf("Families: %+v, %v", all, err)
		}
		if err := b.RevokeConnection(t.Context(), right.Connection); err != nil || b.find(token) != refusal.Unknown {
			t.Errorf("after revocation: %v, %s", err, b.find(token))
		}
		b.check(t)
	})
}
