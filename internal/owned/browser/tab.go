package browser

import (
	"context"
	"slices"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"chaperone/internal/refusal"
)

// Why a tab is gone.
const (
	tabClosed  = refusal.TabGone    // the page, its opener or the caller closed it
	tabCrashed = refusal.TabCrashed // its renderer died
)

// tab is one page of the run. Its fields are guarded by Browser.mu.
type tab struct {
	b      *Browser
	s      *session
	name   string // "" until it is named
	ready  bool   // it runs; false while it is set up
	frames map[cdp.FrameID]*frame
	life   context.Context // ends with the tab, with its reason as the cause
	end    context.CancelCauseFunc

	console  lines
	network  netLog
	planted  string  // a URL that importState answers with an empty document
	dialog   *Dialog // open and not yet settled
	dialogS  *session
	heading  heading  // of its main frame's last navigation
	denials  []denial // of navigations of its main frame, the last few
	opener   target.ID
	acting   *act   // that stands on this tab
	stopping bool   // its requests fail
	replaced func() // told when its main document is; nil: nobody waits
}

// frame is one frame of a tab, wherever it is rendered.
type frame struct {
	tab     *tab
	s       *session // of the process it is rendered in
	id      cdp.FrameID
	parent  cdp.FrameID // "" of the main frame
	name    string
	url     string       // with its fragment
	loader  cdp.LoaderID // of its document; "" of an initial empty one
	loaded  cdp.LoaderID // the document whose load event has fired
	stopped cdp.LoaderID // the document whose loading has ended, with a load event or without
	failed  bool         // its document is an error page of the engine
	world   string       // unique id of our isolated world, once made
	nav     *navigation  // under way; nil: none
	shown   []arrival    // its last documents, the oldest first
	answer  response     // to its last navigation
	owed    bool         // a navigation ended as a download that isn't announced yet
}

func newTab(s *session, info *target.Info) *tab {
	t := &tab{b: s.b, s: s, frames: make(map[cdp.FrameID]*frame), opener: info.OpenerID}
	t.life, t.end = context.WithCancelCause(context.Background())
	main := cdp.FrameID(info.TargetID)
	t.frames[main] = &frame{tab: t, s: s, id: main, url: info.URL}
	return t
}

// main is the tab's main frame, whose id is the target's.
func (t *tab) main() *frame { return t.frames[cdp.FrameID(t.s.target)] }

// gone ends the tab for good: whoever waits for it leaves with the reason.
func (t *tab) gone(reason refusal.Code) { t.end(reason) }

// adopt lists a page as a popup.
func (b *Browser) adopt(t *tab) {
	for {
		b.popups++
		if name := numbered("popup", b.popups); !b.used[name] {
			b.list(t, name)
			break
		}
	}
	b.notes.NewTabs = keep(b.notes.NewTabs, t.name, maxTabs)
}

// list gives a page its name, for good.
func (b *Browser) list(t *tab, name string) {
	t.name = name
	b.used[name] = true
	b.tabs = append(b.tabs, t)
}

// remove takes a tab off the list. If it was active, none is: never another one.
func (b *Browser) remove(t *tab, reason refusal.Code) {
	t.gone(reason)
	b.unclaimed = slices.DeleteFunc(b.unclaimed, func(have *tab) bool { return have == t })
	i := slices.Index(b.tabs, t)
	if i < 0 {
		return
	}
	b.tabs = slices.Delete(b.tabs, i, i+1)
	b.notes.GoneTabs = keep(b.notes.GoneTabs, t.name, maxTabs)
	if b.active == t {
		b.active, b.lost = nil, reason
	}
}

// crashed takes the death of a renderer: at once, and for good. The engine keeps
// a crashed page as a target, so it is closed besides.
func crashed(s *session, _ struct{}) {
	if s.tab == nil {
		return
	}
	if s.tab.s != s { // an isolated frame's renderer; the page lives on
		s.tab.left(s)
		s.b.wake()
		return
	}
	s.b.remove(s.tab, tabCrashed)
	s.b.engine.post(target.CloseTarget.Method, target.CloseTargetParams{TargetID: s.target})
	s.b.wake()
}

// keep appends v unless limit values are there.
func keep[T any](list []T, v T, limit int) []T {
	if len(list) >= limit {
		return list
	}
	return append(list, v)
}
