package browser

import (
	"context"
	"slices"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// stopTime bounds how long a stop waits for the renderer before it is killed. One
// that is well answers in milliseconds; the bound leaves room for a machine that is
// busy, and stays below the two seconds after which a client gives up.
const stopTime = 1500 * time.Millisecond

// stop ends what an action that was cut short has started: its navigation and its
// script. A renderer that still doesn't answer is killed, and the tab with it.
func (on *act) stop() {
	t := on.tab
	if t == nil {
		return
	}
	if !t.quiet() {
		return // it stands still, or there's nothing left
	}
	defer t.loud()
	ctx, cancel := context.WithTimeout(t.life, stopTime)
	defer cancel()
	t.s.post(page.StopLoading.Method, nil)
	for _, s := range t.processes() {
		s.post(runtime.TerminateExecution.Method, nil)
	}
	// The order matters: a document that is replaced while its script still runs
	// runs on unseen, in a process that is left behind.
	if !t.answers(ctx) {
		t.kill()
		return
	}
	if on.scriptEnded(ctx) {
		return
	}
	on.emptied = true
	if t.blank(ctx) != nil {
		t.kill()
	}
}

// scriptTime is how long a stop waits for the end of eval_js's script. One that was
// terminated has ended before the renderer answers; one whose request was cut off
// ends a moment later; one that waits for anything else doesn't.
const scriptTime = 50 * time.Millisecond

// scriptEnded tells whether nothing of eval_js's script is left. A promise that is
// still pending may go on at any time.
func (on *act) scriptEnded(ctx context.Context) bool {
	if on.script == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, scriptTime)
	defer cancel()
	select {
	case <-on.script:
		return true
	case <-ctx.Done():
		return false
	}
}

// quiet cuts a tab off from the network while it is stopped: a script that waits
// for a request within a loop can't be ended in another way. It tells whether there
// is anything to stop.
func (t *tab) quiet() bool {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.stopping = t.dialog == nil && t.life.Err() == nil
	return t.stopping
}

func (t *tab) loud() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.stopping = false
}

// processes answers the sessions that the tab's frames are rendered in.
func (t *tab) processes() []*session {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	var list []*session
	for _, f := range t.frames {
		if f.s != nil && !slices.Contains(list, f.s) {
			list = append(list, f.s)
		}
	}
	return list
}

// answers asks every renderer of the tab for a sign of life. The call also takes
// up a termination that found nothing to terminate, which would otherwise hit the
// next innocent script.
func (t *tab) answers(ctx context.Context) bool {
	for _, s := range t.processes() {
		for {
			r, err := cdp.Call(ctx, s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0"})
			if err == nil && r.ExceptionDetails == nil {
				break
			}
			if ctx.Err() != nil {
				return false
			}
		}
	}
	return true
}

// blank puts an empty document in place of one whose script can't be proved to
// have stopped.
func (t *tab) blank(ctx context.Context) error {
	_, err := cdp.Call(ctx, t.s, page.Navigate, page.NavigateParams{URL: blankURL})
	return err
}

// kill ends a deaf renderer. The tab is told as crashed at once, whatever the
// engine says later.
func (t *tab) kill() {
	t.s.post(page.Crash.Method, nil)
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	crashed(t.s, struct{}{})
}
