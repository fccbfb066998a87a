package browser

import (
	"context"
	"errors"
	"slices"
	"time"

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
	sent        bool          // it may have had an effect
	fonts       bool          // still loading when the shot was taken
	reformatted bool          // the page changed what was typed
	script      <-chan answer // of eval_js's call that isn't answered yet
	emptied     bool          // the page was put away to stop its script
	release     []func() bool
}

// Do does one action. It is one at a time: a later one waits for its turn until
// its own context ends. The error is always a *Failure. Do returns only after
// what it has started has stopped: milliseconds after ctx ended, at most stopTime.
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

// takeTurn waits until no other action is under way.
func (b *Browser) takeTurn(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if b.conn.cause() != nil {
		return refusal.NoBrowser
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
