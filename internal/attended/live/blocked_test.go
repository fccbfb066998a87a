package live_test

import (
	"strings"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// blocked holds a database so that nobody else can write the log, until its end.
func blocked(t *testing.T, url string) (free func()) {
	t.Helper()
	db := storetest.Open(t, url, store.Options{})
	held, let, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- db.Update(ctx, func(tx *store.Tx) error {
			statement := `update audit_leaf set n=n where n<0`
			if strings.HasPrefix(url, "postgres") {
				statement = `lock table audit_leaf in exclusive mode`
			}
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
			select {
			case <-held:
			default:
				close(held)
			}
			<-let
			return nil
		})
	}()
	select {
	case <-held:
	case err := <-done:
		t.Fatalf("holding it: %v", err)
	}
	return func() {
		t.Helper()
		close(let)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestLogIsBlocked: while nothing can be logged nothing is sent, each call is refused
// in seconds and told why, and whoever asks where things stand is answered at once.
func TestLogIsBlocked(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		w := open(t, url, nil)
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		got := a.call(ctx, a.request("read_page"))
		c := next[controlv1.Call](p)
		p.say(controlv1.Result{Call: c.Call, Outcome: ok()})
		(<-got).is(t, "before", controlv1.StatusSucceeded, controlv1.NoEffect, "")

		free := blocked(t, url)
		start := time.Now()
		refused := []<-chan answered{a.call(ctx, a.request("read_page")), a.call(ctx, a.request("save"))}
		time.Sleep(200 * time.Millisecond) // they are being written
		asked := time.Now()
		a.do(controlv1.AskCall{Call: c.Call}).is(t, "asked meanwhile", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		docs, err := w.a.Dispatch(ctx, a.c, controlv1.ListDocuments{})
		if d, _ := docs.(controlv1.Documents); err != nil || len(d.All) != 1 {
			t.Errorf("documents: %v %v", docs, err)
		}
		if took := time.Since(asked); took > 5*time.Second {
			t.Errorf("a look took %v", took)
		}
		for _, got := range refused {
			r := <-got
			if code := refusal.Of(r.err); code != refusal.FenceUnavailable && code != refusal.AuditUnavailable {
				t.Errorf("told %v, %+v", r.err, r.receipt)
			}
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("refused after %v", took)
		}
		p.quiet()
		free()
		got = a.call(ctx, a.request("read_page"))
		p.say(controlv1.Result{Call: next[controlv1.Call](p).Call, Outcome: ok()})
		(<-got).is(t, "afterwards", controlv1.StatusSucceeded, controlv1.NoEffect, "")
	})
}
