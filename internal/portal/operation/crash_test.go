package operation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"chaperone/internal/identity"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/tool"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// brisk is the limits of processes that die.
var brisk = operation.Limits{Parallel: 200, Rate: 1e6, Burst: 1e6, Deadline: 20 * time.Second}

// writer makes one change and stops where it is told: "before" the effect or
// "after" it, or never. Its arguments: url, dir, connection, actor, where, the call.
func writer(args []string) error {
	o, err := open(args[0], args[1], brisk, store.Options{})
	if err != nil {
		return err
	}
	p, err := identity.New(identity.Claims{Tenant: "local", Actor: args[3]})
	if err != nil {
		return err
	}
	stop := func() { fmt.Println("stopped"); time.Sleep(time.Hour) }
	o.storage.set(func(f *hooks) {
		f.before = func(_ context.Context, verb string) error {
			if args[4] == "before" && verb == "write" {
				stop()
			}
			return nil
		}
		f.after = func(verb string) error {
			if args[4] == "after" && verb == "write" {
				stop()
			}
			return nil
		}
	})
	out, err := o.Call(ctx, operation.Caller{Principal: p, Transport: operation.Bearer, Connection: args[2]}, "item_write", []byte(args[5]))
	fmt.Println("told", string(out), err)
	return err
}

// TestKilledBetweenEffectAndReceipt kills a node with a change on its way. What it
// did is told by the next, once, and is never done again.
func TestKilledBetweenEffectAndReceipt(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		o, err := open(url, dir, brisk, store.Options{})
		ok(t, err)
		p := person(t, "")
		c := o.app(t, p, everything)
		places := []string{"before", "after", "after", "before", "never"}
		rounds := storetest.Rounds(len(places), 100)
		for round := range rounds {
			where := places[round%len(places)]
			a := creates(fmt.Sprintf("file-%d", round), "content")
			w := storetest.Start(t, "writer", url, dir, c.Connection, p.Actor(), where, string(text(a)))
			if !w.Lines.Scan() {
				t.Fatalf("round %d: the writer said nothing", round)
			}
			if where == "never" {
				if !strings.Contains(w.Lines.Text(), "created") {
					t.Errorf("round %d: %s", round, w.Lines.Text())
				}
				w.End(t)
			} else {
				w.Crash(t)
			}
			ok(t, o.verify())
			if where != "never" {
				short, cancel := context.WithTimeout(ctx, time.Second)
				_, err := o.Call(short, c, "item_write", text(a)) // the dead one's time isn't over
				cancel()
				if got := word(err); got != tool.Busy && got != tool.Cancelled {
					t.Errorf("round %d: too early it is %v", round, err)
				}
			}
			o.past(t)
			if round%2 == 0 {
				ok(t, o.Repair(ctx))
			}
			out, e := o.do(t, c, tool.WriteItem, a)
			if where == "before" && code(e) == tool.SourceUnavailable { // it surely never arrived: made again under its own id
				out, e = o.do(t, c, tool.WriteItem, a)
			}
			if e != nil || out["outcome"] != "created" {
				t.Errorf("round %d (%s): %v %v", round, where, out, e)
			}
			sent := int64(0)
			if where == "before" {
				sent = 1
			}
			if got := o.storage.calls.Swap(0); got != sent {
				t.Errorf("round %d (%s): %d changes were sent by the next node, want %d", round, where, got, sent)
			}
			ok(t, o.verify())
		}
		items := o.good(t, c, tool.ListItems, object{"collection": "files", "limit": 100})["items"].([]any)
		u, err := o.ledger.Usage(ctx, p.Actor())
		if err != nil || len(items) != rounds || u.Items != int64(rounds) {
			t.Errorf("%d items, usage %+v %v", len(items), u, err)
		}
		ok(t, o.Close(ctx))
		ok(t, o.db.Close())
	})
}

// ordered is the nth change of a busy node, the same whoever makes it.
func ordered(n int) []byte {
	return text(object{"collection": "files", "item": fmt.Sprintf("n%05d", n), "request_id": fmt.Sprintf("00000000-0000-0000-0000-%012d", n),
		"content": fmt.Sprint(n), "if_absent": true})
}

// hurry makes one change after the other for ever, and tells each once it is done.
func hurry(args []string) error {
	o, err := open(args[0], args[1], brisk, store.Options{})
	if err != nil {
		return err
	}
	p, err := identity.New(identity.Claims{Tenant: "local", Actor: args[3]})
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[4])
	for ; err == nil; n++ {
		var out []byte
		out, err = o.Call(ctx, operation.Caller{Principal: p, Transport: operation.Bearer, Connection: args[2]}, "item_write", ordered(n))
		fmt.Println(n, string(out))
	}
	return err
}

// insist asks as a caller would whose node died: again while the answer is that the
// change is on its way, or surely never arrived. A database server may still commit
// what a dead node had sent.
func (o *office) insist(t *testing.T, c operation.Caller, a []byte) (out []byte, err error) {
	for range 10 {
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		out, err = o.Call(short, c, "item_write", a)
		cancel()
		if code := word(err); code != tool.Busy && code != tool.SourceUnavailable && code != tool.Cancelled {
			break
		}
		o.past(t)
	}
	return out, err
}

// TestKilledAnywhere kills a busy node at moments of chance. What it told as done is
// there with its receipt; what was on its way is told, once, and has one effect.
func TestKilledAnywhere(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		o, err := open(url, dir, brisk, store.Options{})
		ok(t, err)
		p := person(t, "")
		c := o.app(t, p, everything)
		told, next := map[int]string{}, 0
		for range storetest.Rounds(4, 60) {
			w := storetest.Start(t, "hurry", url, dir, c.Connection, p.Actor(), fmt.Sprint(next))
			if !w.Lines.Scan() {
				t.Fatal("the node said nothing")
			}
			lines := []string{w.Lines.Text()}
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
			for _, line := range append(lines, w.Crash(t)...) {
				number, out, whole := strings.Cut(line, " ")
				n, err := strconv.Atoi(number)
				if err != nil || !whole || !strings.HasSuffix(out, "}") {
					t.Fatalf("%q", line)
				}
				told[n], next = out, n+1
			}
			ok(t, o.verify())
			o.past(t)
			ok(t, o.Repair(ctx))
			// The one on its way, and the one after it, which may have been begun.
			for range 2 {
				out, err := o.insist(t, c, ordered(next))
				ok(t, err)
				told[next], next = string(out), next+1
			}
		}
		for n, want := range told {
			got, err := o.Call(ctx, c, "item_write", ordered(n))
			if err != nil || string(got) != want {
				t.Errorf("%d was told as %s, and is %s %v", n, want, got, err)
			}
		}
		u, err := o.ledger.Usage(ctx, p.Actor())
		if err != nil || u.Items != int64(next) || len(told) != next {
			t.Errorf("%d changes, %d told, usage %+v %v", next, len(told), u, err)
		}
		ok(t, o.verify())
		ok(t, o.Close(ctx))
		ok(t, o.db.Close())
	})
}
