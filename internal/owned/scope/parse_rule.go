package scope

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// rules reads allow or deny. Nothing at all, or an empty list, is no rule.
func (r *reader) rules(f field) []rule {
	if f.value.kind == aNull {
		return nil
	}
	if !r.want(f.value, f.key, aList) {
		return nil
	}
	if len(f.value.items) > maxRules {
		r.fail(f.value.items[maxRules], fmt.Sprintf("%s[%d]", f.key, maxRules), "a scope has at most %d rules to allow and as many to deny; *.NAME and a cidr stand for many hosts", maxRules)
		return nil
	}
	list := make([]rule, 0, len(f.value.items))
	for i, item := range f.value.items {
		list = append(list, r.rule(item, f.key, i))
	}
	return list
}

func (r *reader) rule(n *node, list string, index int) rule {
	out := rule{list: list, index: index, schemes: allSchemes}
	if list == "deny" {
		out.ports = everyPort // what is denied is denied at every port unless the rule says which
	}
	key := fmt.Sprintf("%s[%d]", list, index)
	known := []string{"host", "cidr", "ports", "schemes", "paths", "methods"}
	if list == "allow" {
		known = append(known, "resolves_to")
	}
	r.mapping(n, key, known, func(f field, key string) {
		switch f.key {
		case "host":
			out.host = r.host(f.value, key)
		case "cidr":
			out.host = hostPattern{kind: network, prefix: r.prefix(f.value, key)}
		case "ports":
			out.ports = r.ports(f.value, key)
		case "schemes":
			out.schemes = r.schemes(f.value, key)
		case "paths":
			out.paths = r.paths(f.value, key)
		case "methods":
			out.methods = r.methods(f.value, key)
		case "resolves_to":
			r.list(f.value, key, func(item *node, key string) { out.resolves = append(out.resolves, r.prefix(item, key)) })
			slices.SortFunc(out.resolves, netip.Prefix.Compare)
		}
	})
	r.whole(n, key, &out)
	return out
}

// whole checks what only the keys of a rule together show.
func (r *reader) whole(n *node, key string, out *rule) {
	host, cidr := n.field("host"), n.field("cidr")
	switch {
	case r.err != nil:
	case host == nil && cidr == nil:
		r.fail(n, key, "a rule needs a host or a cidr")
	case host != nil && cidr != nil:
		r.fail(cidr, key+".cidr", "a rule has a host or a cidr, not both")
	case out.resolves != nil && out.host.kind != exactHost && out.host.kind != below:
		r.fail(n.field("resolves_to"), key+".resolves_to", "only a name resolves; an address is itself")
	case out.schemes&plainSchemes == out.schemes&ws && out.schemes&tlsSchemes == out.schemes&wss &&
		out.methods != nil && !slices.Contains(out.methods, "GET"):
		r.fail(n.field("methods"), key+".methods", "a WebSocket is opened by GET, so this rule never matches")
	}
}

func (r *reader) host(n *node, key string) hostPattern {
	if !r.want(n, key, aString) {
		return hostPattern{}
	}
	h, err := parseHost(n.text)
	if err != nil {
		r.fail(n, key, "%v", err)
	}
	return h
}

// parseHost reads a rule's host: an exact name, a literal address, or *.name.
func parseHost(text string) (hostPattern, error) {
	name, glob := strings.CutPrefix(text, "*.")
	switch {
	case strings.Contains(name, "*"):
		return hostPattern{}, fmt.Errorf("%q: the only glob is a leading *. as in \"*.example.com\"", text)
	case strings.ContainsAny(name, "/?#@"):
		return hostPattern{}, fmt.Errorf("%q is no host; write the name alone, and ports, schemes and paths as keys of their own", text)
	}
	if addr, err := netip.ParseAddr(name); err == nil && addr.Is6() {
		name = "[" + name + "]"
	} else if strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return hostPattern{}, fmt.Errorf("%q is no host; a port goes under ports", text)
	}
	host, err := normalHost(name)
	if err != nil {
		return hostPattern{}, fmt.Errorf("%q is no host: %v", text, err)
	}
	addr, err := netip.ParseAddr(host)
	switch isAddr := err == nil; {
	case isAddr && glob:
		return hostPattern{}, fmt.Errorf("%q: no glob over an address; write a cidr", text)
	case isAddr && strings.TrimSuffix(strings.Trim(strings.ToLower(name), "[]"), ".") != host && addr.Is4() && !strings.HasPrefix(name, "["):
		return hostPattern{}, fmt.Errorf("%q is an odd spelling of %s; write that", text, host)
	case isAddr:
		return hostPattern{kind: literal, prefix: netip.PrefixFrom(addr, addr.BitLen())}, nil
	case glob:
		if suffix, _ := publicsuffix.PublicSuffix(host); suffix == host {
			return hostPattern{}, fmt.Errorf("%q: %s is a public suffix, whose names belong to many owners; name the domains", text, host)
		}
		return hostPattern{kind: below, name: host}, nil
	}
	return hostPattern{kind: exactHost, name: host}, nil
}

func (r *reader) prefix(n *node, key string) netip.Prefix {
	if !r.want(n, key, aString) {
		return netip.Prefix{}
	}
	p, err := parsePrefix(n.text)
	if err != nil {
		r.fail(n, key, "%v", err)
	}
	return p
}

// parsePrefix reads an address or a CIDR block without stray host bits.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is no CIDR block; write it as in 10.1.0.0/24", text)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%q has host bits set; write %s", text, p.Masked())
	}
	return p, nil
}

func (r *reader) ports(n *node, key string) []span {
	if n.kind != aList {
		if n.kind == aString && n.text == "*" {
			return everyPort
		}
		r.fail(n, key, `must be a list as in [443, "9000-9010"], or "*" for every port`)
		return nil
	}
	var list []span
	r.list(n, key, func(item *node, key string) {
		s, ok := parseSpan(item.text)
		if item.kind != aString && item.kind != aNumber || !ok {
			r.fail(item, key, `%q is no port; write a number from 1 to 65535, "LOW-HIGH" or "*"`, item.text)
		}
		list = append(list, s)
	})
	return mergeSpans(list)
}

func parseSpan(text string) (span, bool) {
	if text == "*" {
		return everyPort[0], true
	}
	low, high, isRange := strings.Cut(text, "-")
	a, err := parsePort(low)
	if err != nil || strconv.Itoa(a) != low {
		return span{}, false
	}
	if !isRange {
		return span{a, a}, true
	}
	b, err := parsePort(high)
	return span{a, b}, err == nil && strconv.Itoa(b) == high && a <= b
}

func (r *reader) schemes(n *node, key string) (set schemes) {
	r.list(n, key, func(item *node, key string) {
		one := schemeOf(item.text)
		if r.want(item, key, aString) && one == 0 {
			r.fail(item, key, "%q is no scheme here; known: http, https, ws, wss", item.text)
		}
		set |= one
	})
	return set
}

func (r *reader) paths(n *node, key string) (list []pathPattern) {
	r.list(n, key, func(item *node, key string) {
		if !r.want(item, key, aString) {
			return
		}
		p, bad := compilePath(item.text)
		if bad != "" {
			r.fail(item, key, "%q: %s", item.text, bad)
		}
		list = append(list, p)
	})
	slices.SortFunc(list, func(a, b pathPattern) int { return strings.Compare(a.text, b.text) })
	return list
}

func (r *reader) methods(n *node, key string) (list []string) {
	r.list(n, key, func(item *node, key string) {
		switch {
		case !r.want(item, key, aString):
		case item.text == "CONNECT" || item.text == "TRACE":
			r.fail(item, key, "%s is no request that a page makes", item.text)
		case !methodToken.MatchString(item.text):
			r.fail(item, key, "%q is no method; methods are upper case, as in GET", item.text)
		}
		list = append(list, item.text)
	})
	slices.Sort(list)
	return list
}
