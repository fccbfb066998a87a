package scope

import (
	"errors"
	"net/netip"
	"time"

	"chaperone/internal/refusal"
)

type rule struct{}

var errUnbuilt = errors.New("not built yet")

// Target is one request as the scope sees it.
type Target struct {
	Scheme string // http, https, ws or wss
	Host   string // lower case, A-labels, no trailing dot; an IPv6 address without brackets
	Port   int
	Path   string // escaped, as on the wire; no query
	Method string
}

// Parse reads a scope file, YAML or JSON. Its errors are *Error.
func Parse(name string, data []byte) (*Scope, error) { return nil, errUnbuilt }

// FromHosts makes a scope of --allow HOST[:PORT] arguments.
func FromHosts(engagement string, hosts ...string) (*Scope, error) { return nil, errUnbuilt }

// ImportROE makes a scope of a roe.json's machine_enforcement.
func ImportROE(name string, data []byte) (*Scope, error) { return nil, errUnbuilt }

// ParseURL reads a URL strictly; its error is refusal.BadScheme for a well-formed URL of another scheme, else refusal.Malformed.
func ParseURL(raw string) (Target, error) { return Target{}, refusal.Malformed }

// YAML is the scope as a file that Parse reads back to the same digest.
func (s *Scope) YAML() []byte { return nil }

// ActionAllowed reports whether the scope's actions admit it.
func (s *Scope) ActionAllowed(action string) bool { return false }

// NamesAction reports whether the scope's actions name it.
func (s *Scope) NamesAction(action string) bool { return false }

// Decide judges a request.
func (s *Scope) Decide(t Target, at time.Time) Decision {
	return Decision{Code: refusal.NoRule, Rule: "no rule"}
}

// DecideTunnel judges a CONNECT.
func (s *Scope) DecideTunnel(host string, port int, at time.Time) (d Decision, intercept bool) {
	return Decision{Code: refusal.NoRule, Rule: "no rule"}, false
}

// DecideAddress judges the address that t's host resolved to.
func (s *Scope) DecideAddress(t Target, addr netip.Addr, at time.Time) Decision {
	return Decision{Code: refusal.NoRule, Rule: "no rule"}
}

// NeedsCA reports whether some tunnel has to be opened.
func (s *Scope) NeedsCA() bool { return false }
