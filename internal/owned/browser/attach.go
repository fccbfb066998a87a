package browser

import (
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/go-json-experiment/json/jsontext"
)

// maxTabs bounds the open tabs of a run. A popup beyond it is closed unseen.
const maxTabs = 50

// maxSessions bounds the targets that are listened to: pages, isolated frames and
// workers. The interception needs no session.
const maxSessions = 2000

func filter(entries ...target.FilterEntry) target.Filter {
	f := make(target.Filter, len(entries))
	for i, e := range entries {
		f[i].Exclude, f[i].Type = e.Exclude, e.Type
	}
	return f
}

// attached takes a target before its first byte: who it belongs to, what we want
// to hear of it, and then it may run. Whatever its type is, it is resumed, since a
// target that stays stopped would hang its opener.
func attached(parent *session, e target.EventAttachedToTarget) {
	b := parent.b
	if e.TargetInfo == nil || e.SessionID == "" || b.sessions[string(e.SessionID)] != nil {
		return // the engine names each session once
	}
	if len(b.sessions) >= maxSessions {
		b.conn.post(string(e.SessionID), runtime.RunIfWaitingForDebugger.Method, nil, nil)
		return // what it asks for is judged all the same
	}
	s := &session{
		b: b, id: string(e.SessionID), kind: e.TargetInfo.Type, target: e.TargetInfo.TargetID,
		tab: parent.tab, contexts: make(map[int64]string),
	}
	b.sessions[s.id] = s
	switch s.kind {
	case "page":
		if e.TargetInfo.Subtype == "" && !b.arrived(s, e.TargetInfo) {
			b.turnAway(s)
			return
		}
	case "iframe":
		if s.tab != nil {
			s.tab.swapped(s, e.TargetInfo)
		}
	}
	s.enable()
	b.conn.post(s.id, runtime.RunIfWaitingForDebugger.Method, nil, func(jsontext.Value, error) { b.ready(s) })
	b.wake()
}

// enable turns on what the session has to tell.
func (s *session) enable() {
	s.post(target.SetAutoAttach.Method, autoAttach())
	switch s.kind {
	case "page", "iframe":
		s.post(page.Enable.Method, nil)
		s.post(page.SetLifecycleEventsEnabled.Method, page.SetLifecycleEventsEnabledParams{Enabled: true})
		s.post("Inspector.enable", nil)
		s.post(runtime.Enable.Method, nil)
		s.post("Log.enable", nil)
		// Bodies are never asked for, so the engine needs to keep none.
		least := int64(1)
		s.post(network.Enable.Method, network.EnableParams{MaxTotalBufferSize: &least, MaxResourceBufferSize: &least})
	case "worker":
		s.post(runtime.Enable.Method, nil) // a worker's console is its page's
	}
	if s.kind == "page" {
		s.post(emulation.SetDeviceMetricsOverride.Method, emulation.SetDeviceMetricsOverrideParams{
			Width: ViewportWidth, Height: ViewportHeight, DeviceScaleFactor: 1,
		})
		s.post(emulation.SetFocusEmulationEnabled.Method, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	}
	observe(s)
}

// arrived makes a tab of a new page. A page that we asked for is named by whoever
// asked; one with an opener, or one that came unasked, is a popup.
func (b *Browser) arrived(s *session, info *target.Info) bool {
	asked := b.claiming > 0 && info.OpenerID == ""
	if !asked && len(b.tabs)+len(b.unclaimed) >= maxTabs {
		b.notes.TabsRefused++
		return false
	}
	t := newTab(s, info)
	s.tab = t
	if asked {
		b.unclaimed = append(b.unclaimed, t)
		return true
	}
	b.adopt(t)
	return true
}

// turnAway closes a page that is over the limit. It has to run first: its opener
// stands in window.open until it does, for ever if it is closed before.
func (b *Browser) turnAway(s *session) {
	b.conn.post(s.id, runtime.RunIfWaitingForDebugger.Method, nil, func(jsontext.Value, error) {
		b.engine.post(target.CloseTarget.Method, target.CloseTargetParams{TargetID: s.target})
	})
}

// ready notes that a page runs; called without mu.
func (b *Browser) ready(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.tab != nil && s.tab.s == s {
		s.tab.ready = true
		b.wake()
	}
}

// detached takes the end of a target: a tab's, an isolated frame's, a worker's.
func detached(parent *session, e target.EventDetachedFromTarget) {
	b := parent.b
	s := b.sessions[string(e.SessionID)]
	if s == nil || s == b.engine {
		return
	}
	s.detach()
	delete(b.sessions, s.id)
	switch {
	case s.tab == nil:
	case s.tab.s == s:
		b.remove(s.tab, tabClosed)
	default:
		s.tab.left(s)
	}
	b.wake()
}
