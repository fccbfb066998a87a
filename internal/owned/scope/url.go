package scope

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

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

// maxHost bounds an international name before it is mapped, in bytes.
const maxHost = 1 << 10

// hostProfile maps as browsers do (UTS 46, non-transitional) and verifies what
// comes out.
var hostProfile = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(),
	idna.CheckHyphens(false), idna.CheckJoiners(true), idna.StrictDomainName(false))

// normalHost answers the host that a browser would connect to: a name in lower
// case and A-labels without trailing dot, or an address in its one spelling.
func normalHost(host string) (string, error) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", malformed("the brackets don't hold an IPv6 address (zone ids are refused)")
		}
		return addr.Unmap().String(), nil
	}
	name, err := asciiHost(host)
	if err != nil {
		return "", err
	}
	name = strings.TrimSuffix(name, ".")
	if addr, numeric, err := browserIPv4(name); numeric {
		return addr, err
	}
	return name, plainName(name)
}

// asciiHost is host in lower case and A-labels.
func asciiHost(host string) (string, error) {
	ascii := true
	for i := 0; i < len(host) && ascii; i++ {
		ascii = host[i] < utf8.RuneSelf
	}
	lower := strings.ToLower(host)
	if ascii && !strings.HasPrefix(lower, "xn--") && !strings.Contains(lower, ".xn--") {
		return lower, nil
	}
	if strings.ContainsRune(host, '%') {
		return "", malformed("a percent sign in the host")
	}
	if len(host) > maxHost { // Punycode takes time by the square of it
		return "", malformed("the host is too long")
	}
	name, err := hostProfile.ToASCII(host)
	if err != nil {
		return "", malformed("the host isn't a valid international name")
	}
	return name, nil
}

// plainName checks a name label by label.
func plainName(name string) error {
	if name == "" || len(name) > 253 {
		return malformed("no host, or one over 253 bytes")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return malformed("a label of the host is empty or over 63 bytes")
		}
		for _, c := range []byte(label) {
			letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
			if !letter {
				return malformed("the host holds something else than letters, digits, - and _")
			}
		}
	}
	return nil
}

// browserIPv4 reads a host whose last label is a number the way browsers do:
// up to four parts, each decimal, octal (0…) or hexadecimal (0x…), the last one
// filling what is left. numeric tells that the host is an address or nothing.
func browserIPv4(name string) (addr string, numeric bool, err error) {
	parts := strings.Split(name, ".")
	last := parts[len(parts)-1]
	if hex, ok := strings.CutPrefix(last, "0x"); last == "" || strings.Trim(last, "0123456789") != "" && !(ok && strings.Trim(hex, "0123456789abcdef") == "") {
		return "", false, nil
	}
	bad := malformed("a host that ends in a number must be an IPv4 address")
	if len(parts) > 4 {
		return "", true, bad
	}
	var value uint64
	for i, part := range parts {
		n, ok := ipv4Part(part)
		rest := uint(8 * (4 - i)) // bits from here to the end
		switch {
		case !ok, i < len(parts)-1 && n > 255, i == len(parts)-1 && n >= 1<<rest:
			return "", true, bad
		case i < len(parts)-1:
			value |= n << (rest - 8)
		default:
			value |= n
		}
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}).String(), true, nil
}

func ipv4Part(part string) (uint64, bool) {
	base := 10
	switch {
	case part == "":
		return 0, false
	case strings.HasPrefix(part, "0x"):
		if part = part[2:]; part == "" {
			return 0, true
		}
		base = 16
	case len(part) > 1 && part[0] == '0':
		base = 8
	}
	if strings.ContainsAny(part, "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(part, base, 40)
	return n, err == nil
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
