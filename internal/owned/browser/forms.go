package browser

import (
	"context"
	"errors"

	"chaperone/internal/owned/ownedv1"
)

// SelectResult answers SelectOption.
type SelectResult struct {
	Selected int    `json:"selected"` // how many options are selected now
	URL      string `json:"url"`
}

// selectOption selects exactly the named options of a select, fires input and
// change, and reads the selection back.
func selectOption(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	p := a.(SelectOption)
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	watch := t.beginNavigationWatch()
	_, v, err := t.seek(ctx, p.Selector, "selectOptions", func() []any { return []any{p.Selector, p.Values, left(ctx)} })
	if errors.Is(err, errUnsure) {
		err = on.confirmed(ctx, watch, context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	if !v.Done {
		return nil, missing(ctx, v)
	}
	on.sent = true
	if err := on.confirmed(ctx, watch, nil); err != nil {
		return nil, err
	}
	return SelectResult{Selected: len(p.Values), URL: t.mainURL()}, nil
}
