package browser

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/input"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// typeText replaces what a field holds and reads it back. A newline in a field of
// one line presses Enter.
func typeText(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	p := a.(ownedv1.Type)
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	watch := t.beginNavigationWatch()
	if err := on.fill(ctx, t, watch, p.Selector, strings.ReplaceAll(p.Text, "\r\n", "\n")); err != nil {
		return nil, err
	}
	if err := on.pause(ctx, p.DelayMS); err != nil {
		return nil, err
	}
	return ownedv1.TypeResult{TypedInto: p.Selector, Chars: utf8.RuneCountInString(p.Text)}, nil
}

// pause waits delay_ms after typing; the text stands in the field already.
func (on *act) pause(ctx context.Context, ms int64) error {
	if ms <= 0 {
		return nil
	}
	if ms > int64(24*time.Hour/time.Millisecond) {
		ms = int64(24 * time.Hour / time.Millisecond)
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fill puts a text into a field. The page's script sets what isn't typed, such as
// a date or an option; the rest is keyboard input to the focused field.
func (on *act) fill(ctx context.Context, t *tab, watch *navigationWatch, selector, text string) error {
	first, rest, split := strings.Cut(text, "\n")
	f, v, err := t.seek(ctx, selector, "type", func() []any { return []any{selector, text, first, left(ctx)} })
	switch {
	case errors.Is(err, errUnsure):
		return on.confirmed(ctx, watch, context.Cause(ctx))
	case err != nil:
		return err
	case v.Done:
		on.sent = true
		return on.confirmed(ctx, watch, nil)
	case !v.Insert:
		return missing(ctx, v)
	case !v.Line:
		first, split = text, false
	}
	on.sent = true
	if err := on.insert(ctx, f, first); err != nil {
		return on.confirmed(ctx, watch, err)
	}
	v, err = ask[verdict](ctx, t, f, "typed", first)
	switch {
	case err != nil:
		return on.confirmed(ctx, watch, lostField(err))
	case !v.OK:
		return untaken(v)
	case v.Reformatted:
		on.reformatted = true
	}
	if !split {
		return nil
	}
	for split && err == nil {
		first, rest, split = strings.Cut(rest, "\n")
		err = on.enter(ctx, t, f, first)
	}
	return on.confirmed(ctx, watch, err)
}

// insert types a text as an input method would: it arrives whole.
func (on *act) insert(ctx context.Context, f *frame, text string) error {
	if text == "" {
		return nil // the selection was deleted in the page
	}
	return on.send(ctx, f.process(), input.CommandInsertText, input.InsertTextParams{Text: text})
}

// enter presses Enter in the field, and types what follows behind it.
func (on *act) enter(ctx context.Context, t *tab, f *frame, next string) error {
	if err := on.press(ctx, f.process(), chord{key: keys["Enter"]}); err != nil || next == "" {
		return err
	}
	there, err := ask[bool](ctx, t, f, "refocused")
	if err != nil {
		return lostField(err)
	}
	if !there {
		return lostField(errDestroyed) // the rest would go into another field
	}
	return on.insert(ctx, f, next)
}

// lostField tells of a field that went away between two parts of its text.
func lostField(err error) error {
	if !errors.Is(err, errDestroyed) {
		return err
	}
	f := failed(refusal.SentUnconfirmed, "the page went on before the whole text was read back")
	f.Sent = true
	return f
}

// untaken says why a field doesn't hold what was typed into it.
func untaken(v verdict) error {
	detail := "the field holds something else than the text that was typed"
	switch v.Why {
	case "refused":
		detail = "the field doesn't take that text"
	case "maxlength":
		detail = "the field takes fewer characters (its maxlength); it holds the beginning of the text"
	case "replaced":
		detail = "the page replaced the field while it was typed into"
	}
	f := failed(refusal.Failed, "%s", detail)
	f.Sent = true
	return f
}
