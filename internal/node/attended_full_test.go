package node_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// A server whose database takes no writes, as on a full disk, sends nothing to a page
// and says so to agents; it isn't ready until it can write again, and then goes on with
// the same page.
func TestNothingIsWritten(t *testing.T) {
	for _, engine := range []string{store.SQLite, store.Postgres} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := ""
			if engine == store.SQLite {
				url = storetest.SQLite(t)
			} else {
				url = storetest.Postgres(t)
			}
			home, port := t.TempDir(), fmt.Sprint(free(t))
			process, link := apart(t, home, port, url)
			s := &server{t: t, home: home, origin: "http://localhost:" + port}
			_, secret, _ := strings.Cut(link, "#")
			o := s.settleBy(secret, "Ada")
			p := o.page()
			p.arm()
			p.open()
			c, _ := o.workflow("agent")
			l := p.lease(c)
			value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
			if err != nil {
				t.Fatal(err)
			}
			k := &killed{o: o}
			frames := k.listen(p.ws, func(controlv1.Call) {})
			came := func(what string) controlv1.AuthorityFrame {
				t.Helper()
				select {
				case f := <-frames:
					return f
				case <-time.After(time.Minute):
					t.Fatalf("%s: nothing came", what)
					return nil
				}
			}
			finish := func(name string, got <-chan heard) {
				t.Helper()
				call, ok := came(name).(controlv1.Call)
				if !ok || string(call.Arguments.Bytes()) != `{"n":"`+name+`"}` {
					t.Fatalf("%s: %+v came", name, call)
				}
				p.say(controlv1.Result{Call: call.Call, Outcome: controlv1.Success{Value: value}})
				if r := <-got; r.err != nil || r.receipt.Status != controlv1.StatusSucceeded {
					t.Fatalf("%s: %+v", name, r)
				}
			}
			finish("before", p.ask(c, p.called(l, "look", "before")))
			waiting := p.ask(c, p.called(l, "write", "waiting"))
			q := came("waiting").(controlv1.ConfirmationRequest)

			full := fill(t, engine, url, process)
			full(true)
			start := time.Now()
			p.say(controlv1.Confirm{Call: q.Call, Confirmation: q.Confirmation})
			for _, tool := range []string{"look", "write"} {
				ask := func() (controlv1.Receipt, error) { return c.Call(t.Context(), p.called(l, tool, "full-"+tool)) }
				_, err := ask()
				for n := 0; refusal.Of(err) == refusal.OutcomeUnavailable && n < 20; n++ { // over a connection that was cut
					_, err = ask()
				}
				if code := refusal.Of(err); code != refusal.FenceUnavailable && code != refusal.AuditUnavailable {
					t.Errorf("%s while nothing is written: %v", tool, err)
				}
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("two calls were refused after %v", took)
			}
			s.readiness(t, http.StatusServiceUnavailable)
			if len(frames) > 0 {
				t.Errorf("%T came while nothing is written", <-frames)
			}
			full(false)
			s.readiness(t, http.StatusOK)
			// What was confirmed is claimed now, and sent; where the yes was lost it is said
			// again, as the person would, and once more is nothing. Whoever waited was told
			// that nobody knew, and asks.
			p.say(controlv1.Confirm{Call: q.Call, Confirmation: q.Confirmation})
			finish("waiting", settled(t, c, q.Call, waiting))
			finish("after", p.ask(c, p.called(l, "look", "after")))
			if len(frames) > 0 {
				t.Errorf("%T came", <-frames)
			}
			process.Process.Signal(unix.SIGTERM)
			process.End(t)
		})
	}
}

// settled is what becomes of a call whose first answer may be that nobody knows.
func settled(t *testing.T, c *client.Client, call controlv1.ID, first <-chan heard) <-chan heard {
	out := make(chan heard, 1)
	go func() {
		h := <-first
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && (h.err != nil || !client.Over(h.receipt)); {
			h.receipt, h.err = c.Wait(t.Context(), call, time.Second)
		}
		out <- h
	}()
	return out
}

// readiness waits until a server says that of itself.
func (s *server) readiness(t *testing.T, want int) {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(100 * time.Millisecond) {
		r, err := http.Get(s.origin + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, r)
		if r.StatusCode == want {
			return
		}
	}
	t.Fatalf("/readyz is never %d", want)
}

// fill answers what makes a server's database unwritable, and writable again: no file
// of the process may grow, or every transaction of the database only reads.
func fill(t *testing.T, engine, url string, process *storetest.Process) func(full bool) {
	t.Helper()
	if engine == store.SQLite {
		return func(full bool) {
			var limit unix.Rlimit
			if err := unix.Prlimit(process.Process.Pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
				t.Fatal(err)
			}
			if limit.Cur = limit.Max; full {
				limit.Cur = 1
			}
			if err := unix.Prlimit(process.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // which isn't among those that are ended
	return func(full bool) {
		for _, statement := range []string{
			`do $$ begin execute format('alter database %I set default_transaction_read_only = ` + map[bool]string{true: "on", false: "off"}[full] + `', current_database()); end $$`,
			`select pg_terminate_backend(pid) from pg_stat_activity where datname=current_database() and pid<>pg_backend_pid()`,
		} {
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
	}
}
