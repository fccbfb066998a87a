package scope

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

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
	if !utf8.ValidString(host) { // idna would read each bad byte as U+FFFD
		return "", malformed("the host isn't UTF-8")
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
