// Package ownedv1 is the protocol owned-browser-v1 (spec/owned-browser.md,
// sections 1 and 2): its descriptor, its three requests and answers, the
// parameters and results of the thirteen actions, and the refusal each fault
// earns.
//
// Contents: [Descriptor] is what a host publishes for one run;
// [HandshakeRequest], [ActionRequest] and [CancelRequest] are what a client
// sends and [HandshakeResponse], [ActionResponse] and [CancelResponse] what it
// gets back; [Action] is one action with its defaults applied; the …Result
// structs marshal to exactly the keys of section 1. [Bad] is a refusal with its
// HTTP status, its code and the field at fault.
//
// A message is decoded once, strictly, into types that can't hold what is
// invalid: duplicate, unknown, missing and case-folded names, null, booleans or
// 1.0 in an integer's place, trailing data, invalid UTF-8 and anything over
// [MaxMessage] are refused. Where two things are wrong, the spec's order
// decides: the envelope (400) before the protocol's name (426) before the
// binding (403, [Identity.Check]).
//
// The package has no state, clock, socket or goroutine: a caller passes the
// time. It never coerces a value, and no error of it repeats one: an error
// names a field, because fields hold credentials and page text.
//
// Floor: wire contract.
package ownedv1

import "slices"

// Protocol is the value of every message's "protocol".
const Protocol = "owned-browser-v1"

// Limits of section 2.
const (
	MaxMessage      = 8 << 20           // bytes of any message, either way
	MaxResult       = MaxMessage - 1024 // bytes of a result: leaves its envelope room
	MaxBootstrapMS  = 60_000            // a descriptor's expiry, from now
	MaxSessionMS    = 3600_000          // a session's expiry, from now
	MaxDeadlineMS   = 30_000            // an action's deadline, from now
	MaxSequence     = 1<<53 - 1
	UnixEndpoint    = "http://127.0.0.1:1" // with transport unix: only the HTTP authority
	ContentType     = "application/json"
	TransportUnix   = "unix"
	TransportDirect = "loopback"
)

// The thirteen actions.
const (
	ActionLaunch      = "launch"
	ActionGoto        = "goto"
	ActionClick       = "click"
	ActionType        = "type"
	ActionScroll      = "scroll"
	ActionScreenshot  = "screenshot"
	ActionEvalJS      = "eval_js"
	ActionConsoleLogs = "console_logs"
	ActionPageSource  = "page_source"
	ActionPDF         = "pdf"
	ActionListTabs    = "list_tabs"
	ActionSwitchTab   = "switch_tab"
	ActionClose       = "close"
)

// Actions lists the thirteen actions in the spec's order.
var Actions = []string{
	ActionLaunch, ActionGoto, ActionClick, ActionType, ActionScroll, ActionScreenshot, ActionEvalJS,
	ActionConsoleLogs, ActionPageSource, ActionPDF, ActionListTabs, ActionSwitchTab, ActionClose,
}

// Capabilities lists what a host of this protocol must offer: the thirteen
// actions, "cancel" and "scope-enforced". Their order on the wire doesn't matter.
var Capabilities = append(slices.Clone(Actions), "cancel", "scope-enforced")

// A Verb is one of the protocol's three requests.
type Verb string

// The three requests, each a POST to [Verb.Path].
const (
	Handshake Verb = "handshake"
	DoAction  Verb = "action"
	Cancel    Verb = "cancel"
)

// Path answers the URL path of the verb.
func (v Verb) Path() string { return "/v1/browser/" + string(v) }
