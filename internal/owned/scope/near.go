package scope

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"chaperone/internal/refusal"
)

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

// decision is the refusal that names n. Of a scope made of --allow arguments the
// remedy is one more of them: there is no file to edit.
func (n *near) decision(q question, argued bool) Decision {
	if argued && n.rule == nil {
		return Decision{Code: refusal.NoRule, Rule: noRule, Fix: argument(q)}
	}
	if argued && (n.code == refusal.BadPort || n.code == refusal.BadAddress) {
		return Decision{Code: n.code, Rule: n.rule.String(), Fix: argument(q)}
	}
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

// argument is the --allow that would admit q's host and port.
func argument(q question) string {
	host := q.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("add --allow %s:%d", host, q.port)
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
