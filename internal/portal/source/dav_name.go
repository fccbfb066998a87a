package source

import (
	"net/url"
	"strings"
)

// davPath judges an href of a server's answer: it must lie below base, on base's
// own host. It answers the path relative to base, decoded, with a "/" at the end
// where the href has one; "" is base itself.
//
// Refused are another scheme, host or user, a query, an escape of "/" inside a
// segment, empty and dot segments: what two clients could read in two ways.
func davPath(base *url.URL, href string) (rel string, ok bool) {
	if len(href) > 4096 {
		return "", false
	}
	u, err := url.Parse(strings.TrimSpace(href))
	if err != nil || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "" {
		return "", false
	}
	if u.Host != "" && (!strings.EqualFold(u.Host, base.Host) || u.Scheme != "" && u.Scheme != base.Scheme) || u.Host == "" && u.Scheme != "" {
		return "", false
	}
	escaped := u.EscapedPath()
	if strings.Contains(strings.ToLower(escaped), "%2f") {
		return "", false
	}
	root := strings.TrimSuffix(base.Path, "/") + "/"
	if u.Path == strings.TrimSuffix(root, "/") {
		return "", true // the base without its slash
	}
	rel, below := strings.CutPrefix(u.Path, root)
	if !below {
		return "", false
	}
	return rel, rel == "" || validSegments(strings.TrimSuffix(rel, "/"))
}

func validSegments(path string) bool {
	for s := range strings.SplitSeq(path, "/") {
		if s == "" || s == "." || s == ".." || strings.ContainsRune(s, 0) {
			return false
		}
	}
	return true
}

// davID answers the id of the item at that relative path.
func davID(rel string) (string, bool) { return encodeName(rel) }

// davURL answers where the item with that id lies; ok is false for an id that no
// href gives.
func davURL(base *url.URL, id string) (*url.URL, bool) {
	rel, ok := decodeName(id)
	if !ok || !validSegments(rel) {
		return nil, false
	}
	u := davAt(base, rel)
	back, ok := davPath(base, u.String())
	return u, ok && back == rel
}

// davAt answers the URL of a relative path.
func davAt(base *url.URL, rel string) *url.URL {
	u := *base
	u.Path = strings.TrimSuffix(base.Path, "/") + "/" + rel
	u.RawPath = ""
	return &u
}
