package ledger_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/identity"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// The calls that a history is about: the tools of the four requests of a lease.
var hammered = [4]string{"pay", "save_draft", "read_page", "read_page"}

// deed is one operation of a history.
type deed struct {
	verb string
	call int
}

// fence is the oracle's state: a lease and its four calls.
type fence struct {
	leaseOver bool
	calls     [4]string // "" for none
	codes     [4]refusal.Code
	claimed   [4]bool
	late      [4]bool // while unknown: a result may still come
}

// stop is the oracle's word on what the end of what a call stands under makes of it.
func (f *fence) stop(n int, code refusal.Code, socket bool) {
	switch {
	case f.calls[n] == "pending_confirmation":
		f.calls[n], f.codes[n] = "cancelled", code
	case f.calls[n] == "dispatched" && socket:
		f.calls[n], f.codes[n] = "cancelling", code
	case (f.calls[n] == "dispatched" || f.calls[n] == "cancelling") && !socket:
		f.calls[n], f.late[n] = "unknown", false
	}
}

// step answers what a deed must answer, and does it.
func (f *fence) step(d deed) string {
	n := d.call
	switch d.verb {
	case "revoke":
		if !f.leaseOver {
			f.leaseOver = true
			for n := range f.calls {
				f.stop(n, refusal.LeaseRevoked, true)
			}
		}
		return "ok"
	case "sign out":
		f.leaseOver = true
		for n := range f.calls {
			f.stop(n, refusal.AuthorityLost, false)
		}
		return "ok"
	case "admit":
		switch {
		case f.calls[n] != "":
			return "known " + f.calls[n]
		case f.leaseOver:
			return string(refusal.LeaseRevoked)
		case n < 2:
			f.calls[n] = "pending_confirmation"
		default:
			f.calls[n], f.claimed[n] = "dispatched", true
		}
		return "fresh"
	}
	if f.calls[n] == "" {
		return string(refusal.UnknownCall)
	}
	running := f.calls[n] == "dispatched" || f.calls[n] == "cancelling"
	switch d.verb {
	case "confirm":
		switch {
		case f.calls[n] == "pending_confirmation":
			f.calls[n], f.claimed[n] = "dispatched", true
			return "ok"
		case f.claimed[n]:
			return string(refusal.Replayed)
		}
		return string(f.codes[n])
	case "deny":
		if f.calls[n] == "pending_confirmation" {
			f.calls[n], f.codes[n] = "denied", refusal.UserDenied
			return "ok"
		}
	case "settle":
		if running || f.calls[n] == "unknown" && f.late[n] {
			f.calls[n] = "succeeded"
			return "ok"
		}
		if f.calls[n] == "unknown" {
			return string(refusal.WindowExpired)
		}
	case "lose":
		if running {
			f.calls[n], f.late[n] = "unknown", true
			return "ok"
		}
	case "cancel":
		f.stop(n, refusal.CallCancelled, true)
		return "ok " + f.calls[n]
	case "show":
		return fmt.Sprint(f.calls[n], " ", f.claimed[n])
	}
	return string(refusal.Conflict)
}

// unheard is the answer of a deed whose process died, or whose commit's answer was
// lost: it may have been done at any time after it began, or never.
const unheard = "unheard"

var linear = porcupine.Model{
	Init: func() any { return fence{} },
	Step: func(state, input, output any) (bool, any) {
		f := state.(fence)
		want := f.step(input.(deed))
		return output == unheard || output == want, f
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " -> ", output) },
}

// target is one lease that processes hammer on.
type target struct {
	lease     controlv1.ID
	binding   controlv1.Digest
	principal ref.Principal
	login     ref.Login
	actor     string
}

func (g target) String() string {
	return strings.Join([]string{g.lease.String(), g.binding.String(), g.principal.String(), g.login.String(), g.actor}, ",")
}

func parseTarget(t testing.TB, s string) target {
	part := strings.Split(s, ",")
	return target{id(part[0]), must[controlv1.Digest](t)(controlv1.ParseDigest(part[1])),
		must[ref.Principal](t)(ref.Parse[ref.PrincipalKind](part[2])), must[ref.Login](t)(ref.Parse[ref.LoginKind](part[3])), part[4]}
}

// do does a deed and answers it in the oracle's words.
func (g target) do(t testing.TB, b *ledger.Book, d deed) string {
	s := &stage{t: t, caller: ledger.Caller{Principal: g.principal, PolicyVersion: terms, Roles: []string{"clerk"}, GrantGeneration: 1},
		who: must[identity.Principal](t)(identity.New(identity.Claims{Tenant: "local", Actor: g.actor, Roles: []string{"clerk"}}))}
	s.lease.Binding, s.lease.LeaseReceipt.Lease = g.binding, g.lease
	m := s.admission(hammered[d.call])
	m.Timeout, m.Request.ID = 2*time.Minute, id(fmt.Sprint("request-", d.call))
	m.Request.Arguments = must[controlv1.Value](t)(controlv1.ParseValue(fmt.Appendf(nil, `{"n":%d}`, d.call), controlv1.MaxArguments))
	digest := must[controlv1.Digest](t)(m.Request.Digest())
	call := must[controlv1.ID](t)(controlv1.CallID(digest, ""))
	var c ledger.Call
	var err error
	said := "ok"
	switch d.verb {
	case "admit":
		var isFresh bool
		c, isFresh, err = b.Admit(ctx, m)
		said = "fresh"
		if !isFresh {
			said = "known " + string(c.State)
		}
	case "confirm":
		// The look is no deed of its own: what it finds is there from the fence's birth on.
		if c, err = b.Show(ctx, s.caller, call); err == nil {
			_, err = b.Confirm(ctx, s.confirmed(c))
		}
	case "deny":
		_, err = b.Deny(ctx, call)
	case "settle":
		_, err = b.Settle(ctx, call, success, "")
	case "lose":
		_, err = b.Lose(ctx, call, true)
	case "cancel":
		c, err = b.Cancel(ctx, s.caller, call)
		said = "ok " + string(c.State)
	case "show":
		c, err = b.Show(ctx, s.caller, call)
		said = fmt.Sprint(c.State, " ", c.Attempts == 1)
	case "revoke":
		_, err = b.RevokeLease(ctx, s.caller, g.lease, refusal.Cancelled)
	case "sign out":
		err = b.EndLogin(ctx, g.login, refusal.SignedOut)
	}
	if err == nil {
		return said
	}
	if code := refusal.Of(err); code != "" && code != refusal.DatabaseBusy {
		return string(code)
	}
	return unheard // an error of the database's decides nothing
}

// some draws a deed: most get a call further, few end what it stands under.
func some() deed {
	call := rand.IntN(4)
	all := []string{"admit", "admit", "settle", "cancel", "lose", "show", "show", "show"}
	if call < 2 {
		all = append(all, "confirm", "confirm", "confirm", "deny")
	}
	switch rand.IntN(50) {
	case 0:
		return deed{"revoke", 0}
	case 1:
		return deed{"sign out", 0}
	}
	return deed{all[rand.IntN(len(all))], call}
}

// hammer is a process that does deeds to each target from two goroutines, and tells
// each before it begins and after it ended. Its arguments are the database and the
// targets.
func hammer(args []string) error {
	b, done, err := bare(args[0])
	if err != nil {
		return err
	}
	defer done()
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...)
	}
	number := 0
	for n, word := range args[1:] {
		g := parseTarget(roleTest{}, word)
		var all sync.WaitGroup
		for client := range 2 {
			first := number + client*1000
			all.Go(func() {
				for i := range 10 {
					d := some()
					say("begin", first+i, n, client, now(), d.call, d.verb)
					said := g.do(roleTest{}, b, d)
					say("end", first+i, now(), said)
				}
			})
		}
		all.Wait()
		number += 10
	}
	return nil
}

// now is a clock that all processes of the machine share, and that never goes back.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// TestHistories has processes do deeds to the same leases and calls, while some are
// killed and others stopped for a while. What they were answered must be what one
// process could have been answered, doing one after another, each at some moment
// between its beginning and its end.
func TestHistories(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		b := open(t, url, store.Options{})
		for range storetest.Rounds(1, 30) {
			args := []string{url}
			for range 8 {
				s := b.person(t).leased()
				args = append(args, target{s.lease.LeaseReceipt.Lease, s.lease.Binding, s.caller.Principal, s.evidence.Login, s.who.Actor()}.String())
			}
			histories := make([][]porcupine.Operation, len(args)-1)
			heard := 0
			for n, lines := range perform(t, args) {
				heard += collect(t, lines, n, histories)
			}
			for _, h := range histories {
				if result := porcupine.CheckOperationsTimeout(linear, h, time.Minute); result != porcupine.Ok {
					t.Errorf("%s:\n%s", result, tell(h))
				}
			}
			b.check(t)
			if heard < 100 {
				t.Errorf("only %d answers were heard", heard)
			}
		}
	})
}

// perform runs four processes over the targets, kills one in the middle of its work,
// stops another twice, and answers what each told.
func perform(t *testing.T, args []string) [][]string {
	t.Helper()
	lines := 2 * 20 * (len(args) - 1) // of a whole process
	kill, stops := rand.IntN(lines*3/4), []int{rand.IntN(lines / 3), lines/2 + rand.IntN(lines/3)}
	told := make([][]string, 4)
	var all sync.WaitGroup
	for n := range told {
		p := storetest.Start(t, "hammer", args...)
		all.Go(func() {
			for p.Lines.Scan() {
				told[n] = append(told[n], p.Lines.Text())
				switch at := len(told[n]); {
				case n == 0 && at == kill:
					p.Process.Kill()
				case n == 1 && slices.Contains(stops, at):
					p.Process.Signal(syscall.SIGSTOP)
					time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
					p.Process.Signal(syscall.SIGCONT)
				}
			}
			if err := p.Cmd.Wait(); err != nil && n > 0 {
				t.Errorf("a process ended: %v", err)
			}
		})
	}
	all.Wait()
	return told
}

// collect adds what a process told to the targets' histories.
func collect(t *testing.T, lines []string, process int, histories [][]porcupine.Operation) (heard int) {
	t.Helper()
	ends := map[string][]string{}
	for _, line := range lines {
		if word := strings.SplitN(line, " ", 4); word[0] == "end" && len(word) == 4 {
			ends[word[1]] = word[2:]
		}
	}
	number := func(s string) int64 { return must[int64](t)(strconv.ParseInt(s, 10, 64)) }
	for _, line := range lines {
		word := strings.SplitN(line, " ", 7)
		if word[0] != "begin" || len(word) != 7 {
			continue
		}
		o := porcupine.Operation{ClientId: 2*process + int(number(word[3])), Input: deed{word[6], int(number(word[5]))}, Call: number(word[4]), Output: unheard, Return: math.MaxInt64}
		if end, known := ends[word[1]]; known {
			heard++
			if o.Output = end[1]; end[1] != unheard {
				o.Return = number(end[0])
			}
		}
		n := number(word[2])
		histories[n] = append(histories[n], o)
	}
	return heard
}

// tell prints a history for people.
func tell(h []porcupine.Operation) string {
	var s strings.Builder
	for _, o := range h {
		fmt.Fprintf(&s, "%d  %d–%d  %s\n", o.ClientId, o.Call, o.Return, linear.DescribeOperation(o.Input, o.Output))
	}
	return s.String()
}

// TestHistoryJudge: the judge of histories refuses what must not be, and takes what
// a lost answer leaves open.
func TestHistoryJudge(t *testing.T) {
	at := func(client int, verb, said string, from, to int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: deed{verb, 0}, Output: said, Call: from, Return: to}
	}
	admitted := at(0, "admit", "fresh", 1, 2)
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"two claims":                     {[]porcupine.Operation{admitted, at(0, "confirm", "ok", 3, 9), at(1, "confirm", "ok", 4, 8)}, false},
		"one claim":                      {[]porcupine.Operation{admitted, at(0, "confirm", "ok", 3, 9), at(1, "confirm", "replayed", 4, 8)}, true},
		"a claim after the revocation":   {[]porcupine.Operation{admitted, at(1, "revoke", "ok", 3, 4), at(0, "confirm", "ok", 5, 6)}, false},
		"a claim beside the revocation":  {[]porcupine.Operation{admitted, at(1, "revoke", "ok", 3, 6), at(0, "confirm", "ok", 4, 5)}, true},
		"a lost answer was the claim":    {[]porcupine.Operation{admitted, at(1, "confirm", unheard, 3, math.MaxInt64), at(0, "confirm", "replayed", 5, 6)}, true},
		"nobody claimed what is claimed": {[]porcupine.Operation{admitted, at(0, "confirm", "replayed", 5, 6)}, false},
	} {
		if got := porcupine.CheckOperations(linear, c.history); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if word(refusal.Replayed) != "replayed" {
		t.Error("the word for a second claim is another")
	}
}
