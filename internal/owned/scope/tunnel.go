package scope

import (
	"slices"
	"time"

	"chaperone/internal/refusal"
)

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

// NeedsCA reports whether some tunnel of this scope has to be opened, for which
// the proxy then makes a certificate authority of the run.
func (s *Scope) NeedsCA() bool {
	needs := func(r rule) bool {
		one := r.schemes & tlsSchemes
		return one != 0 && (r.conditional() || one != tlsSchemes)
	}
	return slices.ContainsFunc(s.allow, needs) || slices.ContainsFunc(s.deny, needs)
}
