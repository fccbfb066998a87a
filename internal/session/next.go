package session

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"chaperone/internal/refusal"
)

// maxNext bounds a path to come back to, in bytes.
const maxNext = 2048

// Next answers where a redirect may lead: a path of our own origin. It starts
// with exactly one "/", and holds no backslash (browsers read it as "/"), no
// control, no space, nothing beyond ASCII, no fragment and no dot segments.
// Anything else is [refusal.BadDocument], and nothing is mended.
func Next(path string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("next must be a path of this server: %s: %w", why, refusal.BadDocument)
	}
	switch {
	case len(path) > maxNext:
		return bad("too long")
	case !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//"):
		return bad(`it begins with exactly one "/"`)
	case !utf8.ValidString(path):
		return bad("no UTF-8")
	}
	for _, r := range path {
		if r <= ' ' || r >= 0x7f || r == '\\' || r == '#' {
			return bad("a character that has no place in a path")
		}
	}
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || u.Path == "" {
		return bad("it isn't a path")
	}
	if strings.HasPrefix(u.Path, "//") || strings.ContainsAny(u.Path, "\\\x00\n\r\t") {
		return bad("its decoded form isn't a path of this server")
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			return bad("dot segments")
		}
	}
	return path, nil
}
