package scope

import (
	"net/url"
	"regexp"
	"strings"
)

// pathView is a request's path in the forms that rules are compared with.
type pathView struct {
	sound  bool     // false: servers may read it in more than one way
	normal string   // percent-decoded once, dot segments removed
	lax    []string // what a forgiving server may make of it; for deny rules only
}

// encodedTraps are escapes that servers decode at another moment than we do
// (spec section 4): a slash, a backslash, a NUL.
var encodedTraps = []string{"%2f", "%5c", "%00"}

var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// viewPath decodes an escaped path once. What could be read in two ways isn't
// sound and matches no rule that has paths.
func viewPath(escaped string) pathView {
	if escaped == "" {
		escaped = "/"
	}
	lower := strings.ToLower(escaped)
	for _, trap := range encodedTraps {
		if strings.Contains(lower, trap) {
			return pathView{}
		}
	}
	decoded, err := url.PathUnescape(escaped)
	if err != nil || decoded[0] != '/' || strings.ContainsAny(escaped, "?#") ||
		strings.Contains(decoded, `\`) || strings.ContainsFunc(decoded, control) || escape.MatchString(decoded) {
		return pathView{}
	}
	segments := strings.Split(decoded[1:], "/")
	dots := false
	for _, s := range segments {
		name, _, _ := strings.Cut(s, ";")
		dots = dots || name == "." || name == ".."
	}
	if dots && strings.Contains(decoded, ";") {
		return pathView{} // "/..;/" and "/a;/../b": servers differ in what they cut first
	}
	normal := removeDots(segments)
	return pathView{true, normal, []string{collapse(normal, false), collapse(normal, true)}}
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// removeDots joins segments without "." and "..", as browsers do.
func removeDots(segments []string) string {
	var kept []string
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "..":
			kept = kept[:max(0, len(kept)-1)]
			if last {
				kept = append(kept, "")
			}
		case s == ".":
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// collapse is the path as a server sees it that merges slashes and, perhaps,
// drops ;parameters. A deny rule has to hold there too.
func collapse(path string, dropParameters bool) string {
	var kept []string
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if dropParameters {
			s, _, _ = strings.Cut(s, ";")
		}
		if s != "" || i == len(segments)-1 {
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// pathPattern is one entry of a rule's paths.
type pathPattern struct {
	text string
	expr *regexp.Regexp
}

// compilePath checks a pattern and makes it matchable in linear time. The
// string is what is wrong with it, "" when nothing is.
func compilePath(text string) (pathPattern, string) {
	switch {
	case !strings.HasPrefix(text, "/"):
		return pathPattern{}, "a path pattern starts with a slash"
	case strings.ContainsAny(text, "?#"):
		return pathPattern{}, "a path pattern holds no query and no fragment"
	case strings.Contains(text, `\`) || strings.ContainsFunc(text, control):
		return pathPattern{}, "a path pattern holds no backslash and no control character"
	case escape.MatchString(text):
		return pathPattern{}, "write the decoded character instead of its percent escape"
	case strings.Contains(text, "***"):
		return pathPattern{}, "* stands for a part of one segment, ** for any number of segments; *** is neither"
	case strings.Contains(text, "//"):
		return pathPattern{}, "an empty segment; write single slashes"
	}
	for s := range strings.SplitSeq(text, "/") {
		if s == "." || s == ".." {
			return pathPattern{}, "dot segments are removed before the match; write the path without them"
		}
	}
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i, part := range strings.Split(text, "**") {
		if i > 0 {
			b.WriteString(`.*`)
		}
		for j, plain := range strings.Split(part, "*") {
			if j > 0 {
				b.WriteString(`[^/]*`)
			}
			b.WriteString(regexp.QuoteMeta(plain))
		}
	}
	b.WriteString(`\z`)
	expr, err := regexp.Compile(b.String())
	if err != nil {
		return pathPattern{}, "too long or too intricate"
	}
	return pathPattern{text, expr}, ""
}
