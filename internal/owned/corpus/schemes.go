package corpus

import (
	"context"
	"errors"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// schemes types addresses of other schemes, and well-formed lies.
func (s *session) schemes(ctx context.Context) []Refusal {
	var out []Refusal
	for _, x := range []Refusal{
		{URL: "file:///etc/passwd", Want: refusal.BrowserScopeDenied},
		{URL: "file:///proc/self/environ", Want: refusal.BrowserScopeDenied},
		{URL: "view-source:file:///etc/passwd", Want: refusal.BrowserScopeDenied},
		{URL: "view-source:https://in.test/", Want: refusal.BrowserScopeDenied},
		{URL: "chrome://version", Want: refusal.BrowserScopeDenied},
		{URL: "chrome://inspect", Want: refusal.BrowserScopeDenied},
		{URL: "chrome-extension://abcdefghijklmnopabcdefghijklmnop/x", Want: refusal.BrowserScopeDenied},
		{URL: "devtools://devtools/bundled/inspector.html", Want: refusal.BrowserScopeDenied},
		{URL: "ftp://in.test/", Want: refusal.BrowserScopeDenied},
		{URL: "javascript:fetch('https://schemes.out.test/')", Want: refusal.BrowserScopeDenied},
		{URL: "data:text/html,<img src=https://schemes.out.test/>", Want: refusal.BrowserScopeDenied},
		{URL: "blob:https://in.test/0a0a", Want: refusal.BrowserScopeDenied},
		{URL: "about:srcdoc", Want: refusal.BrowserScopeDenied},
		{URL: "filesystem:https://in.test/temporary/x", Want: refusal.BrowserScopeDenied},
		{URL: "https://in.test@schemes.out.test/", Want: refusal.BrowserScopeDenied},
		{URL: `https://in.test\@schemes.out.test/`, Want: refusal.BrowserActionFailed},
		{URL: "https://", Want: refusal.BrowserActionFailed},
	} {
		_, err := s.browser.Do(ctx, ownedv1.Goto{URL: x.URL, TimeoutMS: 5000})
		var f *browser.Failure
		if errors.As(err, &f) {
			x.Got = f.Code
		}
		out = append(out, x)
	}
	return out
}
