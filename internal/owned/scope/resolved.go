package scope

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"chaperone/internal/refusal"
)

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
	if s.argued {
		return Decision{Code: refusal.BadAddress, Rule: d.Rule, Fix: fmt.Sprintf("use a scope file (--scope) with  - {host: %s, resolves_to: [%s]}", q.host, quoted(addr))}
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
