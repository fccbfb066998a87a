package scope

import (
	"cmp"
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
