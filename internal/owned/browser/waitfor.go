package browser

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"chaperone/internal/owned/ownedv1"
)

// WaitResult answers WaitFor.
type WaitResult struct {
	Met string `json:"met"` // the condition: visible, hidden, attached, detached, text or url
	URL string `json:"url"`
}

// waitFor waits for one condition. It lasts over navigations: the condition is
// asked anew of each document that comes.
func waitFor(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	p := a.(WaitFor)
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	met := "text"
	switch {
	case p.URL != "":
		met, err = "url", t.waitURL(ctx, p.URL)
	case p.Text != "":
		err = t.waitText(ctx, p.Text)
	default:
		if met = p.State; met == "" {
			met = "visible"
		}
		err = t.waitState(ctx, p.Selector, met)
	}
	if err != nil {
		return nil, err
	}
	return WaitResult{Met: met, URL: t.mainURL()}, nil
}

// waitURL watches the tab's address, which the engine tells of.
func (t *tab) waitURL(ctx context.Context, glob string) error {
	return t.b.until(ctx, func() bool {
		f := t.main()
		return f != nil && matchURL(glob, f.url)
	})
}

// waitText looks for a text that is shown, in the main frame's world and then in
// its islands of the same site.
func (t *tab) waitText(ctx context.Context, text string) error {
	for {
		main, err := t.mainFrame()
		if err != nil {
			return err
		}
		ms := left(ctx)
		places := []*frame{main}
		for _, i := range t.islands(ctx) {
			if i.sameSite {
				places = append(places, i.frame)
				ms = min(ms, 100) // each in turn
			}
		}
		for _, f := range places {
			v, err := ask[verdict](ctx, t, f, "waitText", text, ms)
			if ctx.Err() != nil {
				t.hush(f)
			}
			if err == nil && v.Done {
				return nil
			}
			if err != nil && !errors.Is(err, errDestroyed) {
				return err
			}
		}
		if left(ctx) == 0 {
			return missing(ctx, verdict{Why: "text"})
		}
		if err := t.reborn(ctx); err != nil {
			return err
		}
	}
}

// waitState waits for a selector's state. What is hidden or detached must be so
// in the world where the selector would have its first match.
func (t *tab) waitState(ctx context.Context, selector, state string) error {
	_, v, err := t.seek(ctx, selector, "waitState", func() []any { return []any{selector, state, left(ctx)} })
	if err == nil && !v.Done {
		err = missing(ctx, v)
	}
	return err
}

// matchURL compares a URL with a glob: * matches within a segment, ** across
// segments. A glob that is a path, or has no scheme, matches behind any origin.
func matchURL(glob, address string) bool {
	if match(glob, address) {
		return true
	}
	if strings.Contains(glob, "://") {
		return false
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	rest := address[strings.Index(address, "://")+3:]
	return match(glob, rest) || match(glob, strings.TrimPrefix(rest, u.Host))
}

// match runs in the product of both lengths at worst: a glob is the caller's and
// the address the page's.
func match(glob, s string) bool {
	// row[j] says that the part of the glob read so far matches s[:j].
	row := make([]bool, len(s)+1)
	row[0] = true
	for i := 0; i < len(glob); i++ {
		next := make([]bool, len(s)+1)
		switch {
		case glob[i] != '*':
			for j := 0; j < len(s); j++ {
				next[j+1] = row[j] && s[j] == glob[i]
			}
		default:
			across := i+1 < len(glob) && glob[i+1] == '*'
			if across {
				i++
			}
			for j := 0; j <= len(s); j++ {
				next[j] = row[j] || j > 0 && next[j-1] && (across || s[j-1] != '/')
			}
		}
		row = next
	}
	return row[len(s)]
}
