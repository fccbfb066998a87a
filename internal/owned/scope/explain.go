package scope

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explain tells the scope in plain sentences, for the person who approves it.
// at is the moment at which the window is looked at.
func (s *Scope) Explain(at time.Time) []string {
	lines := []string{fmt.Sprintf("Scope of engagement %s, digest %s.", s.engagement, s.digest)}
	lines = append(lines, s.explainWindow(at))
	if len(s.allow) == 0 {
		lines = append(lines, "Nothing is allowed: there is no allow rule.")
	}
	for i := range s.allow {
		lines = append(lines, fmt.Sprintf("Allowed by allow[%d]: %s.", i, s.allow[i].sentence()))
	}
	for i := range s.deny {
		lines = append(lines, fmt.Sprintf("Denied by deny[%d], whatever allows it: %s.", i, s.deny[i].sentence()))
	}
	lines = append(lines, "Everything else is denied.")
	lines = append(lines, s.explainInterception()...)
	lines = append(lines, s.explainAddresses())
	if s.actions != nil {
		lines = append(lines, fmt.Sprintf("Of the browser's actions only these: %s (and launch, close).", strings.Join(s.actions, ", ")))
	} else {
		lines = append(lines, "Every browser action is allowed.")
	}
	return lines
}

func (s *Scope) explainWindow(at time.Time) string {
	from, to := s.window.NotBefore, s.window.NotAfter
	state := "it is inside now"
	if !s.window.Contains(at) {
		state = "it is OUTSIDE now, so everything is denied"
	}
	switch {
	case from.IsZero() && to.IsZero():
		return "It has no time window."
	case from.IsZero():
		return fmt.Sprintf("It ends at %s; %s.", stamp(to), state)
	case to.IsZero():
		return fmt.Sprintf("It begins at %s; %s.", stamp(from), state)
	}
	return fmt.Sprintf("It holds from %s to %s; %s.", stamp(from), stamp(to), state)
}

func (r *rule) sentence() string {
	var who string
	switch r.host.kind {
	case exactHost:
		who = "the host " + r.host.name
	case below:
		who = fmt.Sprintf("every host below %s, at any depth, but not %s itself", r.host.name, r.host.name)
	case literal:
		who = "the address " + r.host.String()
	case network:
		who = "URLs whose host is an address in " + r.host.String()
		if r.list == "deny" {
			who = "the addresses in " + r.host.String() + ", also when a name resolves to one"
		}
	}
	parts := []string{who, strings.Join(r.schemes.names(), ", "), r.portsSentence()}
	if r.paths != nil {
		var texts []string
		for _, p := range r.paths {
			texts = append(texts, p.text)
		}
		parts = append(parts, "paths "+strings.Join(texts, " "))
	}
	if r.methods != nil {
		parts = append(parts, "methods "+strings.Join(r.methods, " "))
	}
	if r.resolves != nil {
		var texts []string
		for _, p := range r.resolves {
			texts = append(texts, p.String())
		}
		parts = append(parts, "may resolve to "+strings.Join(texts, " "))
	}
	return strings.Join(parts, "; ")
}

func (r *rule) portsSentence() string {
	switch names := portNames(r.ports); {
	case names == nil && r.schemes&tlsSchemes == 0:
		return "port 80"
	case names == nil && r.schemes&plainSchemes == 0:
		return "port 443"
	case names == nil:
		return "ports 80 (http, ws) and 443 (https, wss)"
	case names[0] == "*":
		return "every port"
	case len(names) == 1 && !strings.Contains(names[0], "-"):
		return "port " + names[0]
	default:
		return "ports " + strings.Join(names, ", ")
	}
}

// explainInterception names the hosts whose TLS is opened, and why.
func (s *Scope) explainInterception() []string {
	if !s.NeedsCA() {
		return []string{"No TLS is opened: host and port decide, and the proxy sees no page."}
	}
	var lines []string
	for _, r := range slices.Concat(s.allow, s.deny) {
		tls := r.schemes & tlsSchemes
		var why []string
		if r.paths != nil {
			why = append(why, "paths")
		}
		if r.methods != nil {
			why = append(why, "methods")
		}
		if tls != tlsSchemes {
			why = append(why, "schemes")
		}
		if tls != 0 && why != nil {
			lines = append(lines, fmt.Sprintf("TLS to %s is opened by the proxy, with a key of the run that nothing else trusts, because %s looks at %s.",
				r.host, strings.Fields(r.String())[0], strings.Join(why, " and ")))
		}
	}
	return lines
}

func (s *Scope) explainAddresses() string {
	text := "Names that resolve to a private, loopback or other special address are denied unless a rule names that address"
	if s.allowMetadata {
		return text + "; cloud metadata is allowed where a rule names it."
	}
	return text + "; cloud metadata is denied in any case."
}
