package browser

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// SnapshotResult answers Snapshot. Text holds one line for each thing on the
// page; where it was cut its last line is "N more, pass after=eN".
type SnapshotResult struct {
	URL   string `json:"url"`
	Text  string `json:"text"`
	More  int    `json:"more,omitzero"`  // lines left out
	After string `json:"after,omitzero"` // to go on from
}

// outline is what the in-page script wrote of one world's documents.
type outline struct {
	Why   string `json:"why"` // "stale" where after isn't of this world
	Text  string `json:"text"`
	More  int    `json:"more"`
	After string `json:"after"`
	Next  int64  `json:"next"` // the first reference that isn't given
	Blind bool   `json:"blind"`
}

// snapshot writes the page as lines. The cut is made in the page, whose text
// never crosses the pipe whole. A reference is given once in a run, so one of an
// earlier document never names an element of a later one.
func snapshot(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	p := a.(Snapshot)
	limit := p.MaxBytes
	if limit == 0 {
		limit = DefaultSnapshotBytes
	}
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	var r SnapshotResult
	err = t.anew(ctx, func() (err error) {
		r, err = t.outline(ctx, p.Interactive, limit, p.After)
		return err
	})
	return r, err
}

// outline joins the main frame's outline and those of the frames that its world
// can't look into, each under a line of its own.
func (t *tab) outline(ctx context.Context, interactive bool, limit int, after string) (SnapshotResult, error) {
	main, err := t.mainFrame()
	if err != nil {
		return SnapshotResult{}, err
	}
	o, err := t.outlineOf(ctx, main, interactive, limit, after)
	if err != nil {
		return SnapshotResult{}, err
	}
	r := SnapshotResult{URL: t.mainURL(), Text: o.Text, More: o.More, After: o.After}
	found := o.Why == ""
	if o.Blind || !found {
		if found, err = t.addIslands(ctx, &r, interactive, limit, after, found); err != nil {
			return r, err
		}
	}
	if !found {
		return r, failed(refusal.Stale, "the element of after is gone; take a new snapshot")
	}
	if r.More > 0 {
		r.Text = strings.TrimPrefix(r.Text+fmt.Sprintf("\n%d more, pass after=%s", r.More, r.After), "\n")
	}
	return r, nil
}

// addIslands adds the outlines of the islands. While after hasn't been found it
// is looked for in each; what comes once there's a cut is only counted.
func (t *tab) addIslands(ctx context.Context, r *SnapshotResult, interactive bool, limit int, after string, found bool) (bool, error) {
	for _, i := range t.islands(ctx) {
		room := limit - len(r.Text)
		here := after
		if found {
			here = ""
		}
		if r.More > 0 || room < 200 {
			room = 200 // enough for one line: its reference is where to go on
		}
		o, err := t.outlineOf(ctx, i.frame, interactive, room, here)
		if errors.Is(err, errDestroyed) {
			continue // the frame went away; the page lives on
		}
		if err != nil {
			return found, err
		}
		switch {
		case o.Why != "":
			continue
		case r.More > 0:
			r.More += o.More + strings.Count(o.Text, "\n") + 1
		case o.Text != "":
			r.Text += "\nframe " + strconv.Quote(cleanText(i.origin, 100)) + "\n" + indented(o.Text)
			r.More, r.After = o.More, o.After
		}
		found = true
	}
	r.Text = strings.TrimPrefix(r.Text, "\n")
	return found, nil
}

func indented(text string) string { return " " + strings.ReplaceAll(text, "\n", "\n ") }

// outlineOf asks one world, and moves the run's next reference on.
func (t *tab) outlineOf(ctx context.Context, f *frame, interactive bool, limit int, after string) (outline, error) {
	t.b.mu.Lock()
	next := max(1, t.b.nextRef)
	t.b.mu.Unlock()
	o, err := ask[outline](ctx, t, f, "outline", interactive, limit, after, next)
	if err != nil {
		return o, err
	}
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.b.nextRef = max(t.b.nextRef, o.Next)
	return o, nil
}
