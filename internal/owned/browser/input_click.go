package browser

import (
	"context"
	"errors"

	"github.com/chromedp/cdproto/input"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// ClickRef is a click on the element of a snapshot's reference, such as "e12".
func ClickRef(ref string) ownedv1.Click {
	return ownedv1.Click{Selector: "ref=" + ref, TimeoutMS: ownedv1.DefaultInputTimeoutMS}
}

// TypeRef types into the element of a snapshot's reference.
func TypeRef(ref, text string) ownedv1.Type {
	return ownedv1.Type{Selector: "ref=" + ref, Text: text, TimeoutMS: ownedv1.DefaultInputTimeoutMS}
}

// click waits until the element can be clicked, moves the mouse there, looks
// again, and presses. The move's acknowledgement is the animation frame over
// which the element has to stand still, so nothing is waited for twice.
func click(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	selector := a.(ownedv1.Click).Selector
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	for fresh, steady := true, false; ; fresh, steady = false, true {
		at, err := t.aim(ctx, selector, fresh, steady)
		if err != nil {
			return nil, err
		}
		sent, err := at.click(ctx, on)
		switch {
		case err != nil:
			return nil, err
		case sent:
			return ownedv1.ClickResult{Clicked: selector, URL: t.mainURL()}, nil
		}
	}
}

// spot is where a click will go.
type spot struct {
	t        *tab
	f        *frame // whose world found the element
	selector string
	option   bool    // of a closed select: it is chosen, not clicked
	local    verdict // the point in that world's viewport
	x, y     float64 // the point in the tab's viewport
}

// aim waits for an element that a click would reach. Nothing has been sent when
// it fails.
func (t *tab) aim(ctx context.Context, selector string, fresh, steady bool) (spot, error) {
	for {
		f, v, err := t.seek(ctx, selector, "ready", func() []any { return []any{selector, left(ctx), fresh, steady} })
		if err != nil {
			return spot{}, err
		}
		if v.Option {
			return spot{t: t, f: f, selector: selector, option: true}, nil
		}
		if v.X == nil || v.Y == nil {
			return spot{}, missing(ctx, v)
		}
		over, err := t.lifted(ctx, f, v)
		if err != nil && !errors.Is(err, errDestroyed) {
			return spot{}, err
		}
		if err == nil && over.X != nil && over.Y != nil {
			return spot{t: t, f: f, selector: selector, local: v, x: *over.X, y: *over.Y}, nil
		}
		// An outer document covers the frame, or it went away: look again a frame later.
		if left(ctx) == 0 {
			return spot{}, missing(ctx, over)
		}
		if err := t.frameTime(ctx); err != nil {
			return spot{}, err
		}
		fresh, steady = false, true
	}
}

// frameTime waits for the main frame's next animation frame.
func (t *tab) frameTime(ctx context.Context) error {
	main, err := t.mainFrame()
	if err != nil {
		return err
	}
	if _, err := t.callIn(ctx, main, "() => lib.frame()"); err != nil && !errors.Is(err, errDestroyed) {
		return err
	}
	return nil
}

// click clicks the spot, unless the element isn't there any more when the mouse
// has moved: then nothing is sent, and the caller aims anew.
func (at spot) click(ctx context.Context, on *act) (sent bool, err error) {
	watch := at.t.beginNavigationWatch()
	if at.option {
		on.sent = true
		v, err := ask[verdict](ctx, at.t, at.f, "pickOption", at.selector)
		if err == nil && !v.Done {
			on.sent = false // the option is checked before anything is set
			return false, missing(ctx, v)
		}
		return true, on.confirmed(ctx, watch, err)
	}
	move := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at.x, Y: at.y}
	if err := on.dispatch(ctx, at.t.s, move); err != nil {
		return false, err
	}
	there, err := ask[bool](ctx, at.t, at.f, "aimed", at.selector, *at.local.X, *at.local.Y)
	if errors.Is(err, errDestroyed) || err == nil && !there {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if over, err := at.t.lifted(ctx, at.f, at.local); err != nil || over.X == nil || !near(*over.X, at.x) || !near(*over.Y, at.y) {
		return false, ignoreGone(err)
	}
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	on.sent = true
	press := input.DispatchMouseEventParams{
		Type: input.DispatchMouseEventTypeMousePressed, X: at.x, Y: at.y, Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1,
	}
	release := press
	release.Type, release.Buttons = input.DispatchMouseEventTypeMouseReleased, 0
	return true, on.confirmed(ctx, watch, on.dispatch(ctx, at.t.s, press, release))
}

func near(a, b float64) bool { return a-b < 1 && b-a < 1 }

func ignoreGone(err error) error {
	if errors.Is(err, errDestroyed) {
		return nil
	}
	return err
}

// dispatch sends mouse events, one behind the other in the pipe, and waits until
// the page has taken them all.
func (on *act) dispatch(ctx context.Context, s *session, events ...input.DispatchMouseEventParams) error {
	list := make([]any, len(events))
	for i, e := range events {
		list[i] = e
	}
	return on.send(ctx, s, input.CommandDispatchMouseEvent, list...)
}

// send posts calls of one method and waits for every answer.
func (on *act) send(ctx context.Context, s *session, method string, params ...any) error {
	answers := make(chan error, len(params))
	for _, p := range params {
		on.b.conn.post(s.id, method, p, func(_ jsontext.Value, err error) { answers <- err })
	}
	for range params {
		select {
		case err := <-answers:
			if err != nil {
				return finish(method, nil, err, nil)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// confirmed ends an action whose input has been sent: it waits until what the
// input started has come to an end. Input that opened a dialog, or closed its own
// tab, was taken; input that nobody acknowledged before the end is told as such,
// and never sent again.
func (on *act) confirmed(ctx context.Context, watch *navigationWatch, err error) error {
	// Where the document that took the input is gone, what comes next counts.
	if err == nil || errors.Is(err, errDestroyed) {
		err = watch.settle(ctx)
	}
	var f *Failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return err
	case errors.Is(err, refusal.DialogOpen), errors.Is(err, refusal.TabGone):
		return nil
	case errors.Is(err, refusal.TabCrashed), errors.Is(err, refusal.NoBrowser):
		return err
	}
	f = failed(refusal.SentUnconfirmed, "the input was sent; the page hasn't confirmed it")
	f.Sent = true
	if errors.Is(err, context.DeadlineExceeded) {
		f.Code = refusal.BrowserTimeout
	}
	return f
}
