package scope

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
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
	return miss.decision(q)
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

// near keeps the rule that came closest, to name it in a refusal.
type near struct {
	rule *rule
	code refusal.Code
}

// nearness orders codes by how much of a request a rule had already taken.
var nearness = []refusal.Code{refusal.NoRule, refusal.BadAddress, refusal.BadScheme, refusal.BadPort, refusal.BadMethod, refusal.BadPath}

func (n *near) consider(r *rule, code refusal.Code) {
	if slices.Index(nearness, code) > slices.Index(nearness, n.code) {
		n.rule, n.code = r, code
	}
}

func (n *near) decision(q question) Decision {
	if n.rule == nil {
		return Decision{Code: refusal.NoRule, Rule: noRule, Fix: "add under allow:  - " + entry(q)}
	}
	var what string
	switch n.code {
	case refusal.BadScheme:
		what = fmt.Sprintf("add %s to schemes of ", strings.Join(q.schemes.names(), ", "))
	case refusal.BadPort:
		what = fmt.Sprintf("add %d to ports of ", q.port)
	case refusal.BadMethod:
		what = fmt.Sprintf("add %s to methods of ", token(q.method))
	case refusal.BadAddress:
		return Decision{Code: n.code, Rule: n.rule.String(), Fix: "add under allow:  - " + entry(q)}
	default:
		if !q.path.sound {
			return Decision{Code: n.code, Rule: n.rule.String()} // no rule with paths can hold it
		}
		what = "add this path to paths of " // never the path itself: a Fix is audited
	}
	return Decision{Code: n.code, Rule: n.rule.String(), Fix: what + n.rule.String()}
}

// entry is the narrowest rule that a person would write for q's host and port.
func entry(q question) string {
	host := q.host
	if strings.Contains(host, ":") {
		host = `"` + host + `"`
	}
	if q.port == 80 && q.schemes&plainSchemes != 0 || q.port == 443 && q.schemes&tlsSchemes != 0 {
		return "host: " + host
	}
	return fmt.Sprintf("{host: %s, ports: [%d]}", host, q.port)
}

// token is a method as far as it is safe to show: a page chooses it freely.
func token(method string) string {
	if !methodToken.MatchString(method) {
		return "the method"
	}
	return method
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Tunnel is what may happen inside an allowed CONNECT.
type Tunnel struct {
	Decision
	TLS       bool // it may carry TLS: https or wss is allowed there
	Plain     bool // it may carry plain HTTP, each request judged: http or ws is allowed there
	Intercept bool // its TLS has to be opened, because path, method, or https against wss decides
}

// DecideTunnel judges a CONNECT to host:port, and tells whether its TLS has to
// be opened for the rest of the judgement.
func (s *Scope) DecideTunnel(host string, port int, at time.Time) (d Decision, intercept bool) {
	t := s.Tunnel(host, port, at)
	return t.Decision, t.Intercept
}

// Tunnel is DecideTunnel with everything that the proxy has to know.
func (s *Scope) Tunnel(host string, port int, at time.Time) Tunnel {
	q, ok := ask(Target{Scheme: "https", Host: host, Port: port})
	if !ok {
		return Tunnel{Decision: Decision{Code: refusal.Malformed, Rule: noRule}}
	}
	q.tunnel = true
	var open schemes
	var refused Decision
	var t Tunnel
	for i := range schemeNames {
		one := q
		one.schemes = 1 << i
		d := s.decide(one, at)
		switch {
		case d.Allowed:
			open |= one.schemes
			if !t.Allowed {
				t.Decision = d
			}
		case refused.Code == "" || nearer(d.Code, refused.Code):
			refused = d
		}
	}
	if open == 0 {
		t.Decision = refused
		return t
	}
	t.TLS, t.Plain = open&tlsSchemes != 0, open&plainSchemes != 0
	t.Intercept = t.TLS && (open&tlsSchemes != tlsSchemes || s.undecided(q, open&tlsSchemes))
	return t
}

// tunnelNearness orders the refusals of one tunnel's schemes by what helps a
// person most.
var tunnelNearness = []refusal.Code{refusal.NoRule, refusal.BadAddress, refusal.BadScheme, refusal.BadPort, refusal.DeniedByRule}

func nearer(a, b refusal.Code) bool {
	return slices.Index(tunnelNearness, a) > slices.Index(tunnelNearness, b)
}

// undecided reports whether host and port leave a request for these schemes
// open: no rule allows all of it, or a deny rule looks at its path or method.
func (s *Scope) undecided(q question, open schemes) bool {
	var settled schemes
	for i := range s.allow {
		r := &s.allow[i]
		one := q
		one.schemes = open
		if r.admits(one) != refusal.Allowed {
			continue
		}
		if !r.conditional() {
			settled |= r.schemes & open
		}
	}
	if settled != open {
		return true
	}
	return slices.ContainsFunc(s.deny, func(r rule) bool {
		return r.conditional() && r.schemes&open != 0 && r.matchesHost(q.host, q.addr) && r.matchesPort(q.port, open)
	})
}

// DecideAddress judges the address that t's host has resolved to. A t without
// Scheme means a tunnel.
func (s *Scope) DecideAddress(t Target, addr netip.Addr, at time.Time) Decision {
	return s.decideAddress(t, addr, false, at)
}

// DecideOwnAddress is DecideAddress for an address of this host's own
// interfaces, which is denied like a special one unless a rule names it exactly.
func (s *Scope) DecideOwnAddress(t Target, addr netip.Addr, at time.Time) Decision {
	return s.decideAddress(t, addr, true, at)
}

func (s *Scope) decideAddress(t Target, addr netip.Addr, own bool, at time.Time) Decision {
	var q question
	var d Decision
	opened := true
	if t.Scheme == "" {
		tunnel := s.Tunnel(t.Host, t.Port, at)
		d, opened = tunnel.Decision, tunnel.Intercept || !tunnel.TLS
		q, _ = ask(t)
		q.schemes, q.tunnel = allSchemes, true
	} else {
		d = s.Decide(t, at)
		q, _ = ask(t)
	}
	if !d.Allowed {
		return d
	}
	if addr.Zone() != "" || !addr.IsValid() {
		return Decision{Code: refusal.BadAddress, Rule: d.Rule}
	}
	if d, ok := s.metadata(metadataAddress(addr)); ok {
		return d
	}
	if r := s.deniesAddress(q, addr); r != nil {
		return Decision{Code: refusal.DeniedByRule, Rule: r.String(), Fix: "remove " + r.String() + ": a deny rule always wins"}
	}
	if _, isSpecial := special(addr); !isSpecial && !own {
		return d
	}
	for i := range s.allow {
		r := &s.allow[i]
		if r.admits(q) == refusal.Allowed && (opened || !r.conditional()) && r.namesAddress(q.host, addr, own) {
			return Decision{Allowed: true, Code: refusal.Allowed, Rule: r.String()}
		}
	}
	return Decision{Code: refusal.BadAddress, Rule: d.Rule, Fix: fmt.Sprintf("add resolves_to: [%s] to %s", quoted(addr), d.Rule)}
}

func quoted(addr netip.Addr) string {
	if addr.Is6() {
		return `"` + addr.String() + `"`
	}
	return addr.String()
}

// deniesAddress holds deny rules over addresses against what a name resolves
// to: whoever denies 10.0.0.0/8 means the machines there, however they are called.
func (s *Scope) deniesAddress(q question, addr netip.Addr) *rule {
	for _, a := range wrapped(addr) {
		if i := slices.IndexFunc(s.deny, func(r rule) bool {
			return q.tunnel && r.matchesHost(a.String(), a) && r.matchesPort(q.port, r.schemes)
		}); i >= 0 {
			return &s.deny[i] // whatever else it looks at: inside a tunnel nobody would
		}
		one := q
		one.host, one.addr = a.String(), a
		if r, _ := s.denies(one); r != nil {
			return r
		}
	}
	return nil
}

// LimitsMethods reports whether some rule looks at methods, so that headers
// which override the method mustn't reach a server.
func (s *Scope) LimitsMethods() bool {
	limits := func(r rule) bool { return r.methods != nil }
	return slices.ContainsFunc(s.allow, limits) || slices.ContainsFunc(s.deny, limits)
}

// NeedsCA reports whether some tunnel of this scope has to be opened, for which
// the proxy then makes a certificate authority of the run.
func (s *Scope) NeedsCA() bool {
	needs := func(r rule) bool {
		one := r.schemes & tlsSchemes
		return one != 0 && (r.conditional() || one != tlsSchemes)
	}
	return slices.ContainsFunc(s.allow, needs) || slices.ContainsFunc(s.deny, needs)
}

// ActionAllowed reports whether the scope's actions admit this one. launch and
// close touch no page and are always admitted.
func (s *Scope) ActionAllowed(action string) bool {
	return s.actions == nil || action == "launch" || action == "close" || slices.Contains(s.actions, action)
}

// NamesAction reports whether the scope's actions name this one, which is more
// than allowing it: some actions stay off after a state import unless named.
func (s *Scope) NamesAction(action string) bool { return slices.Contains(s.actions, action) }
