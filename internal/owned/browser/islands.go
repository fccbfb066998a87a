package browser

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"golang.org/x/net/publicsuffix"
)

// sighted answers the island that holds a selector, nil where the main frame's
// own documents hold it or nothing does.
func (t *tab) sighted(ctx context.Context, main *frame, selector string) *frame {
	t.b.mu.Lock()
	alone := len(t.frames) <= 1
	t.b.mu.Unlock()
	if alone {
		return nil
	}
	v, err := ask[verdict](ctx, t, main, "has", selector)
	ref := strings.HasPrefix(selector, "ref=")
	if err != nil || v.Why == "" || !(v.Blind || ref) {
		return nil
	}
	for _, i := range t.islands(ctx) {
		if !ref && !i.sameSite {
			continue
		}
		if v, err := ask[verdict](ctx, t, i.frame, "has", selector); err == nil && v.Why == "" {
			return i.frame
		}
	}
	return nil
}

// isle is a frame whose parent can't look into it.
type isle struct {
	*frame
	origin   string
	sameSite bool // as the tab's main frame
}

// islands lists a tab's islands, in the order of the tree. A frame that goes away
// meanwhile is left out.
func (t *tab) islands(ctx context.Context) []isle {
	var list []isle
	top := t.mainURL()
	for _, f := range t.tree() {
		if f.parent == "" {
			continue
		}
		said, err := ask[struct {
			Apart  bool   `json:"apart"`
			Origin string `json:"origin"`
		}](ctx, t, f, "island")
		if err == nil && said.Apart {
			list = append(list, isle{f, said.Origin, sameSite(top, said.Origin)})
		}
	}
	return list
}

// tree lists a tab's frames, each behind its parent.
func (t *tab) tree() []*frame {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	below := make(map[cdp.FrameID][]*frame)
	for _, f := range t.frames {
		below[f.parent] = append(below[f.parent], f)
	}
	list := slices.Clone(below[""])
	for i := 0; i < len(list); i++ {
		children := below[list[i].id]
		slices.SortFunc(children, func(a, b *frame) int { return strings.Compare(string(a.id), string(b.id)) })
		list = slices.Insert(list, i+1, children...)
	}
	return list
}

// sameSite compares the sites of two http URLs: scheme and registrable domain,
// the whole host of an address or a single label.
func sameSite(a, b string) bool {
	site := func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return ""
		}
		host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil && strings.Trim(host, "0123456789.") != "" {
			host = domain
		}
		return u.Scheme + "://" + host
	}
	return site(a) != "" && site(a) == site(b)
}

// lifted maps a point of an island to the tab's viewport, hit-testing each frame
// on the way. A frame that isn't an island maps in its own world already.
func (t *tab) lifted(ctx context.Context, f *frame, v verdict) (verdict, error) {
	for v.X != nil && f.parent != "" {
		up, owner, err := t.owner(ctx, f)
		if err != nil {
			return v, err
		}
		if v, err = ask[verdict](ctx, t, up, "through", owner, *v.X, *v.Y); err != nil {
			return v, err
		}
		f = up
	}
	return v, nil
}

// owner answers the element that shows an island, in the world that can see it:
// the parent's, or, where the parent is no island itself, that of its own root.
func (t *tab) owner(ctx context.Context, f *frame) (*frame, *handle, error) {
	t.b.mu.Lock()
	up := t.frames[f.parent]
	t.b.mu.Unlock()
	if up == nil {
		return nil, nil, errDestroyed
	}
	s, world, err := t.world(ctx, up)
	if err != nil {
		return nil, nil, err
	}
	t.b.mu.Lock()
	var context int64
	for id, unique := range s.contexts {
		if unique == world {
			context = id
		}
	}
	t.b.mu.Unlock()
	found, err := cdp.Call(ctx, s, dom.GetFrameOwner, dom.GetFrameOwnerParams{FrameID: f.id})
	if err != nil {
		return nil, nil, errDestroyed
	}
	in := runtime.ExecutionContextID(context)
	node, err := cdp.Call(ctx, s, dom.ResolveNode, dom.ResolveNodeParams{
		BackendNodeID: found.BackendNodeID, ExecutionContextID: in, ObjectGroup: worldName,
	})
	if err != nil || node.Object == nil {
		return nil, nil, errDestroyed
	}
	return up, &handle{node.Object.ObjectID}, nil
}
