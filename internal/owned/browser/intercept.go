package browser

import (
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// request is what a decision needs of a paused request. Headers and bodies are
// never decoded.
type request struct {
	ID      fetch.RequestID      `json:"requestId"`
	Frame   cdp.FrameID          `json:"frameId"`
	Type    network.ResourceType `json:"resourceType"`
	Loader  cdp.LoaderID         `json:"networkId"` // of a navigation: its loader, the same at each hop
	Request struct {
		URL    string `json:"url"`
		Method string `json:"method"`
	} `json:"request"`
}

// paused judges one request of any target and lets it go on or fail. Each hop of
// a redirect pauses anew. It runs on the reading goroutine and takes microseconds.
func (b *Browser) paused(params jsontext.Value) error {
	var r request
	if err := json.Unmarshal(params, &r, lenientText); err != nil {
		return fmt.Errorf("a paused request that can't be read")
	}
	if local(r.Request.URL) {
		b.engine.post(fetch.ContinueRequest.Method, fetch.ContinueRequestParams{RequestID: r.ID})
		return nil
	}
	if b.stopping(r.Frame) {
		b.engine.post(fetch.FailRequest.Method, fetch.FailRequestParams{RequestID: r.ID, ErrorReason: network.ErrorReasonAborted})
		return nil
	}
	rec := b.judge(r.Request.URL, r.Request.Method)
	b.record(rec)
	if rec.Allowed {
		if r.Type == network.ResourceTypeDocument {
			b.mu.Lock()
			if t := b.mainFrame(r); t != nil {
				t.heading = heading{rec.Host, rec.Port, r.Loader}
			}
			b.mu.Unlock()
		}
		if b.serve(r) {
			return nil
		}
		b.engine.post(fetch.ContinueRequest.Method, fetch.ContinueRequestParams{RequestID: r.ID})
		return nil
	}
	reason := network.ErrorReasonBlockedByClient
	b.mu.Lock()
	if t := b.mainFrame(r); t != nil && r.Type == network.ResourceTypeDocument {
		// An aborted navigation leaves the page where it was; a blocked one would
		// replace it by the engine's error page.
		reason = network.ErrorReasonAborted
		t.deny(r.Loader, rec.Decision)
	}
	b.mu.Unlock()
	b.engine.post(fetch.FailRequest.Method, fetch.FailRequestParams{RequestID: r.ID, ErrorReason: reason})
	return nil
}

// stopping tells whether a request comes from a tab that is being stopped.
func (b *Browser) stopping(id cdp.FrameID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tabs {
		if t.stopping && t.frames[id] != nil {
			return true
		}
	}
	return false
}

// mainFrame answers the tab whose main document a request is for.
func (b *Browser) mainFrame(r request) *tab {
	for _, s := range b.sessions {
		if s.kind == "page" && s.tab != nil && cdp.FrameID(s.target) == r.Frame {
			return s.tab
		}
	}
	return nil
}

// local tells the URLs that reach nothing: what they hold is the page's own.
func local(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	switch strings.ToLower(scheme) {
	case "data", "blob", "about":
		return true
	}
	return false
}

// judge asks the one matcher about a URL.
func (b *Browser) judge(url, method string) scope.Record {
	now := time.Now()
	rec := scope.Record{At: now, Layer: "browser", Method: method}
	target, err := scope.ParseURL(url)
	if err != nil {
		rec.Scheme, _, _ = strings.Cut(cutText(url, 20), ":")
		code := refusal.Of(err)
		if code == "" {
			code = refusal.Malformed
		}
		rec.Decision = scope.Decision{Code: code, Rule: "no rule"}
	} else {
		target.Method = method
		rec.Host, rec.Port, rec.Scheme = target.Host, target.Port, target.Scheme
		rec.Decision = b.config.Scope.Decide(target, now)
	}
	return rec
}

// record hands a decision to the audit, and counts a denial for the notes.
func (b *Browser) record(rec scope.Record) {
	if b.config.Record != nil {
		b.config.Record(rec)
	}
	if !rec.Allowed {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.block(rec.Host, rec.Rule)
	}
}

// block counts a denial for the notes. mu is held.
func (b *Browser) block(host, rule string) {
	for i, have := range b.notes.Blocked {
		if have.Host == host && have.Rule == rule {
			b.notes.Blocked[i].Count++
			return
		}
	}
	b.notes.Blocked = keep(b.notes.Blocked, Blocked{host, rule, 1}, 100)
}

// unreached tells that the scope allowed it and nothing answered.
func unreached(d scope.Decision) bool {
	return d.Code == refusal.Unreachable || d.Code == refusal.Unresolvable
}

// heading is where a tab's main frame is going.
type heading struct {
	host   string
	port   int
	loader cdp.LoaderID
}

// deny notes a denied navigation of the tab's main frame. mu is held.
func (t *tab) deny(loader cdp.LoaderID, d scope.Decision) {
	if len(t.denials) >= 16 {
		t.denials = t.denials[1:]
	}
	began := time.Now()
	if n := t.main().nav; n != nil && n.loader == loader {
		began = n.began
	}
	t.denials = append(t.denials, denial{began, loader, d})
	t.b.wake()
}

// Observe tells the browser of the proxy's decisions, which know the resolved
// address: a denial is counted in the notes, and a navigation to that host which
// is under way fails as denied and not with whatever the proxy answered. Call it
// before the proxy answers.
func (b *Browser) Observe(rec scope.Record) {
	if rec.Allowed {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !unreached(rec.Decision) {
		b.block(rec.Host, rec.Rule)
	}
	for _, t := range b.tabs {
		if h := t.heading; h.host == rec.Host && h.port == rec.Port {
			t.deny(h.loader, rec.Decision)
		}
	}
}

// oversized takes an event that was too large to keep. A request whose body is
// that large fails: nothing may stay paused, and nothing passes unjudged.
func (b *Browser) oversized(method, id string, head []byte) {
	switch method {
	case "Fetch.requestPaused":
		if request := headRequest(head); request != "" {
			b.engine.post(fetch.FailRequest.Method, fetch.FailRequestParams{
				RequestID: request, ErrorReason: network.ErrorReasonBlockedByClient,
			})
		}
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		b.mu.Lock()
		defer b.mu.Unlock()
		if s := b.sessions[id]; s != nil && s.tab != nil {
			s.tab.console.add("warning", "a console message over its limit was dropped")
		}
	case "Page.javascriptDialogOpening":
		b.conn.post(id, "Page.handleJavaScriptDialog", map[string]bool{"accept": false}, nil)
	}
}

// headRequest reads the request's id from a cut Fetch.requestPaused.
func headRequest(head []byte) fetch.RequestID {
	const key = `"requestId":"`
	_, rest, found := strings.Cut(string(head), key)
	id, _, ended := strings.Cut(rest, `"`)
	if !found || !ended {
		return ""
	}
	return fetch.RequestID(id)
}
