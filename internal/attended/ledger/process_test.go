package ledger_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/audit"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]storetest.Role{"claim": claim, "live": live, "hammer": hammer})
}

// bare opens a ledger without a test around it.
func bare(url string) (*ledger.Book, func() error, error) {
	db, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return nil, nil, err
	}
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		return nil, nil, err
	}
	receipts, err := policy.NewBook(db, log, "local", policy.Options{Secret: make([]byte, 32)})
	if err != nil {
		return nil, nil, err
	}
	b, err := ledger.NewBook(db, log, "local", ledger.Options{Receipts: receipts})
	return b, db.Close, err
}

// claim is a process that confirms each call that it reads of, and prints those
// that it won. Its arguments are the database and the principal.
func claim(args []string) error {
	b, done, err := bare(args[0])
	if err != nil {
		return err
	}
	defer done()
	principal, err := ref.Parse[ref.PrincipalKind](args[1])
	if err != nil {
		return err
	}
	caller := ledger.Caller{Principal: principal, PolicyVersion: terms, Roles: []string{"clerk"}, GrantGeneration: 1}
	for _, word := range args[2:] {
		call, err := controlv1.ParseID(word)
		if err != nil {
			return err
		}
		c, err := b.Show(ctx, caller, call)
		if err != nil {
			return err
		}
		_, err = b.Confirm(ctx, ledger.Confirmed{Call: call, Confirmation: c.Confirmation, Level: c.Level, Caller: caller, Claim: ledger.NewReference()})
		switch refusal.Of(err) {
		case "":
			if err != nil {
				return err
			}
			fmt.Println(word)
		case refusal.Replayed:
		default:
			return err
		}
	}
	return nil
}

// TestManyProcesses: of several processes over one database, one claims each call,
// and what one ends is over for all.
func TestManyProcesses(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		b := open(t, url, store.Options{})
		for range 2 {
			s := b.person(t).leased()
			args := []string{url, s.caller.Principal.String()}
			for range ledger.MaxPrompts {
				m := s.admission("pay")
				m.Timeout = 2 * time.Minute
				c, _, err := b.Admit(ctx, m)
				ok(t, err)
				args = append(args, c.ID.String())
			}
			var all []*storetest.Process
			for range 4 {
				all = append(all, storetest.Start(t, "claim", args...))
			}
			won := map[string]int{}
			for _, p := range all {
				for _, call := range p.End(t) {
					won[call]++
				}
			}
			for _, call := range args[2:] {
				if won[call] != 1 {
					t.Errorf("a call was claimed %d times", won[call])
				}
			}
			other := open(t, url, store.Options{})
			ok(t, other.EndLogin(ctx, s.evidence.Login, refusal.LoggedOut))
			_, err := b.Standing(ctx, s.arm.Ref)
			want(t, "at the first node", err, refusal.LoggedOut)
			b.check(t)
		}
	})
}

// live lives calls for ever, and tells each durable step before the next.
func live(args []string) error {
	b, _, err := bare(args[0])
	if err != nil {
		return err
	}
	t := roleTest{}
	s := (&book{Book: b}).person(t)
	say := func(words ...any) { fmt.Println(words...); os.Stdout.Sync() }
	say("principal", s.caller.Principal)
	for {
		ok(t, b.Beat(ctx))
		s.leased()
		say("arm", s.arm.Ref)
		for range 3 {
			read := s.admit("read_page")
			say("sent", read.ID)
			settled, err := b.Settle(ctx, read.ID, success, "")
			ok(t, err)
			say("settled", settled.ID)
			c := s.admit("pay")
			say("asked", c.ID)
			_, err = b.Confirm(ctx, s.confirmed(c))
			ok(t, err)
			say("sent", c.ID)
			_, err = b.Settle(ctx, c.ID, success, "")
			ok(t, err)
			say("settled", c.ID)
		}
		ok(t, b.Disconnect(ctx, s.arm.Ref, refusal.ChannelUnavailable))
		s = (&book{Book: b}).person(t)
		say("principal", s.caller.Principal)
	}
}

// roleTest lets a role use the stage's helpers: a fault ends the process.
type roleTest struct{ testing.TB }

func (roleTest) Helper()           {}
func (roleTest) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// TestKilledNode kills a node at a moment of chance. What it told as durable must
// be there, and another node ends the rest by the book: what wasn't claimed had no
// effect, what was and wasn't settled is unknown, and nothing is sent again.
func TestKilledNode(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		b := open(t, url, store.Options{})
		for range storetest.Rounds(5, 40) {
			p := storetest.Start(t, "live", url)
			told, principal := map[string]string{}, ""
			read := func(line string) {
				what, id, _ := strings.Cut(line, " ")
				switch what {
				case "principal":
					principal = id
					told = map[string]string{}
				case "sent", "settled", "asked":
					told[id] = what
				}
			}
			lines := bufioLines(p)
			after := time.After(time.Duration(100+rand.IntN(400)) * time.Millisecond)
			for waiting := true; waiting; {
				select {
				case line, open := <-lines:
					if !open {
						t.Fatal("the node ended by itself")
					}
					read(line)
				case <-after:
					waiting = false
				}
			}
			p.Process.Kill()
			for line := range lines {
				read(line)
			}
			p.Cmd.Wait()
			// As if twenty seconds had gone by since its last beat.
			b.edit(t, `update attended_node set beat_ms=beat_ms-60000 where node<>$1`, b.Node())
			b.edit(t, `update attended_call set moved_ms=moved_ms-60000`)
			b.edit(t, `update attended_registration set moved_ms=moved_ms-60000`)
			b.edit(t, `update attended_arm set moved_ms=moved_ms-60000`)
			ok(t, b.Repair(ctx))
			b.check(t)
			if principal == "" {
				continue
			}
			who := ledger.Caller{Principal: must[ref.Principal](t)(ref.Parse[ref.PrincipalKind](principal)), PolicyVersion: terms}
			for call, what := range told {
				c := must[ledger.Call](t)(b.Show(ctx, who, id(call)))
				switch {
				case !c.State.Over() && c.State != ledger.CallUnknown,
					what == "settled" && c.State != ledger.CallSucceeded,
					what == "sent" && c.State != ledger.CallSucceeded && c.State != ledger.CallUnknown && c.State != ledger.CallReaped,
					c.Attempts > 1:
					t.Errorf("a call that was told as %s is %s after %d attempts", what, c.State, c.Attempts)
				}
			}
			if n := b.text(t, `select cast(count(*) as text) from attended_registration where state<>'retired' and principal=$1`, principal); n != "0" {
				t.Errorf("%s registrations of a dead node aren't over", n)
			}
		}
	})
}

// bufioLines reads a process's lines in a goroutine that ends with it.
func bufioLines(p *storetest.Process) <-chan string {
	lines := make(chan string, 64)
	go func(s *bufio.Scanner) {
		defer close(lines)
		for s.Scan() {
			lines <- s.Text()
		}
	}(p.Lines)
	return lines
}
