package scope

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// schemes is a set of the four schemes.
type schemes uint8

const (
	http schemes = 1 << iota
	https
	ws
	wss
	plainSchemes = http | ws
	tlsSchemes   = https | wss
	allSchemes   = plainSchemes | tlsSchemes
)

// schemeNames in the order of their bits.
var schemeNames = []string{"http", "https", "ws", "wss"}

func schemeOf(name string) schemes {
	if i := slices.Index(schemeNames, name); i >= 0 {
		return 1 << i
	}
	return 0
}

func (s schemes) names() []string {
	var list []string
	for i, name := range schemeNames {
		if s&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// span is a range of ports, both ends inside.
type span struct{ low, high int }

var everyPort = []span{{1, 65535}}

// hostKind is how a rule's host is compared.
type hostKind string

const (
	exactHost hostKind = "exact" // a name
	below     hostKind = "below" // *.name: any depth, never the name itself
	literal   hostKind = "literal"
	network   hostKind = "cidr"
)

// hostPattern is the host or cidr of a rule.
type hostPattern struct {
	kind   hostKind
	name   string       // of exact and below, without "*."
	prefix netip.Prefix // of literal (one address) and cidr
}

func (h hostPattern) String() string {
	switch h.kind {
	case below:
		return "*." + h.name
	case literal:
		return h.prefix.Addr().String()
	case network:
		return h.prefix.String()
	}
	return h.name
}

// covers reports whether h matches every host that other matches.
func (h hostPattern) covers(other hostPattern) bool {
	switch h.kind {
	case exactHost:
		return other.kind == exactHost && other.name == h.name
	case below:
		return other.kind == below && other.name == h.name ||
			(other.kind == exactHost || other.kind == below) && strings.HasSuffix(other.name, "."+h.name)
	}
	return (other.kind == literal || other.kind == network) &&
		h.prefix.Bits() <= other.prefix.Bits() && h.prefix.Contains(other.prefix.Addr())
}

// namesAll reports whether every address of an inner rule is also named by r,
// where r allows: a wide network doesn't name the special addresses inside it,
// so it doesn't stand for a narrower rule that does.
func (r *rule) namesAll(inner hostPattern) bool {
	p := inner.prefix
	return r.list == "deny" || !p.IsValid() || r.host == inner ||
		names(r.host.prefix, p.Addr()) && names(r.host.prefix, lastOf(p))
}

// lastOf is the last address of p.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// rule is one entry of allow or deny.
type rule struct {
	list     string // "allow" or "deny"
	index    int
	host     hostPattern
	ports    []span // sorted, disjoint; nil: 80 for http and ws, 443 for https and wss
	schemes  schemes
	paths    []pathPattern // nil: every path
	methods  []string      // sorted; nil: every method
	resolves []netip.Prefix
}

func (r *rule) String() string { return fmt.Sprintf("%s[%d] %s", r.list, r.index, r.host) }

// conditional reports whether the rule needs to see a request's path or method.
func (r *rule) conditional() bool { return r.paths != nil || r.methods != nil }

// matchesHost compares the host alone. For an allow rule a literal address has
// to be named (a wide network doesn't name special addresses); a deny rule
// means every address that it holds.
func (r *rule) matchesHost(host string, addr netip.Addr) bool {
	switch r.host.kind {
	case exactHost:
		return host == r.host.name
	case below:
		return !addr.IsValid() && strings.HasSuffix(host, "."+r.host.name)
	}
	if !addr.IsValid() {
		return false
	}
	if r.list == "deny" {
		return r.host.prefix.Contains(addr)
	}
	return names(r.host.prefix, addr)
}

func (r *rule) matchesPort(port int, s schemes) bool {
	if r.ports == nil {
		return port == 80 && s&plainSchemes != 0 || port == 443 && s&tlsSchemes != 0
	}
	return slices.ContainsFunc(r.ports, func(p span) bool { return p.low <= port && port <= p.high })
}

func (r *rule) matchesMethod(method string) bool {
	return r.methods == nil || slices.Contains(r.methods, method)
}

// matchesPath compares a sound path. A deny rule also holds for what a
// forgiving server would make of it.
func (r *rule) matchesPath(v pathView) bool {
	if r.paths == nil {
		return true
	}
	for _, p := range r.paths {
		if p.expr.MatchString(v.normal) {
			return true
		}
		if r.list == "deny" && slices.ContainsFunc(v.lax, p.expr.MatchString) {
			return true
		}
	}
	return false
}

// namesAddress reports whether the rule lets host resolve to a special address.
// own is set for an address of this host's interfaces that is public otherwise:
// only its exact naming counts.
func (r *rule) namesAddress(host string, addr netip.Addr, own bool) bool {
	_, isSpecial := special(addr)
	exact := own && !isSpecial
	named := func(p netip.Prefix) bool { return names(p, addr) && (!exact || p.IsSingleIP()) }
	switch r.host.kind {
	case literal, network:
		return named(r.host.prefix)
	case exactHost:
		if host == "localhost" && addr.IsLoopback() && !addr.Is4In6() {
			return true
		}
	}
	return slices.ContainsFunc(r.resolves, named)
}

// covers reports whether every request that other matches is matched by r, so
// that other, coming later, can never decide anything.
func (r *rule) covers(other *rule) bool {
	return r.host.covers(other.host) && r.namesAll(other.host) && r.coversPorts(other) && other.schemes&^r.schemes == 0 &&
		(r.paths == nil || other.paths != nil && coversPaths(r.paths, other.paths)) &&
		(r.methods == nil || other.methods != nil && containsAll(r.methods, other.methods)) &&
		(r.list == "deny" || containsAll(r.resolves, other.resolves))
}

func coversPaths(wide, narrow []pathPattern) bool {
	for _, n := range narrow {
		held := slices.ContainsFunc(wide, func(w pathPattern) bool {
			// A pattern without stars is a path, and can be matched like one.
			return w.text == n.text || w.text == "/**" || !strings.Contains(n.text, "*") && w.expr.MatchString(n.text)
		})
		if !held {
			return false
		}
	}
	return true
}

func containsAll[T comparable](wide, narrow []T) bool {
	for _, n := range narrow {
		if !slices.Contains(wide, n) {
			return false
		}
	}
	return true
}

func (r *rule) coversPorts(other *rule) bool {
	if other.ports == nil {
		return (other.schemes&plainSchemes == 0 || r.matchesPort(80, http)) &&
			(other.schemes&tlsSchemes == 0 || r.matchesPort(443, https))
	}
	if r.ports == nil { // by scheme: the other must stay at the default of all its schemes
		return other.schemes&tlsSchemes == 0 && slices.Equal(other.ports, []span{{80, 80}}) ||
			other.schemes&plainSchemes == 0 && slices.Equal(other.ports, []span{{443, 443}})
	}
	for _, o := range other.ports {
		// Spans are merged, so one span of r has to hold all of o.
		if !slices.ContainsFunc(r.ports, func(p span) bool { return p.low <= o.low && o.high <= p.high }) {
			return false
		}
	}
	return true
}

// mergeSpans sorts spans and joins those that touch.
func mergeSpans(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return a.low - b.low })
	var merged []span
	for _, s := range list {
		if last := len(merged) - 1; last >= 0 && s.low <= merged[last].high+1 {
			merged[last].high = max(merged[last].high, s.high)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}
