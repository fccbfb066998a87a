package browser

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/refusal"
)

// verdict is what the in-page script says of an element: which of the outcomes
// it reached, or in Why what was missing.
type verdict struct {
	Why         string   `json:"why"`   // "" means that nothing is
	Final       bool     `json:"final"` // waiting longer won't help
	Blind       bool     `json:"blind"` // there are frames that this world can't look into
	By          string   `json:"by"`    // what covers it: tag#id.class, no text
	X           *float64 `json:"x"`     // where the mouse reaches it, in its world's viewport
	Y           *float64 `json:"y"`
	Option      bool     `json:"option"` // it is an option of a closed select
	Insert      bool     `json:"insert"` // the field is focused and its content selected
	Line        bool     `json:"line"`   // the field has one line
	Done        bool     `json:"done"`   // a value was set and read back
	OK          bool     `json:"ok"`     // the field holds the text
	Reformatted bool     `json:"reformatted"`
	Limit       int      `json:"limit"` // a field's maxlength
	Type        string   `json:"type"`  // an input's type
}

// ask calls a function of the in-page script in a frame's isolated world and
// decodes its answer.
func ask[T any](ctx context.Context, t *tab, f *frame, fn string, args ...any) (T, error) {
	var answer T
	// One list for all: the protocol's encoder would leave out an empty string.
	call, pass := "a => lib."+fn+"(...a)", []any{args}
	if len(args) > 0 {
		if h, is := args[0].(*handle); is {
			call, pass = "(h, a) => lib."+fn+"(h, ...a)", []any{h, args[1:]}
		}
	}
	if args == nil {
		call, pass = "() => lib."+fn+"()", nil
	}
	raw, err := t.callIn(ctx, f, call, pass...)
	if err != nil || raw == nil {
		return answer, err
	}
	if err := json.Unmarshal(raw, &answer, lenientText); err != nil {
		return answer, refusal.Malformed
	}
	return answer, nil
}

// left is how long ctx still lasts, in milliseconds, for a wait in the page. It
// ends a little before ctx does, so that the page says what it waited for.
func left(ctx context.Context) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return defaultTimeout.Milliseconds()
	}
	d := time.Until(deadline)
	return max(0, (d - min(max(d/5, 50*time.Millisecond), 500*time.Millisecond)).Milliseconds())
}

// seek asks a question about a selector in the world where it has its first
// match: the main frame's, else one of another frame of the same site, else, for
// a reference, of any frame. A document that goes away meanwhile is asked anew.
// Where nothing matches it comes back with the last verdict at the deadline.
func (t *tab) seek(ctx context.Context, selector, fn string, args func() []any) (*frame, verdict, error) {
	var last *verdict
	for {
		main, err := t.mainFrame()
		if err != nil {
			return nil, verdict{}, err
		}
		f, v := main, verdict{}
		if island := t.sighted(ctx, main, selector); island != nil {
			f = island
		}
		v, err = ask[verdict](ctx, t, f, fn, args()...)
		if ctx.Err() != nil && t.hush(f) && err != nil && (fn == "type" || fn == "selectOptions") {
			err = errUnsure // the others only look, scroll and focus
		}
		switch {
		case errors.Is(err, errDestroyed):
			if err := t.reborn(ctx); err != nil {
				return nil, v, err
			}
			continue
		case err != nil && last != nil && !errors.Is(err, errUnsure) && ctx.Err() == context.DeadlineExceeded:
			return f, *last, nil // looking once more took too long
		case err != nil:
			return nil, v, err
		case v.Why == "absent" && v.Blind && !v.Final && left(ctx) > 0:
			last = &v
			continue // it may stand in a frame that the script can't look into
		}
		return f, v, nil
	}
}

// process answers the session of the process that renders a frame.
func (f *frame) process() *session {
	f.tab.b.mu.Lock()
	defer f.tab.b.mu.Unlock()
	if f.s == nil {
		return f.tab.s
	}
	return f.s
}

func (t *tab) mainURL() string {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if f := t.main(); f != nil {
		return f.url
	}
	return ""
}

// mainFrame answers the main frame, or why there is none.
func (t *tab) mainFrame() (*frame, error) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if f := t.main(); f != nil {
		return f, nil
	}
	return nil, failed(refusal.TabGone, "the tab is gone")
}

// anew looks at the page again for as long as its document goes away under the
// look.
func (t *tab) anew(ctx context.Context, look func() error) error {
	for {
		err := look()
		if !errors.Is(err, errDestroyed) {
			return err
		}
		if err := t.reborn(ctx); err != nil {
			return err
		}
	}
}

// reborn waits until a main document that went away has a successor to ask.
func (t *tab) reborn(ctx context.Context) error {
	main, err := t.mainFrame()
	if err != nil {
		return err
	}
	for {
		_, err := t.callIn(ctx, main, "() => 0")
		if !errors.Is(err, errDestroyed) {
			return err
		}
		// The old context is gone and the new one not announced: wait for an event.
		t.b.mu.Lock()
		changed := t.b.changed
		t.b.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond): // an event may have come before we looked
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// hushTime bounds how long a wait in the page is asked to end. A page that is
// busy longer takes the request up when its script has been ended.
const hushTime = 150 * time.Millisecond

// errUnsure says that the action ended while the page was being touched, or was
// deaf: whether it was touched isn't known.
var errUnsure = errors.New("the page may have been touched")

// hush ends a wait that was given up, so that it does nothing to the page later.
// It says whether the page may have been touched.
func (t *tab) hush(f *frame) bool {
	ctx, cancel := context.WithTimeout(t.life, hushTime)
	defer cancel()
	// Once more where a termination meant for the page's script hit ours.
	for range 2 {
		touched, err := ask[bool](ctx, t, f, "stop")
		if err == nil || errors.Is(err, errDestroyed) {
			return touched
		}
	}
	return true
}

// missing turns a verdict into the failure of an action that hasn't been sent.
func missing(ctx context.Context, v verdict) error {
	reason, detail := refusal.TimedOut, ""
	switch v.Why {
	case "absent":
		reason, detail = refusal.NotFound, "nothing matches the selector"
	case "text":
		reason, detail = refusal.TimedOut, "the page doesn't show that text"
	case "visible":
		detail = "the element is still visible"
	case "stale":
		reason, detail = refusal.Stale, "that reference's element is gone; take a new snapshot and use its references"
	case "selector":
		reason, detail = refusal.Failed, "the selector is neither CSS nor a reference such as ref=e12"
	case "hidden":
		detail = "the element is there and not visible"
	case "disabled":
		detail = "the element is disabled"
	case "moving":
		detail = "the element doesn't stand still"
	case "outside":
		detail = "the element can't be scrolled into view"
	case "covered":
		detail = "covered by " + v.By
		if v.Final {
			reason = refusal.Covered
		}
	case "readonly":
		reason, detail = refusal.Failed, "the field is read-only"
	case "focus":
		reason, detail = refusal.Failed, "the element doesn't take the keyboard"
	case "kind":
		reason, detail = refusal.Failed, "the element isn't of a kind that this action works on"
	case "file":
		reason, detail = refusal.Failed, "a file input takes files: use upload"
	case "single":
		reason, detail = refusal.Failed, "the element takes exactly one"
	case "option":
		reason, detail = refusal.NotFound, "the select has no option of that value or label"
	case "disabled_option":
		reason, detail = refusal.Failed, "that option is disabled"
	case "value":
		reason, detail = refusal.Failed, "the field doesn't take that value"+valueHint(v.Type)
	case "stopped":
		detail = "the wait was ended"
	default:
		reason, detail = refusal.Failed, "the page has changed under the action"
	}
	f := failed(reason, "%s", detail)
	if !v.Final && (reason == refusal.TimedOut || v.Why == "absent") {
		<-ctx.Done() // the page stopped a moment before: which limit was it?
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			f.Code = refusal.BrowserTimeout
		}
	}
	return f
}

// valueHint says how a control wants its value.
func valueHint(kind string) string {
	if form, ok := map[string]string{
		"date": "2026-12-31", "time": "23:59", "datetime-local": "2026-12-31T23:59", "month": "2026-12", "week": "2026-W53",
		"color": "#rrggbb", "range": "a number within its limits and steps",
	}[kind]; ok {
		return "; it wants the form " + form
	}
	return ""
}
