package scope

import (
	"net/netip"
	"slices"
	"time"

	"chaperone/internal/refusal"
)

const noRule = "no rule"

// question is a request as rules are asked about it.
type question struct {
	host    string
	addr    netip.Addr // of a literal host
	port    int
	schemes schemes // one; for a tunnel every one that it may carry
	path    pathView
	method  string
	tunnel  bool // path and method aren't known
}

// ask turns t into a question. A Target that ParseURL can't have made is
// malformed: the matcher repairs nothing.
func ask(t Target) (question, bool) {
	host, err := normalHost(bracketed(t.Host))
	if err != nil || t.Port < 1 || t.Port > 65535 {
		return question{}, false
	}
	q := question{host: host, port: t.Port, schemes: schemeOf(t.Scheme), path: viewPath(t.Path), method: t.Method}
	q.addr, _ = netip.ParseAddr(host)
	return q, true
}

// Decide judges one request at one moment. Its code, where the answer is no, is
// one of malformed, scheme, window, denied_by_rule, metadata, no_rule, port,
// method, path and address.
func (s *Scope) Decide(t Target, at time.Time) Decision {
	q, ok := ask(t)
	if !ok {
		return Decision{Code: refusal.Malformed, Rule: noRule}
	}
	if q.schemes == 0 {
		return Decision{Code: refusal.BadScheme, Rule: noRule}
	}
	return s.decide(q, at)
}

func (s *Scope) decide(q question, at time.Time) Decision {
	if d, ok := s.outside(at); ok {
		return d
	}
	if r, code := s.denies(q); r != nil {
		return Decision{Code: code, Rule: r.String(), Fix: "remove " + r.String() + ": a deny rule always wins"}
	}
	if d, ok := s.metadata(metadataHost(q.host) || q.addr.IsValid() && metadataAddress(q.addr)); ok {
		return d
	}
	miss := near{code: refusal.NoRule}
	for i := range s.allow {
		r := &s.allow[i]
		code := r.admits(q)
		if code == refusal.Allowed {
			return Decision{Allowed: true, Code: refusal.Allowed, Rule: r.String()}
		}
		miss.consider(r, code)
	}
	return miss.decision(q, s.argued)
}

func (s *Scope) outside(at time.Time) (Decision, bool) {
	switch {
	case s.window.Contains(at):
		return Decision{}, false
	case at.Before(s.window.NotBefore):
		return Decision{Code: refusal.OutsideWindow, Rule: "not_before", Fix: "the scope begins at " + stamp(s.window.NotBefore) + "; set not_before earlier"}, true
	}
	return Decision{Code: refusal.OutsideWindow, Rule: "not_after", Fix: "the scope ended at " + stamp(s.window.NotAfter) + "; set not_after later"}, true
}

func (s *Scope) metadata(is bool) (Decision, bool) {
	if !is || s.allowMetadata {
		return Decision{}, false
	}
	return Decision{Code: refusal.Metadata, Rule: "allow_metadata", Fix: "set allow_metadata: true, and name the address in a rule"}, true
}

// denies finds the deny rule that q meets. A path that can't be judged meets
// every deny rule with paths.
func (s *Scope) denies(q question) (*rule, refusal.Code) {
	for i := range s.deny {
		r := &s.deny[i]
		if !r.matchesHost(q.host, q.addr) || !r.matchesPort(q.port, q.schemes) || q.schemes&^r.schemes != 0 {
			continue
		}
		switch {
		case q.tunnel && r.conditional():
		case !q.tunnel && !r.matchesMethod(q.method):
		case !q.tunnel && r.paths != nil && !q.path.sound:
			return r, refusal.BadPath
		case q.tunnel || r.matchesPath(q.path):
			return r, refusal.DeniedByRule
		}
	}
	return nil, ""
}

// admits is refusal.Allowed, or the first thing about q that the allow rule
// doesn't have.
func (r *rule) admits(q question) refusal.Code {
	switch {
	case !r.matchesHost(q.host, q.addr):
		if q.addr.IsValid() && r.host.kind == network && r.host.prefix.Contains(q.addr) {
			return refusal.BadAddress // a wide network doesn't name special addresses
		}
		return refusal.NoRule
	case r.schemes&q.schemes == 0:
		return refusal.BadScheme
	case !r.matchesPort(q.port, r.schemes&q.schemes):
		return refusal.BadPort
	case q.tunnel:
		return refusal.Allowed
	case !r.matchesMethod(q.method):
		return refusal.BadMethod
	case r.paths != nil && (!q.path.sound || !r.matchesPath(q.path)):
		return refusal.BadPath
	}
	return refusal.Allowed
}

// LimitsMethods reports whether some rule looks at methods, so that headers
// which override the method mustn't reach a server.
func (s *Scope) LimitsMethods() bool {
	limits := func(r rule) bool { return r.methods != nil }
	return slices.ContainsFunc(s.allow, limits) || slices.ContainsFunc(s.deny, limits)
}

// ActionAllowed reports whether the scope's actions admit this one. launch and
// close touch no page and are always admitted.
func (s *Scope) ActionAllowed(action string) bool {
	return s.actions == nil || action == "launch" || action == "close" || slices.Contains(s.actions, action)
}

// NamesAction reports whether the scope's actions name this one, which is more
// than allowing it: some actions stay off after a state import unless named.
func (s *Scope) NamesAction(action string) bool { return slices.Contains(s.actions, action) }
