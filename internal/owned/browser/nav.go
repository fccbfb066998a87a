package browser

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// navigation is one that a frame has asked for or begun and not yet ended.
//
//	asked    the renderer wants it; no loader yet
//	begun    the engine has started it; loader is set
//	ended    it committed, stayed within the document, or came to nothing
//	         (a download, a 204, a denial): the frame's nav is nil again
type navigation struct {
	began  time.Time // when it was first heard of
	loader cdp.LoaderID
	same   bool // within the document
}

// denial is a navigation of a main frame that the scope denied.
type denial struct {
	at       time.Time // when the navigation began: whoever acts then has caused it
	loader   cdp.LoaderID
	decision scope.Decision
}

// response is the site's answer to a navigation.
type response struct {
	loader cdp.LoaderID
	status int
}

// responseCame keeps the status of documents. Of a navigation the request's id is
// its loader.
func responseCame(s *session, e struct {
	Request  cdp.LoaderID         `json:"requestId"`
	Frame    cdp.FrameID          `json:"frameId"`
	Type     network.ResourceType `json:"type"`
	Response struct {
		Status  int `json:"status"`
		Headers struct {
			// The proxy's own refusal. A site that says so only fails its own goto.
			Refusal refusal.Code `json:"X-Chaperone-Refusal"`
		} `json:"headers"`
	} `json:"response"`
}) {
	f := s.frame(e.Frame)
	if f == nil || e.Type != network.ResourceTypeDocument {
		return
	}
	f.answer = response{e.Request, e.Response.Status}
	if code := e.Response.Headers.Refusal; code != "" && f == s.tab.main() {
		s.tab.deny(e.Request, scope.Decision{Code: code, Rule: "no rule"})
	}
}

func navigationAsked(s *session, e page.EventFrameRequestedNavigation) {
	if e.Disposition != page.ClientNavigationDispositionCurrentTab {
		return // a new tab attaches by itself; a download tells of itself
	}
	if f := s.frame(e.FrameID); f != nil && f.nav == nil {
		f.nav = &navigation{began: time.Now()}
		s.b.wake()
	}
}

func navigationBegun(s *session, e page.EventFrameStartedNavigating) {
	f := s.frame(e.FrameID)
	if f == nil {
		return
	}
	began := time.Now()
	if f.nav != nil && f.nav.loader == "" {
		began = f.nav.began // it was asked for before
	}
	f.nav = &navigation{
		began: began, loader: e.LoaderID,
		same: e.NavigationType == page.FrameStartedNavigatingNavigationTypeSameDocument ||
			e.NavigationType == page.FrameStartedNavigatingNavigationTypeHistorySameDocument,
	}
	s.b.wake()
}

// navigationEnded takes the end of loading, which is all that is heard of a
// navigation that came to nothing. One that got content and shows none is a
// download, which the engine announces a little later.
func navigationEnded(s *session, e page.EventFrameStoppedLoading) {
	f := s.frame(e.FrameID)
	if f == nil {
		return
	}
	if n := f.nav; n != nil && !n.same && n.loader != "" && n.loader == f.answer.loader {
		f.owed = f.answer.status >= 200 && f.answer.status < 300 && f.answer.status != 204 && f.answer.status != 205
	}
	f.nav, f.stopped = nil, f.loader
	s.b.wake()
}

// settled ends the navigation that has just committed.
func (f *frame) settled(loader cdp.LoaderID) {
	if f.nav != nil && (f.nav.loader == "" || f.nav.loader == loader) {
		f.nav = nil
	}
}

// navigationWatch tells what became of the navigations that an action started.
type navigationWatch struct {
	t     *tab
	since time.Time
}

// beginNavigationWatch is called right before an action's input is sent.
func (t *tab) beginNavigationWatch() *navigationWatch {
	return &navigationWatch{t, time.Now()}
}

// settle waits until every navigation that the input started has committed or
// come to nothing. A denied one of the main frame, or a denied redirect of it, is
// the error BROWSER_SCOPE_DENIED. Call it once the input was acknowledged.
func (w *navigationWatch) settle(ctx context.Context) error {
	// The renderer tells of a wish to navigate in the same channel as it answers
	// calls, so after this round trip every wish of the input's handlers, and the
	// task that submits a form, is known.
	err := w.t.barrier(ctx)
	if err == nil {
		err = w.t.b.until(ctx, w.t.still)
	}
	if d, ok := w.t.deniedSince(w.since); ok {
		return denied(d)
	}
	if err == nil {
		w.t.settleDownloads(ctx, w.since)
	}
	return err
}

// still tells that no frame is about to get another document. mu is held.
func (t *tab) still() bool {
	for _, f := range t.frames {
		if f.nav != nil {
			return false
		}
	}
	return true
}

// deniedSince answers the first denied main-frame navigation after at.
func (t *tab) deniedSince(at time.Time) (scope.Decision, bool) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	for _, d := range t.denials {
		if !d.at.Before(at) {
			return d.decision, true
		}
	}
	return scope.Decision{}, false
}

// barrier makes one round trip through the renderer, behind the input's handlers. A document that
// goes away meanwhile is no error: its navigation is what is waited for. One that
// is deaf until ctx ends is: what the input started may still run.
func (t *tab) barrier(ctx context.Context) error {
	t.b.mu.Lock()
	f := t.main()
	t.b.mu.Unlock()
	if f != nil {
		_, _ = t.callIn(ctx, f, `() => lib.after()`)
	}
	return context.Cause(ctx)
}

// deniedDuring answers the denial of one navigation, told by its loader.
func (t *tab) deniedDuring(loader cdp.LoaderID) (scope.Decision, bool) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	for _, d := range t.denials {
		if loader != "" && d.loader == loader {
			return d.decision, true
		}
	}
	return scope.Decision{}, false
}
