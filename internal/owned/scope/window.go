package scope

import (
	"fmt"
	"slices"
)

func (r *reader) windows(n *node, key string) (list []Window) {
	if n.kind == aNull || !r.want(n, key, aList) {
		return nil
	}
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", key, i)
		var start, end *node
		switch {
		case item.kind == aList && len(item.items) == 2:
			start, end = item.items[0], item.items[1]
		case item.kind == aMap:
			r.mapping(item, at, []string{"start", "end"}, func(field, string) {})
			start, end = item.field("start"), item.field("end")
		}
		if start == nil || end == nil {
			r.fail(item, at, `a window is {"start": …, "end": …} or a pair of times`)
			return nil
		}
		w := Window{r.time(start, at+".start"), r.time(end, at+".end")}
		if !w.NotAfter.After(w.NotBefore) {
			r.fail(item, at, "the window ends before it starts")
		}
		list = append(list, w)
	}
	return list
}

// window keeps what is authorised and not blacked out, which has to be one
// unbroken span: a scope has one window.
func (r *reader) window(s *Scope, block *node, authorized, blackout []Window) {
	slices.SortFunc(authorized, func(a, b Window) int { return a.NotBefore.Compare(b.NotBefore) })
	spans := []Window{{}}
	for i, w := range authorized {
		last := &spans[len(spans)-1]
		switch {
		case i == 0:
			*last = w
		case w.NotBefore.After(last.NotAfter):
			spans = append(spans, w)
		case w.NotAfter.After(last.NotAfter):
			last.NotAfter = w.NotAfter
		}
	}
	for _, b := range blackout {
		var rest []Window
		for _, w := range spans {
			rest = append(rest, w.without(b)...)
		}
		spans = rest
	}
	switch {
	case r.err != nil:
	case len(spans) == 0:
		r.fail(block, "machine_enforcement.blackout_windows", "they leave nothing of the authorized time")
	case len(spans) > 1:
		r.fail(block, "machine_enforcement", "the windows leave %d separate spans of time and a scope has one; import one roe.json per span", len(spans))
	default:
		s.window = spans[0]
	}
}

// without is w less b: nothing, w itself, one end of it, or both.
func (w Window) without(b Window) []Window {
	overlaps := b.NotAfter.After(w.NotBefore) && (w.NotAfter.IsZero() || b.NotBefore.Before(w.NotAfter))
	if !overlaps {
		return []Window{w}
	}
	var rest []Window
	if b.NotBefore.After(w.NotBefore) {
		rest = append(rest, Window{w.NotBefore, b.NotBefore})
	}
	if w.NotAfter.IsZero() || b.NotAfter.Before(w.NotAfter) {
		rest = append(rest, Window{b.NotAfter, w.NotAfter})
	}
	return rest
}
