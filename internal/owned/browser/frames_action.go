package browser

import (
	"context"
	"net/url"

	"chaperone/internal/owned/ownedv1"
)

// FramesResult answers Frames.
type FramesResult struct {
	Frames []FrameInfo `json:"frames"` // the main one first, each behind its parent
}

// FrameInfo tells of one frame of the active tab.
type FrameInfo struct {
	ID       string `json:"id"`
	Parent   string `json:"parent,omitzero"` // "" of the main frame
	Name     string `json:"name,omitzero"`   // as the page named it, cut to 100 runes
	URL      string `json:"url"`             // without query and fragment
	SameSite bool   `json:"same_site"`       // as the main frame
}

func frames(_ context.Context, on *act, _ ownedv1.Action) (any, error) {
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	r := FramesResult{Frames: []FrameInfo{}}
	list, top := t.tree(), t.mainURL()
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	for _, f := range list {
		r.Frames = append(r.Frames, FrameInfo{
			ID: string(f.id), Parent: string(f.parent), Name: cleanText(f.name, 100), URL: bareURL(f.url),
			SameSite: f.parent == "" || sameSite(top, f.url) || f.url == "about:srcdoc" || f.url == blankURL,
		})
	}
	return r, nil
}

// bareURL is a URL without what may hold secrets: user, query and fragment. Of a
// URL without a host only the scheme is left, save for the engine's own pages.
func bareURL(raw string) string {
	if raw == blankURL || raw == "about:srcdoc" {
		return raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	if u.Host == "" {
		return u.Scheme + ":"
	}
	return cleanText((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String(), 500)
}
