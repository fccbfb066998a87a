package scope

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ImportROE makes a scope of a roe.json's machine_enforcement (spec section 4).
// Its entries are compared by host alone, so an imported rule has every port;
// what a scope can't keep exactly is an error, and so is every key that isn't
// known to be about something else. An empty in_scope denies everything.
//
// An entry is a string, or {"target": …, "type": auto|host|ip|cidr|domain-glob}:
// a host, a host:port, *.host, an address, a CIDR block, or a URL prefix, which
// means its scheme, its port and what lies below its path.
func ImportROE(name string, data []byte) (*Scope, error) {
	root, err := document(name, data)
	if err != nil {
		return nil, err
	}
	r := &reader{file: name}
	s := r.roe(root)
	if r.err != nil {
		return nil, r.err
	}
	return s.sealed(), nil
}

// WithEngagement is the same scope for another engagement.
func (s *Scope) WithEngagement(engagement string) (*Scope, error) {
	if !engagementName.MatchString(engagement) {
		return nil, &Error{File: "--engagement", Msg: "must be 1 to 128 letters, digits, _ or -"}
	}
	renamed := *s
	renamed.engagement = engagement
	return renamed.sealed(), nil
}

// unnamed is the engagement of a roe.json that gives none. No run is started
// under it by accident: it has to be said again at the start.
const unnamed = "imported"

func (r *reader) roe(root *node) *Scope {
	if !r.want(root, "", aMap) {
		return nil
	}
	s := &Scope{engagement: unnamed}
	for _, key := range []string{"engagement", "engagement_id", "engagement_name"} {
		if n := root.field(key); n != nil && n.kind == aString && engagementName.MatchString(n.text) {
			s.engagement = n.text
			break
		}
	}
	const key = "machine_enforcement"
	block := root.field(key)
	if block == nil {
		r.fail(root, key, "missing; without it nothing says what a machine should enforce")
		return nil
	}
	known := []string{
		"in_scope", "out_of_scope", "forbidden_destinations", "allow_cloud_metadata", "authorized_windows", "blackout_windows",
		"mode", "forbidden_command_patterns", "allow_sensitive_tlds", "max_concurrent_connections", "min_inter_request_delay_ms",
	}
	var authorized, blackout []Window
	sensitive := false
	r.mapping(block, key, known, func(f field, key string) {
		v := f.value
		switch f.key {
		case "in_scope":
			s.allow = r.roeRules(v, key, "allow", nil)
		case "out_of_scope", "forbidden_destinations":
			s.deny = r.roeRules(v, key, "deny", s.deny)
		case "allow_cloud_metadata":
			s.allowMetadata = r.want(v, key, aBool) && v.text == "true"
		case "allow_sensitive_tlds":
			sensitive = r.want(v, key, aBool) && v.text == "true"
		case "authorized_windows":
			authorized = r.windows(v, key)
		case "blackout_windows":
			blackout = r.windows(v, key)
		default:
			r.unkept(f, key)
		}
	})
	r.window(s, block, authorized, blackout)
	r.sensitive(s, block, sensitive)
	s.pruned()
	return s
}

// unkept takes a key that a scope has no word for only where it asks nothing.
func (r *reader) unkept(f field, key string) {
	v := f.value
	switch f.key {
	case "mode":
		if v.text != "enforce" {
			r.fail(v, key, `a scope always enforces; only "enforce" can be kept`)
		}
	case "forbidden_command_patterns":
		if v.kind != aNull && (v.kind != aList || len(v.items) > 0) {
			r.fail(v, key, "a scope can't keep patterns of commands; keep them where commands run, and leave the key out here")
		}
	default:
		if v.kind != aNull && !(v.kind == aNumber && v.text == "0") {
			r.fail(v, key, "a scope can't keep a rate; leave the key out")
		}
	}
}

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
		out.index = len(rules)
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

func (r *reader) windows(n *node, key string) (list []Window) {
	if n.kind == aNull || !r.want(n, key, aList) {
		return nil
	}
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", key, i)
		var start, end *node
		switch {
		case item.kind == aList && len(item.items) == 2:
			start, end = item.items[0], item.items[1]
		case item.kind == aMap:
			r.mapping(item, at, []string{"start", "end"}, func(field, string) {})
			start, end = item.field("start"), item.field("end")
		}
		if start == nil || end == nil {
			r.fail(item, at, `a window is {"start": …, "end": …} or a pair of times`)
			return nil
		}
		w := Window{r.time(start, at+".start"), r.time(end, at+".end")}
		if !w.NotAfter.After(w.NotBefore) {
			r.fail(item, at, "the window ends before it starts")
		}
		list = append(list, w)
	}
	return list
}

// window keeps what is authorised and not blacked out, which has to be one
// unbroken span: a scope has one window.
func (r *reader) window(s *Scope, block *node, authorized, blackout []Window) {
	slices.SortFunc(authorized, func(a, b Window) int { return a.NotBefore.Compare(b.NotBefore) })
	spans := []Window{{}}
	for i, w := range authorized {
		last := &spans[len(spans)-1]
		switch {
		case i == 0:
			*last = w
		case w.NotBefore.After(last.NotAfter):
			spans = append(spans, w)
		case w.NotAfter.After(last.NotAfter):
			last.NotAfter = w.NotAfter
		}
	}
	for _, b := range blackout {
		var rest []Window
		for _, w := range spans {
			rest = append(rest, w.without(b)...)
		}
		spans = rest
	}
	switch {
	case r.err != nil:
	case len(spans) == 0:
		r.fail(block, "machine_enforcement.blackout_windows", "they leave nothing of the authorized time")
	case len(spans) > 1:
		r.fail(block, "machine_enforcement", "the windows leave %d separate spans of time and a scope has one; import one roe.json per span", len(spans))
	default:
		s.window = spans[0]
	}
}

// without is w less b: nothing, w itself, one end of it, or both.
func (w Window) without(b Window) []Window {
	overlaps := b.NotAfter.After(w.NotBefore) && (w.NotAfter.IsZero() || b.NotBefore.Before(w.NotAfter))
	if !overlaps {
		return []Window{w}
	}
	var rest []Window
	if b.NotBefore.After(w.NotBefore) {
		rest = append(rest, Window{w.NotBefore, b.NotBefore})
	}
	if w.NotAfter.IsZero() || b.NotAfter.Before(w.NotAfter) {
		rest = append(rest, Window{b.NotAfter, w.NotAfter})
	}
	return rest
}

// sensitiveTLDs are denied by a roe.json that doesn't say otherwise.
var sensitiveTLDs = []string{"gov", "mil", "edu", "int"}

func (r *reader) sensitive(s *Scope, block *node, allowed bool) {
	if allowed {
		return
	}
	for i := range s.allow {
		h := s.allow[i].host
		tld := h.name[strings.LastIndexByte(h.name, '.')+1:]
		if slices.Contains(sensitiveTLDs, tld) {
			r.fail(cmp.Or(block.field("in_scope"), block), "machine_enforcement.in_scope",
				"%s is under .%s, which roe.json denies unless allow_sensitive_tlds is true", h, tld)
		}
	}
}

// pruned drops what a deny rule stands over: a roe.json often lists a host both
// ways, and there the denial wins silently.
func (s *Scope) pruned() {
	s.allow = slices.DeleteFunc(s.allow, func(a rule) bool {
		return slices.ContainsFunc(s.deny, func(d rule) bool { return d.covers(&a) })
	})
	for _, list := range [][]rule{s.allow, s.deny} {
		for i := range list {
			list[i].index = i
		}
	}
}
