package browser

import (
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
)

// maxFrames bounds what one tab's page can make us remember.
const maxFrames = 2000

// swapped notes that a frame is rendered by a process of its own.
func (t *tab) swapped(s *session, info *target.Info) {
	id := cdp.FrameID(info.TargetID)
	f := t.frames[id]
	if f == t.main() {
		return // no engine says so of a page
	}
	if f == nil {
		if len(t.frames) >= maxFrames {
			return
		}
		f = &frame{tab: t, id: id, parent: info.ParentFrameID}
		t.frames[id] = f
	}
	f.s, f.url, f.world = s, info.URL, ""
}

// left forgets the frames that a session rendered, once it is gone.
func (t *tab) left(s *session) {
	for id, f := range t.frames {
		if f.s == s && f != t.main() {
			delete(t.frames, id)
		}
	}
}

func frameAttached(s *session, e page.EventFrameAttached) {
	if t := s.tab; t != nil && e.FrameID != "" && t.frames[e.FrameID] == nil && len(t.frames) < maxFrames {
		t.frames[e.FrameID] = &frame{tab: t, s: s, id: e.FrameID, parent: e.ParentFrameID}
	}
}

// frameDetached forgets a frame and what stood in it. One that moves to another
// process comes back as a target, or has done so already.
func frameDetached(s *session, e page.EventFrameDetached) {
	t := s.tab
	if t == nil {
		return
	}
	f := t.frames[e.FrameID]
	if f == nil || f == t.main() || f.s != s {
		return
	}
	t.forget(f)
	if e.Reason == page.FrameDetachedReasonSwap {
		t.frames[f.id] = &frame{tab: t, id: f.id, parent: f.parent, name: f.name, nav: f.nav}
	}
	s.b.wake()
}

// forget drops a frame and those below it, never the main one: a tab has one
// whatever the engine says.
func (t *tab) forget(f *frame) {
	if f == t.main() {
		return
	}
	delete(t.frames, f.id)
	for _, below := range t.frames {
		if below.parent == f.id {
			t.forget(below)
		}
	}
}

// frameNavigated takes a committed document.
func frameNavigated(s *session, e page.EventFrameNavigated) {
	t := s.tab
	if t == nil || e.Frame == nil || e.Frame.ID == "" {
		return
	}
	f := t.frames[e.Frame.ID]
	if f == nil {
		if len(t.frames) >= maxFrames {
			return
		}
		f = &frame{tab: t, id: e.Frame.ID, parent: e.Frame.ParentID}
		t.frames[f.id] = f
	}
	for _, below := range t.frames {
		if below.parent == f.id && below != f {
			t.forget(below) // the document that held it is gone
		}
	}
	f.s, f.name, f.loader, f.world = s, e.Frame.Name, e.Frame.LoaderID, ""
	f.url, f.failed = e.Frame.URL+e.Frame.URLFragment, e.Frame.UnreachableURL != ""
	if f == t.main() && t.replaced != nil {
		t.replaced()
	}
	f.arrived(e.Frame.LoaderID)
	f.settled(e.Frame.LoaderID)
	s.b.wake()
}

func navigatedWithin(s *session, e page.EventNavigatedWithinDocument) {
	if f := s.frame(e.FrameID); f != nil {
		f.url = e.URL
		if f.nav != nil && (f.nav.same || f.nav.loader == "") {
			f.nav = nil
		}
		s.b.wake()
	}
}

// lifecycle notes a document's load event.
func lifecycle(s *session, e page.EventLifecycleEvent) {
	if e.Name != "load" {
		return
	}
	if f := s.frame(e.FrameID); f != nil {
		f.loaded = e.LoaderID
		s.b.wake()
	}
}

func (s *session) frame(id cdp.FrameID) *frame {
	if s.tab == nil {
		return nil
	}
	return s.tab.frames[id]
}
