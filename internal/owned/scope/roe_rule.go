package scope

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// roeRules appends the entries of one list, each once.
func (r *reader) roeRules(n *node, key, list string, rules []rule) []rule {
	if n.kind == aNull || !r.want(n, key, aList) {
		return rules
	}
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", key, i)
		target, typ := item, "auto"
		if item.kind == aMap {
			if target = item.field("target"); target == nil {
				r.fail(item, at, "an entry is a string or has a target")
				return rules
			}
			r.mapping(item, at, []string{"target", "type", "description", "notes"}, func(f field, key string) {
				if f.key == "type" && r.want(f.value, key, aString) {
					typ = f.value.text
				}
			})
		}
		if !r.want(target, at, aString) {
			return rules
		}
		out, err := roeRule(target.text, typ, list)
		if err != nil {
			r.fail(target, at, "%v", err)
			return rules
		}
		if out.index = len(rules); out.index == maxRules {
			r.fail(target, at, "a scope has at most %d rules to allow and as many to deny; *.NAME and a cidr stand for many hosts", maxRules)
			return rules
		}
		if !slices.ContainsFunc(rules, func(earlier rule) bool { return earlier.covers(&out) }) {
			rules = append(rules, out)
		}
	}
	return rules
}

// roeRule reads one entry. typ has to agree with what the text is.
func roeRule(text, typ, list string) (rule, error) {
	r := rule{list: list, schemes: allSchemes, ports: everyPort}
	form, err := r.readEntry(text)
	if err != nil {
		return r, err
	}
	if typ != "auto" && typ != form && !(form == "ip" && (typ == "cidr" || typ == "host")) {
		return r, fmt.Errorf("%q is of type %s, not %s", text, form, typ)
	}
	return r, nil
}

func (r *rule) readEntry(text string) (form string, err error) {
	if strings.Contains(text, "://") {
		return "url", r.readPrefix(text)
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		r.host = hostPattern{kind: network, prefix: p.Masked()} // roe.json takes host bits for granted
		return "cidr", nil
	}
	if strings.Contains(text, "/") {
		return "", fmt.Errorf("%q is neither a host nor a CIDR block; a path needs its scheme, as in https://host/path", text)
	}
	host := text
	if _, err := netip.ParseAddr(text); err != nil {
		if colon := strings.LastIndexByte(text, ':'); colon > strings.LastIndexByte(text, ']') {
			s, ok := parseSpan(text[colon+1:])
			if !ok {
				return "", fmt.Errorf("%q: the port must be a number from 1 to 65535", text)
			}
			host, r.ports = text[:colon], []span{s}
		}
	}
	r.host, err = parseHost(host)
	switch r.host.kind {
	case below:
		return "domain-glob", err
	case literal:
		return "ip", err
	}
	return "host", err
}

// readPrefix reads a URL as its scheme with the WebSockets of it, its port, and
// what lies at and below its path.
func (r *rule) readPrefix(text string) error {
	if strings.ContainsAny(text, "?#*") {
		return fmt.Errorf("%q: a URL prefix with a query, a fragment or a * can't be kept", text)
	}
	t, err := ParseURL(text)
	if err != nil {
		return fmt.Errorf("%q: %v", text, err)
	}
	if r.host, err = parseHost(t.Host); err != nil {
		return err
	}
	r.ports = []span{{t.Port, t.Port}}
	r.schemes = schemeOf(t.Scheme)
	switch r.schemes {
	case http:
		r.schemes = plainSchemes
	case https:
		r.schemes = tlsSchemes
	}
	path := strings.TrimSuffix(t.Path, "/")
	if path == "" {
		return nil
	}
	for _, p := range []string{path, path + "/**"} {
		pattern, bad := compilePath(p)
		if bad != "" {
			return fmt.Errorf("%q: %s", text, bad)
		}
		r.paths = append(r.paths, pattern)
	}
	return nil
}
