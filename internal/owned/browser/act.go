package browser

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// handler does one action. ctx ends with the action's deadline, its cancellation,
// the death of the tab that on.page answered, or a dialog that is held open; the
// cause tells which.
type handler func(ctx context.Context, on *act, a ownedv1.Action) (any, error)

// core is what this package's middle does; extras (see extras.go) is the rest.
var core = map[string]handler{
	ownedv1.ActionLaunch:      launch,
	ownedv1.ActionGoto:        goTo,
	ownedv1.ActionScroll:      scroll,
	ownedv1.ActionScreenshot:  screenshot,
	ownedv1.ActionEvalJS:      evalJS,
	ownedv1.ActionConsoleLogs: consoleLogs,
	ownedv1.ActionPageSource:  pageSource,
	ownedv1.ActionPDF:         printPDF,
	ownedv1.ActionListTabs:    listTabs,
	ownedv1.ActionSwitchTab:   switchTab,
	ownedv1.ActionClose:       closeAll,
	ActionCloseTab:            closeTab,
	ActionDownloads:           listDownloads,
	ActionSaveDownload:        saveDownload,
	ActionSetDialogs:          setDialogs,
	ActionAnswerDialog:        answerDialog,
}

// beside lists the actions that take no turn, since they settle what holds
// another one up.
var beside = []string{ActionSetDialogs, ActionAnswerDialog}

// always lists the actions that no scope leaves out: without them there is no
// run, and they touch no page.
var always = []string{ownedv1.ActionLaunch, ownedv1.ActionClose}

// errLimit is the cause of a context that an action's own timeout_ms has ended.
var errLimit = errors.New("timeout_ms has passed")

// act is one action under way.
type act struct {
	b           *Browser
	tab         *tab // that it acts on, once page has answered it
	cancel      context.CancelCauseFunc
	sent        bool // it may have had an effect
	fonts       bool // still loading when the shot was taken
	reformatted bool // the page changed what was typed
	unsure      bool // eval_js has started and not told its value
	emptied     bool // the page was put away to stop its script
	release     []func() bool
}

// Do does one action. It is one at a time: a later one waits for its turn until
// its own context ends. The error is always a *Failure. Do returns only after
// what it has started has stopped, at the latest some 200 ms after ctx ended.
func (b *Browser) Do(ctx context.Context, a ownedv1.Action) (Answer, error) {
	run, known := core[a.Name()]
	if !known {
		run, known = extras[a.Name()]
	}
	if !known {
		return Answer{}, failed(refusal.Failed, "no such action")
	}
	if !slices.Contains(always, a.Name()) && !b.config.Scope.ActionAllowed(a.Name()) {
		f := failed(refusal.ScopeDenied, "the scope's actions leave it out")
		f.Rule, f.Fix = "actions", "actions: […, "+a.Name()+"]"
		return Answer{}, f
	}
	if f := b.guarded(a.Name()); f != nil {
		return Answer{}, f
	}
	if _, has := ctx.Deadline(); !has {
		limit := b.config.Timeout
		if limit <= 0 {
			limit = defaultTimeout
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if !slices.Contains(beside, a.Name()) {
		if err := b.takeTurn(ctx); err != nil {
			return Answer{}, b.failure(&act{b: b}, err)
		}
		defer func() { <-b.turn }()
	}
	return b.act(ctx, run, a)
}

// takeTurn waits until no other action is under way. While a dialog is held the
// turn won't come: that is told at once.
func (b *Browser) takeTurn(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.life.Done():
		return refusal.NoBrowser
	}
}

// act runs an action, and ends it for good.
func (b *Browser) act(ctx context.Context, run handler, a ownedv1.Action) (Answer, error) {
	on := &act{b: b}
	ctx, on.cancel = context.WithCancelCause(ctx)
	defer on.cancel(nil)
	on.release = append(on.release, context.AfterFunc(b.life, func() { on.cancel(refusal.NoBrowser) }))
	ctx, cancel := limited(ctx, a)
	defer cancel()

	result, err := run(ctx, on, a)
	if err != nil && ctx.Err() != nil {
		on.stop()
	}
	on.end()
	if err != nil {
		return Answer{}, b.failure(on, err)
	}
	return Answer{Result: result, Notes: b.takeNotes(on)}, nil
}

// end lets go of the tab.
func (on *act) end() {
	for _, release := range on.release {
		release()
	}
	on.b.mu.Lock()
	defer on.b.mu.Unlock()
	if on.tab != nil && on.tab.acting == on {
		on.tab.acting = nil
	}
}

// limited applies the action's own timeout_ms, where it has one that ends before
// the deadline.
func limited(ctx context.Context, a ownedv1.Action) (context.Context, context.CancelFunc) {
	ms := timeoutMS(a)
	if ms <= 0 || ms > int64(24*time.Hour/time.Millisecond) {
		return ctx, func() {}
	}
	limit := time.Now().Add(time.Duration(ms) * time.Millisecond)
	if end, has := ctx.Deadline(); has && !limit.Before(end) {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, limit, errLimit)
}

// page answers the active tab, and lets the action end with it or with a dialog
// that is held open.
func (on *act) page() (*tab, error) {
	b := on.b
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.launched:
		return nil, failed(refusal.NoBrowser, "launch first")
	case b.active == nil:
		return nil, noTab(b.lost)
	case b.active.dialog != nil:
		return nil, failed(refusal.DialogOpen, "a %s is open; answer it first", b.active.dialog.Type)
	}
	on.on(b.active)
	return b.active, nil
}

func noTab(lost refusal.Code) *Failure {
	f := failed(lost, "no tab is active; goto opens a fresh one, switch_tab another one")
	if lost == "" {
		f.Reason = refusal.TabGone
	}
	return f
}

// on ties the action to a tab. mu is held.
func (on *act) on(t *tab) {
	on.tab = t
	t.acting = on
	on.release = append(on.release, context.AfterFunc(t.life, func() { on.cancel(context.Cause(t.life)) }))
}

// stopTime bounds how long a stop waits for the renderer, before it is killed.
const stopTime = 120 * time.Millisecond

// stop ends what an action that was cut short has started: its navigation and its
// script. A renderer that still doesn't answer is killed, and the tab with it.
func (on *act) stop() {
	t := on.tab
	if t == nil {
		return
	}
	if !t.quiet(true) {
		return // it stands still, or there's nothing left
	}
	defer t.quiet(false)
	ctx, cancel := context.WithTimeout(t.life, stopTime)
	defer cancel()
	t.s.post(page.StopLoading.Method, nil)
	for _, s := range t.processes() {
		s.post(runtime.TerminateExecution.Method, nil)
	}
	// The order matters: a document that is replaced while its script still runs
	// runs on unseen, in a process that is left behind.
	if t.answers(ctx) && (!on.unsure || t.blank(ctx) == nil) {
		on.emptied = on.unsure
		return
	}
	t.kill()
}

// quiet cuts a tab off from the network while it is stopped, or lets it back: a
// script that waits for a request within a loop can't be ended in another way. It
// tells whether there is anything to stop.
func (t *tab) quiet(on bool) bool {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.stopping = on
	return t.dialog == nil && t.life.Err() == nil
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

// failure turns whatever ended an action into what is told of it.
func (b *Browser) failure(on *act, err error) *Failure {
	f := reason(err)
	f.Sent = f.Sent || on.sent
	f.Notes = b.takeNotes(on)
	if on.emptied {
		f.Detail = strings.TrimPrefix(f.Detail+"; its script was still waiting, so the page was emptied to stop it", "; ")
	}
	if f.Reason == refusal.NoBrowser {
		if cause := b.Err(); cause != nil && f.Detail == "" {
			f.Detail = "the browser has ended: " + string(refusal.Of(cause))
		}
	}
	return f
}

func reason(err error) *Failure {
	var f *Failure
	var refused *protocolError
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, errLimit):
		return failed(refusal.TimedOut, "its timeout_ms ended first")
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Code: refusal.BrowserTimeout, Reason: refusal.TimedOut, Detail: "its deadline ended first"}
	case errors.Is(err, context.Canceled):
		return failed(refusal.Cancelled, "")
	case errors.Is(err, errDestroyed):
		return failed(refusal.Failed, "the document went away meanwhile")
	case errors.As(err, &refused):
		return failed(refusal.Failed, "the engine refused %s", refused.Method)
	}
	for _, code := range []refusal.Code{
		refusal.TabCrashed, refusal.TabGone, refusal.NoBrowser, refusal.DialogOpen, refusal.TooLarge,
		refusal.NotFound, refusal.Covered, refusal.Stale, refusal.SentUnconfirmed,
	} {
		if errors.Is(err, code) {
			return failed(code, "")
		}
	}
	if errors.Is(err, refusal.Ended) || errors.Is(err, refusal.EngineExited) {
		return failed(refusal.NoBrowser, "")
	}
	return failed(refusal.Failed, "")
}

// takeNotes hands out what happened since the last answer.
func (b *Browser) takeNotes(on *act) Notes {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.notes
	b.notes = Notes{}
	n.FontsPending, n.Reformatted = on.fonts, on.reformatted
	if on.tab != nil {
		n.Tab = on.tab.name
	}
	return n
}
