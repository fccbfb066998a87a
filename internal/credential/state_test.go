package credential_test

import (
	"context"
	"testing"

	"chaperone/internal/credential"
	"chaperone/internal/refusal"
)

// TestEveryVerbFromEveryState walks a request's verbs from each of its states: a
// verb moves it from the one state it starts from, and elsewhere changes nothing.
func TestEveryVerbFromEveryState(t *testing.T) {
	states := []credential.State{credential.Waiting, credential.Answered, credential.Coded, credential.Spent, credential.Replayed}
	verbs := []struct {
		name string
		do   func(b *book, p pass) error
		want map[credential.State]refusal.Code // "" where it is accepted
	}{
		{"answer with a passkey", func(b *book, p pass) error {
			options, err := b.BeginLogin(context.Background(), p.id, p.browser)
			if err != nil {
				return err
			}
			answer, err := p.device.Get(options)
			if err != nil {
				return err
			}
			return b.FinishLogin(context.Background(), p.id, p.browser, answer)
		}, map[credential.State]refusal.Code{
			credential.Waiting: "", credential.Answered: refusal.Replayed, credential.Coded: refusal.Replayed, credential.Spent: refusal.Replayed, credential.Replayed: refusal.Replayed,
		}},
		{"answer with a recovery code", func(b *book, p pass) error { return b.Recover(context.Background(), p.id, p.browser, p.recovery) },
			map[credential.State]refusal.Code{
				credential.Waiting: "", credential.Answered: refusal.Replayed, credential.Coded: refusal.Replayed, credential.Spent: refusal.Replayed, credential.Replayed: refusal.Replayed,
			}},
		{"give a code", func(b *book, p pass) error {
			return b.GiveCode(context.Background(), p.id, p.browser, credential.NewSecret())
		}, map[credential.State]refusal.Code{
			credential.Waiting: refusal.Replayed, credential.Answered: "", credential.Coded: refusal.Replayed, credential.Spent: refusal.Replayed, credential.Replayed: refusal.Replayed,
		}},
		{"claim the code", func(b *book, p pass) error { _, err := b.ClaimCode(context.Background(), p.code); return err },
			map[credential.State]refusal.Code{
				credential.Waiting: refusal.BadState, credential.Answered: refusal.BadState, credential.Coded: "", credential.Spent: refusal.Replayed, credential.Replayed: refusal.Replayed,
			}},
		{"issue a token", func(b *book, p pass) error {
			pending, err := b.Request(context.Background(), p.id, p.browser)
			if err == nil {
				_, _, err = b.IssueToken(context.Background(), pending, nil)
			}
			return err
		}, map[credential.State]refusal.Code{
			credential.Waiting: refusal.Replayed, credential.Answered: refusal.Replayed, credential.Coded: refusal.Replayed, credential.Spent: "", credential.Replayed: refusal.Replayed,
		}},
	}
	each(t, func(t *testing.T, b *book) {
		_, device, _ := b.enrol(t, "Ann")
		ann := must[[]credential.Person](t)(b.People(context.Background()))[0].ID
		for _, verb := range verbs {
			for _, state := range states {
				p := b.in(t, state)
				p.device, p.recovery = device, must[[]string](t)(b.RecoveryCodes(context.Background(), ann))[0]
				want(t, verb.name+" from "+string(state), verb.do(b, p), verb.want[state])
				after := must[credential.Pending](t)(b.Request(context.Background(), p.id, p.browser)).Step
				replay := verb.name == "claim the code" && state == credential.Spent // tells the replay
				if moved := after != state; moved != (verb.want[state] == "" && verb.name != "issue a token" || replay) {
					t.Errorf("%s from %s left it %s", verb.name, state, after)
				}
			}
		}
	})
}

// pass is a request with what its verbs take.
type pass struct {
	id, browser, code, recovery string
	device                      interface{ Get([]byte) ([]byte, error) }
}

// in makes a request that stands in a state.
func (b *book) in(t *testing.T, state credential.State) pass {
	t.Helper()
	ctx := context.Background()
	p := pass{code: credential.NewSecret()}
	p.id, p.browser = b.request(t)
	steps := []func() error{
		func() error {
			people := must[[]credential.Person](t)(b.People(ctx))
			return b.Recover(ctx, p.id, p.browser, must[[]string](t)(b.RecoveryCodes(ctx, people[0].ID))[1])
		},
		func() error { return b.GiveCode(ctx, p.id, p.browser, p.code) },
		func() error { _, err := b.ClaimCode(ctx, p.code); return err },
		func() error { _, _ = b.ClaimCode(ctx, p.code); return nil },
	}
	for i, reached := range []credential.State{credential.Answered, credential.Coded, credential.Spent, credential.Replayed} {
		if state == credential.Waiting {
			break
		}
		want(t, "reaching "+string(reached), steps[i](), "")
		if reached == state {
			break
		}
	}
	if got := must[credential.Pending](t)(b.Request(ctx, p.id, p.browser)).Step; got != state {
		t.Fatalf("the request is %s, want %s", got, state)
	}
	return p
}
