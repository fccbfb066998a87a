package scope

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"

	"chaperone/internal/refusal"
)

// Target is one request as the scope sees it: what [ParseURL] makes of a URL.
type Target struct {
	Scheme string // http, https, ws or wss
	Host   string // lower case, A-labels, no trailing dot; an IPv6 address without brackets
	Port   int    // 1 to 65535
	Path   string // escaped, as on the wire, starting with a slash; no query
	Method string // upper case; "GET" from ParseURL
}

// String is the target as a URL: the normal form of whatever it was parsed from.
func (t Target) String() string {
	s := t.Scheme + "://" + bracketed(t.Host)
	if defaultPort(t.Scheme) != t.Port {
		s += ":" + strconv.Itoa(t.Port)
	}
	return s + t.Path
}

// bracketed is a host as it stands in a URL.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// defaultPort is a scheme's port, 0 for a scheme that isn't ours.
func defaultPort(scheme string) int {
	switch scheme {
	case "http", "ws":
		return 80
	case "https", "wss":
		return 443
	}
	return 0
}

// maxURL bounds a URL in bytes.
const maxURL = 64 << 10

// ParseURL reads an absolute URL strictly (spec section 4). Where a browser
// would repair something (a backslash, a tab, userinfo, a missing slash) the
// URL is refused, and where it would rewrite a host (case, IDN, an IPv4 address
// in octal, as one number or inside IPv6) the Target holds the host that it
// would really go to. The error is refusal.BadScheme for a well-formed URL of
// another scheme, else refusal.Malformed.
func ParseURL(raw string) (Target, error) {
	if err := plainText(raw); err != nil {
		return Target{}, err
	}
	scheme, rest, err := splitScheme(raw)
	if err != nil {
		return Target{}, err
	}
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return Target{}, malformed("two slashes must follow the scheme")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	host, port, err := splitAuthority(authority, defaultPort(scheme))
	if err != nil {
		return Target{}, err
	}
	if cut := strings.IndexAny(path, "?#"); cut >= 0 {
		path = path[:cut]
	}
	return Target{scheme, host, port, wirePath(path), "GET"}, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{refusal.Malformed}, args...)...)
}

// plainText refuses what URL parsers strip, replace or take for a slash.
func plainText(raw string) error {
	if len(raw) > maxURL {
		return malformed("longer than %d bytes", maxURL)
	}
	if !utf8.ValidString(raw) {
		return malformed("not UTF-8")
	}
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c <= ' ' || c == 0x7f:
			return malformed("white space or a control character")
		case c == '\\' && i < pathEnd(raw):
			return malformed("a backslash")
		}
	}
	return nil
}

// pathEnd is where the query or fragment begins; a backslash there is text.
func pathEnd(raw string) int {
	if i := strings.IndexAny(raw, "?#"); i >= 0 {
		return i
	}
	return len(raw)
}

// splitScheme cuts the scheme off and makes sure that it is one of ours.
func splitScheme(raw string) (scheme, rest string, err error) {
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok || scheme == "" {
		return "", "", malformed("no scheme; write https://host/path")
	}
	scheme = strings.ToLower(scheme)
	for i, c := range scheme {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", c)) {
			return "", "", malformed("no scheme; write https://host/path")
		}
	}
	if defaultPort(scheme) == 0 {
		return "", "", fmt.Errorf("%w: only http, https, ws and wss", refusal.BadScheme)
	}
	return scheme, rest, nil
}

// splitAuthority takes host[:port]. Userinfo is refused: what stands before an
// @ is where a careless reader thinks the URL goes.
func splitAuthority(authority string, port int) (string, int, error) {
	if strings.Contains(authority, "@") {
		return "", 0, malformed("user name or password before the host")
	}
	host := authority
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		host = authority[:colon]
		if digits := authority[colon+1:]; digits != "" {
			var err error
			if port, err = parsePort(digits); err != nil {
				return "", 0, err
			}
		}
	}
	host, err := normalHost(host)
	return host, port, err
}

func parsePort(digits string) (int, error) {
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, malformed("the port isn't a number")
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > 65535 || len(digits) > 5 {
		return 0, malformed("the port isn't between 1 and 65535")
	}
	return n, nil
}

// wirePath is a URL's path as a browser sends it: never empty, and everything
// that isn't ASCII percent-encoded.
func wirePath(path string) string {
	if path == "" {
		return "/"
	}
	var b strings.Builder
	for _, c := range []byte(path) {
		if c < utf8.RuneSelf {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ParseAuthority reads the host:port of a CONNECT or of a Host header, as
// strictly as ParseURL. A port of 0 means that one must be given.
func ParseAuthority(hostport string, port int) (host string, _ int, err error) {
	if err := plainText(hostport); err != nil {
		return "", 0, err
	}
	if strings.ContainsAny(hostport, "/?#") {
		return "", 0, malformed("not host:port")
	}
	host, port, err = splitAuthority(hostport, port)
	if err == nil && port == 0 {
		err = malformed("no port")
	}
	return host, port, err
}

// HostPort is t's host and port as one CONNECT would name them.
func (t Target) HostPort() string { return net.JoinHostPort(t.Host, strconv.Itoa(t.Port)) }
