// Package scope is the one matcher of what a run may reach (spec
// owned-browser.md, section 4). The egress proxy, the browser's request
// interception, `chaperone scope check` and every test ask it, so that none of
// them can be of another opinion.
//
// A [Scope] is read once from a YAML or JSON file ([Parse]), from --allow
// arguments ([FromHosts]) or from a roe.json ([ImportROE]), and never changes
// afterwards: [Scope.Digest] names it for good. Three questions are asked of it:
//
//   - [Scope.Decide] judges one request, of which scheme, host, port, path and
//     method are known;
//   - [Scope.DecideTunnel] judges a CONNECT, of which only host and port are
//     known, and tells whether the tunnel has to be opened to be judged;
//   - [Scope.DecideAddress] judges the address that a name has resolved to.
//
// Whatever isn't allowed is denied, a deny rule always wins, and what can't be
// judged (userinfo, a backslash, a zone id, a doubly encoded path) is refused
// and never repaired. The package resolves nothing, dials nothing and reads no
// clock: the caller brings the address and the time.
//
// Floor: wire contract.
package scope

import (
	"fmt"
	"net/netip"
	"time"

	"chaperone/internal/refusal"
)

// Scope is an approved scope. Its methods may be called from any goroutine.
type Scope struct {
	engagement    string
	allow, deny   []rule
	actions       []string // sorted; nil: every action
	allowMetadata bool
	window        Window
	digest        string
	argued        bool // made of --allow arguments; only refusals' remedies differ
}

// Window is the span in which a scope allows anything. A zero time is no limit.
type Window struct {
	NotBefore time.Time // the first instant that is inside
	NotAfter  time.Time // the first instant that is outside again
}

// Contains reports whether at is inside the window.
func (w Window) Contains(at time.Time) bool {
	return !at.Before(w.NotBefore) && (w.NotAfter.IsZero() || at.Before(w.NotAfter))
}

// Decision is the answer to one question.
type Decision struct {
	Allowed bool
	Code    refusal.Code // refusal.Allowed, or why not
	Rule    string       // "allow[2] *.example.com", "deny[0] admin.example.com", "no rule"
	Fix     string       // one line that a person would change to widen the scope; "" where nothing helps
}

// Record is what is audited of a decision. It never holds a path, a query or a
// body.
type Record struct {
	At      time.Time
	Layer   string // "proxy" or "browser"
	Host    string // as judged: lower case, A-labels, no trailing dot
	Port    int
	Scheme  string     // "" for a tunnel whose content isn't known yet
	Method  string     // "CONNECT" for a tunnel
	Address netip.Addr // the resolved address, where there is one
	Decision
}

// Error is why a scope file wasn't read. Line and Column count from 1, 0 where
// the whole file is meant.
type Error struct {
	File         string
	Line, Column int
	Key          string // the offending key, as in `allow[1].ports`; may be ""
	Msg          string // what is wrong and what would be right
}

// Error returns "file:line:column: key: message".
func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Key != "" {
		s += ": " + e.Key
	}
	return s + ": " + e.Msg
}

// Unwrap makes every Error a refusal.BadDocument.
func (e *Error) Unwrap() error { return refusal.BadDocument }

// Engagement is the engagement that the scope was approved for.
func (s *Scope) Engagement() string { return s.engagement }

// Digest is "sha256:" and 64 hex digits over the scope's canonical form: two
// files that mean the same have the same digest.
func (s *Scope) Digest() string { return s.digest }

// Window is when the scope allows anything.
func (s *Scope) Window() Window { return s.window }
