package live_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/store"
)

// A caller that leaves at any moment, before its call is written, while its person is
// asked or once it was sent, takes the call with it: nothing waits for anybody
// afterwards, and nothing is sent late.
func TestCallersLeave(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var all []<-chan answered
		var pages []*page
		for lane := range 6 {
			p := w.person(catalog).ready(catalog)
			pages = append(pages, p)
			a := p.agent("agent").leased(catalog)
			go p.play(func(f controlv1.AuthorityFrame) {
				switch f := f.(type) {
				case controlv1.Cancel:
					p.say(controlv1.Cancelled{Call: f.Call, Effect: controlv1.NoEffect})
				case controlv1.ConfirmationRequest:
					if rand.IntN(2) == 0 {
						p.say(controlv1.Confirm{Call: f.Call, Confirmation: f.Confirmation})
					}
				case controlv1.Call:
					if rand.IntN(2) == 0 {
						p.say(controlv1.Result{Call: f.Call, Outcome: ok()})
					}
				}
			})
			for n := range 7 {
				for _, tool := range []string{"save", "read_page"} {
					leave, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(60_000))*time.Microsecond)
					defer cancel()
					if n+lane == 0 {
						cancel() // before anything
					}
					all = append(all, a.call(leave, a.request(tool)))
				}
			}
		}
		start := time.Now()
		for _, c := range all {
			<-c
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("they left, and were kept for %v", took)
		}
		for {
			open := 0
			err := w.db.View(ctx, func(tx *store.Tx) error {
				ids, err := tx.Texts(`select call from attended_call where state in ('pending_confirmation','dispatched','cancelling')`)
				open = len(ids)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if open == 0 {
				break
			}
			if time.Since(start) > 60*time.Second {
				t.Fatalf("%d calls wait for nobody", open)
			}
			time.Sleep(50 * time.Millisecond)
		}
		for _, p := range pages {
			p.pipe.Close(1000, "")
			<-p.served
		}
		w.check()
	})
}

// play has a page act on each frame until its socket's end.
func (p *page) play(act func(controlv1.AuthorityFrame)) {
	for {
		select {
		case data := <-p.pipe.Down:
			act(sure(controlv1.DecodeAuthority(data)))
		case <-p.pipe.Gone:
			return
		}
	}
}
