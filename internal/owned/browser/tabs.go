package browser

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

const (
	mainTab  = "main"
	blankURL = "about:blank"
)

func numbered(word string, n int) string { return word + "-" + strconv.Itoa(n) }

// open makes a page of our own, lists it under a name, and returns when it runs.
func (b *Browser) open(ctx context.Context, name string) (*tab, error) {
	b.mu.Lock()
	if len(b.tabs) >= maxTabs {
		b.mu.Unlock()
		return nil, failed(refusal.TooMany, "%d tabs are open; close one", maxTabs)
	}
	b.claiming++
	in := b.context
	b.mu.Unlock()

	made, err := cdp.Call(ctx, b.engine, target.CreateTarget, target.CreateTargetParams{
		URL: blankURL, BrowserContextID: in,
	})
	t, missing := b.claim(made.TargetID, name, err == nil)
	if err == nil && missing {
		err = fmt.Errorf("the engine told of no page: %w", refusal.Malformed)
	}
	if err != nil {
		return nil, err
	}
	return t, b.until(ctx, func() bool { return t.ready || t.life.Err() != nil })
}

// claim names the page that we asked for. Pages that came unasked meanwhile are
// popups. The engine tells of a page before it answers the call that made it.
func (b *Browser) claim(id target.ID, name string, made bool) (t *tab, missing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claiming--
	for _, have := range b.unclaimed {
		if made && have.s.target == id {
			t = have
		}
	}
	if t != nil {
		b.list(t, name)
		b.unclaimed = slices.DeleteFunc(b.unclaimed, func(have *tab) bool { return have == t })
	}
	if b.claiming == 0 {
		for _, stray := range b.unclaimed {
			b.adopt(stray)
		}
		b.unclaimed = nil
	}
	return t, t == nil
}

// names answers the listed tabs and the active one. mu is held.
func (b *Browser) names() ([]string, *string) {
	list := make([]string, len(b.tabs))
	for i, t := range b.tabs {
		list[i] = t.name
	}
	if b.active == nil {
		return list, nil
	}
	name := b.active.name
	return list, &name
}

// launch makes the tabs usable. The engine runs already, so the first launch only
// says so; one after a close gets a fresh context: no cookie, no storage.
func launch(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	b := on.b
	if !a.(ownedv1.Launch).Headless {
		return nil, failed(refusal.Failed, "this engine has no window: headless must be true")
	}
	b.mu.Lock()
	launched, empty := b.launched, len(b.tabs) == 0
	b.mu.Unlock()
	if !launched && empty {
		if err := b.renew(ctx); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !launched {
		if len(b.tabs) == 0 {
			return nil, failed(refusal.TabCrashed, "")
		}
		b.launched, b.active = true, b.tabs[0]
	}
	tabs, active := b.names()
	return ownedv1.LaunchResult{Tabs: tabs, Active: active}, nil
}

// renew opens "main" in a browser context of its own.
func (b *Browser) renew(ctx context.Context) error {
	discard := true
	made, err := cdp.Call(ctx, b.engine, target.CreateBrowserContext, target.CreateBrowserContextParams{
		DisposeOnDetach: &discard,
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.context = made.BrowserContextID
	b.used, b.popups, b.fresh, b.lost = make(map[string]bool), 0, 0, ""
	b.mu.Unlock()
	if err := b.downloadRule(ctx); err != nil {
		return err
	}
	_, err = b.open(ctx, mainTab)
	return err
}

func listTabs(_ context.Context, on *act, _ ownedv1.Action) (any, error) {
	b := on.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.launched {
		return ownedv1.TabsResult{Tabs: []string{}}, nil
	}
	tabs, active := b.names()
	return ownedv1.TabsResult{Tabs: tabs, Active: active}, nil
}

// switchTab activates a tab; one whose id was never used is made first.
func switchTab(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	b, id := on.b, a.(ownedv1.SwitchTab).TabID
	if id == "" || len(id) > 128 {
		return nil, failed(refusal.Failed, "a tab's id has 1 to 128 bytes")
	}
	b.mu.Lock()
	launched, t, used := b.launched, b.named(id), b.used[id]
	b.mu.Unlock()
	switch {
	case !launched:
		return nil, failed(refusal.NoBrowser, "launch first")
	case t == nil && used:
		return nil, failed(refusal.TabGone, "that tab is gone; list_tabs tells the open ones")
	case t == nil:
		var err error
		if t, err = b.open(ctx, id); err != nil {
			return nil, err
		}
	}
	b.activate(t)
	on.tab = t
	return ownedv1.SwitchResult{Active: id}, nil
}

// named answers the listed tab of a name, or nil. mu is held.
func (b *Browser) named(name string) *tab {
	for _, t := range b.tabs {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (b *Browser) activate(t *tab) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.life.Err() == nil {
		b.active, b.lost = t, ""
		t.s.post("Page.bringToFront", nil)
	}
}

// somewhere answers the active tab, or opens and activates a fresh tab-N.
func (on *act) somewhere(ctx context.Context) (*tab, error) {
	t, err := on.page()
	b := on.b
	b.mu.Lock()
	fresh := err != nil && b.launched && b.active == nil
	if !fresh {
		b.mu.Unlock()
		return t, err
	}
	name := ""
	for name == "" || b.used[name] {
		b.fresh++
		name = numbered("tab", b.fresh)
	}
	b.mu.Unlock()
	if t, err = b.open(ctx, name); err != nil {
		return nil, err
	}
	b.activate(t)
	b.mu.Lock()
	b.notes.NewTabs = keep(b.notes.NewTabs, name, maxTabs)
	b.mu.Unlock()
	return on.page()
}

// ClosedTabResult answers CloseTab.
type ClosedTabResult struct {
	Closed string   `json:"closed"`
	Tabs   []string `json:"tabs"`
	Active *string  `json:"active"`
}

func closeTab(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	b, id := on.b, a.(CloseTab).TabID
	b.mu.Lock()
	t := b.active
	if id != "" {
		t = b.named(id)
	}
	used, lost := b.used[id], b.lost
	b.mu.Unlock()
	switch {
	case t == nil && id == "":
		return nil, noTab(lost)
	case t == nil && used:
		return nil, failed(refusal.TabGone, "that tab is gone already")
	case t == nil:
		return nil, failed(refusal.NotFound, "no tab has that id")
	}
	on.sent = true
	if err := b.shut(ctx, t); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	tabs, active := b.names()
	return ClosedTabResult{Closed: t.name, Tabs: tabs, Active: active}, nil
}

// shut closes tabs and returns when they are off the list. A page that doesn't let
// go is crashed: closing never waits for it.
func (b *Browser) shut(ctx context.Context, tabs ...*tab) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	for _, t := range tabs {
		b.engine.post(target.CloseTarget.Method, target.CloseTargetParams{TargetID: t.s.target})
	}
	open := func(t *tab) bool { return t.life.Err() == nil }
	err := b.until(ctx, func() bool { return !slices.ContainsFunc(tabs, open) })
	if err == nil || b.life.Err() != nil {
		return err
	}
	for _, t := range tabs {
		if open(t) {
			t.kill()
		}
	}
	return nil
}

// closeAll closes every tab and forgets the context they were in. A later launch
// starts afresh.
func closeAll(ctx context.Context, on *act, _ ownedv1.Action) (any, error) {
	b := on.b
	b.mu.Lock()
	tabs, in := slices.Clone(b.tabs), b.context
	b.launched, b.active, b.lost, b.context = false, nil, "", ""
	b.mu.Unlock()
	if err := b.shut(ctx, tabs...); err != nil {
		return nil, err
	}
	if in != "" {
		_, err := cdp.Call(ctx, b.engine, target.DisposeBrowserContext, target.DisposeBrowserContextParams{BrowserContextID: in})
		if err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes.GoneTabs = nil // they were closed on purpose
	return ownedv1.CloseResult{Closed: true}, nil
}
