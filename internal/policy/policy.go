// Package policy decides what may be done on a person's behalf, before any of it
// is done, and keeps the receipt of each decision (spec/attended-control.md,
// sections 6 and 7; spec/product.md, `chaperone policy`).
//
// The language is Cedar: a forbid always wins, and what no permit allows is
// denied. A request is who asks (a person, or an agent that acts for one), what
// for (observe, local-ui-mutation, account-mutation, launch), of what (a tool of
// our own pages, a tool of another page, an engagement) and in which
// circumstances. schema.cedarschema names all of it; default.cedar is what decides
// where the operator has no file.
//
// It contains
//
//	policy.go    actions, levels, decisions
//	request.go   a request, and the resources that there are
//	parse.go     Parse, the one border of a policy file
//	text.go      what the text of a file may be made of, and where a word stands
//	rule.go      one rule: its name, annotations and declared arguments
//	literal.go   the names inside a rule, held to what can exist
//	schema.go    the entity types, and rules held to them
//	argument.go  declared arguments: their types, and JSON read as them
//	entity.go    a request in Cedar's terms
//	decide.go    Decide, the one judgement
//	possible.go  the same with arguments that aren't known (leases, replay)
//	lint.go      rules that can never decide anything, and traps
//	cases.go     a file of cases with the answers that a person expects
//	state.go     a receipt's states and moves
//	receipt.go   Admit: the decision, written before anything is sent
//	use.go       Use and Drop: a receipt is good for one claim
//	facts.go     what replay needs, sealed
//	replay.go    recorded decisions judged by another file
//	sweep.go     expiry and retention
//	check.go     the invariants; history.go holds rows to the log
//
// How a confirmation's level is found: the request is judged at each level that
// its action knows, as if the person had confirmed it so; the answer is the lowest
// level from which on all are allowed. A permit's @require_confirmation("passkey")
// is not allowed below that level, and of several permits that match the strictest
// holds. So a rule may look at context.confirmation, and a stronger confirmation
// never loses what a weaker one has.
//
// What it never does: it never lets a request through because it couldn't judge
// it. A rule that fails in evaluation, a panic, a set that isn't there: the answer
// is policy_unavailable, and there is no switch for that. A name that nothing can
// have is policy_denied. It never reads a request's text into an error, a log or an
// audit record, and never stores an argument: a receipt has the request's digest.
//
// Floor: durable authority.
package policy

import (
	"slices"

	"chaperone/internal/refusal"
)

// Action is what a request is for.
type Action string

// The four actions. The first three are the mutation classes of a tool.
const (
	Observe         Action = "observe"           // read
	LocalUIMutation Action = "local-ui-mutation" // changes what the page shows
	AccountMutation Action = "account-mutation"  // changes what is stored, or has effects elsewhere
	Launch          Action = "launch"            // starts an owned browser
)

// Actions lists them all.
func Actions() []Action { return []Action{Observe, LocalUIMutation, AccountMutation, Launch} }

// OfClass answers the action of a tool's mutation class (section 2): read is
// observe; a class that doesn't exist is the heaviest.
func OfClass(mutationClass string) Action {
	switch mutationClass {
	case "read":
		return Observe
	case string(LocalUIMutation):
		return LocalUIMutation
	}
	return AccountMutation
}

// Level is how a person confirms a request. Levels are ordered: AtLeast compares.
type Level string

const (
	// None asks nobody.
	None Level = "none"
	// VisibleClick is a click on a visible dialog; never called human approval.
	VisibleClick Level = "visible_click"
	// Passkey is an assertion with user verification over the exact request.
	Passkey Level = "passkey"
)

// levels in their order.
var levels = []Level{None, VisibleClick, Passkey}

// AtLeast tells whether l is a level and no weaker than other.
func (l Level) AtLeast(other Level) bool {
	mine, theirs := slices.Index(levels, l), slices.Index(levels, other)
	return mine >= 0 && theirs >= 0 && mine >= theirs
}

// levels answers those that an action knows, weakest first: a read is never
// confirmed, and a mutation never goes without (section 2).
func (a Action) levels() []Level {
	switch a {
	case Observe:
		return levels[:1]
	case LocalUIMutation, AccountMutation:
		return levels[1:]
	case Launch:
		return levels
	}
	return nil
}

// Decision is one judgement.
type Decision struct {
	Allow bool
	// Code is "" where it is allowed, else policy_denied or policy_unavailable.
	Code refusal.Code
	// Level is what the person must confirm with; None where it isn't allowed.
	Level Level
	// PolicyVersion is the digest of the policies that decided, "" where there were
	// none.
	PolicyVersion string
	// Rules are those that decided, in the file's order: the forbids that matched,
	// else the permits; empty where nothing matched. Of policy_unavailable those
	// that failed.
	Rules []string
}

// refused answers a decision that isn't allowed.
func refused(version string, code refusal.Code, rules []string) Decision {
	return Decision{Code: code, Level: None, PolicyVersion: version, Rules: rules}
}

// Err is nil where it is allowed, else the code.
func (d Decision) Err() error {
	switch {
	case d.Allow:
		return nil
	case d.Code == "":
		return refusal.PolicyUnavailable // the zero value decides nothing
	}
	return d.Code
}
