// Package refusal holds the machine codes of every refusal that leaves
// Chaperone. A [Code] is three things at once: the word on the wire, a sentinel
// for errors.Is, and an error, so that one declaration serves the decoder, the
// caller and the person who reads a log:
//
//	fmt.Errorf("lease %s: %w", id, refusal.LeaseExpired)
//
// A code says what was refused and never why in the caller's own words: text,
// arguments, results and credentials don't travel through it. Codes are stable;
// one that was published is never given another meaning.
//
// Floor: wire contract.
package refusal

import "errors"

// Code is a stable machine code. It is an error whose text is the code itself.
type Code string

// Error returns the code as it stands on the wire.
func (c Code) Error() string { return string(c) }

// Of returns the first Code in err's tree, or "" where there is none.
func Of(err error) Code {
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return ""
}

// Codes of the owned-browser-v1 wire (spec/owned-browser.md, sections 1 and 2).
const (
	UnauthorizedAdapter  Code = "UNAUTHORIZED_ADAPTER"   // 401, 403, 409
	IncompatibleRuntime  Code = "INCOMPATIBLE_RUNTIME"   // 426, and any bad handshake
	BrowserProtocolError Code = "BROWSER_PROTOCOL_ERROR" // 400, 404, 405, 413, 415
	BrowserDisconnected  Code = "BROWSER_DISCONNECTED"   // transport lost; said by clients
	BrowserTimeout       Code = "BROWSER_TIMEOUT"        // 504, or no answer by the deadline
	BrowserScopeDenied   Code = "BROWSER_SCOPE_DENIED"   // a main-frame navigation was denied
	BrowserActionFailed  Code = "BROWSER_ACTION_FAILED"  // every other failure of an action
)

// Reasons that MCP, CLI and REST answers add to a failed action (section 1).
const (
	ScopeDenied     Code = "scope_denied"     // the scope denied it; the rule is named beside
	TimedOut        Code = "timeout"          // its deadline ended first
	NotFound        Code = "not_found"        // no such element, tool or file
	Covered         Code = "covered"          // another element receives the events
	Stale           Code = "stale"            // the reference's node or document is gone
	TabGone         Code = "tab_gone"         // that tab was closed
	TabCrashed      Code = "tab_crashed"      // that tab's renderer died
	DialogOpen      Code = "dialog_open"      // a held dialog must be answered first
	TooLarge        Code = "too_large"        // the result is over its limit
	NoBrowser       Code = "no_browser"       // not launched, or ended
	SentUnconfirmed Code = "sent_unconfirmed" // sent, but nothing tells whether it took effect
	Failed          Code = "failed"           // anything else
	Cancelled       Code = "cancelled"        // stopped at the caller's wish
	Paused          Code = "paused"           // a person has paused the browser
)

// Codes of a scope decision (section 4).
const (
	Allowed        Code = "allowed"
	NoRule         Code = "no_rule"        // nothing in the scope allows it
	DeniedByRule   Code = "denied_by_rule" // a deny rule matched
	BadScheme      Code = "scheme"         // the rule doesn't allow this scheme
	BadPort        Code = "port"           // the rule doesn't allow this port
	BadMethod      Code = "method"         // the rule doesn't allow this method
	BadPath        Code = "path"           // the rule doesn't allow this path
	BadAddress     Code = "address"        // the name resolves to a special address
	Metadata       Code = "metadata"       // a cloud metadata address
	OwnListener    Code = "own_listener"   // one of this node's own listeners
	OutsideWindow  Code = "window"         // before not_before or after not_after
	Malformed      Code = "malformed"      // no URL, host or path that can be judged
	BadServerName  Code = "sni"            // the TLS server name isn't the CONNECT host
	ActionNotNamed Code = "action"         // the scope's actions leave this one out
	Unresolvable   Code = "unresolvable"   // the name has no address
	Unreachable    Code = "unreachable"    // allowed, but nothing answered
	TooMany        Code = "too_many"       // over a limit of the run
)

// Codes of starting, running and ending a box (section 5).
const (
	PrerequisiteMissing Code = "prerequisite_missing" // doctor names the command that mends it
	OverLimit           Code = "over_limit"           // the run was over a resource limit
	EngineExited        Code = "engine_exited"        // the browser ended by itself
	Ended               Code = "ended"                // the run was ended on purpose
)

// Codes of documents and values at a border.
const (
	BadDocument Code = "bad_document" // a file or message that doesn't decode
	TooDeep     Code = "too_deep"     // nested deeper than its budget
)

// Codes of the durable authority.
const (
	Conflict        Code = "conflict"         // another state than the caller read
	Replayed        Code = "replayed"         // a one-use thing used again
	Unknown         Code = "unknown"          // no such record
	Expired         Code = "expired"          // past its expiry
	NewerDatabase   Code = "newer_database"   // written by a newer version
	DatabaseBusy    Code = "database_busy"    // another process holds it
	NotReviewed     Code = "not_reviewed"     // the operator has not reviewed it yet
	OlderDatabase   Code = "older_database"   // lacks a table; serve migrates it
	NothingVerified Code = "nothing_verified" // an empty log proves nothing
	Tampered        Code = "tampered"         // the log doesn't verify
)

// Codes of signing in and of the owner's own requests (spec/portal-tools.md,
// spec/attended-control.md section 4).
const (
	SessionExpired Code = "session_expired"  // 401: no session, or one that has ended
	OtherPerson    Code = "other_person"     // the step-up answered for somebody else
	StepUpRequired Code = "step_up_required" // 403: a fresh, strong sign-in is needed
	CSRFDenied     Code = "csrf_denied"      // 403: no or a wrong CSRF token
	OriginDenied   Code = "origin_denied"    // 403: another Origin, or none
)

// Codes of a sign-in that wasn't accepted. They tell which check failed, for the
// operator; the page says only that it didn't work.
const (
	BadState      Code = "bad_state"      // a redirect's state that nobody began, or another browser's
	BadIssuer     Code = "bad_issuer"     // the iss parameter or claim isn't the provider's
	BadToken      Code = "bad_token"      // signature, algorithm, audience, azp, nonce or expiry
	BadACR        Code = "bad_acr"        // the level isn't one that is accepted
	BadAuthTime   Code = "bad_auth_time"  // absent, no whole seconds, too old, or before the flow
	ProviderError Code = "provider_error" // the provider refused, or answered nothing usable
	Inactive      Code = "inactive"       // introspection says that the token is no longer good
	BadCredential Code = "bad_credential" // a passkey, recovery code or link that isn't accepted
	Disabled      Code = "disabled"       // the person may not sign in any more
)

// Reasons for which a session ended.
const (
	SignedOut Code = "signed_out" // by the person
	LoggedOut Code = "logged_out" // by the provider's word
	Revoked   Code = "revoked"    // by the person, from another session
	Replaced  Code = "replaced"   // by a new sign-in in the same browser
)

// Codes of bearer authorization (spec/portal-tools.md, section 3).
const (
	BadRedirect       Code = "bad_redirect"       // a redirect URI that no client may have, or not this one
	BadResource       Code = "bad_resource"       // a token for another resource than this server's
	InsufficientScope Code = "insufficient_scope" // the token lacks a scope that the tool needs
	HeaderMismatch    Code = "header_mismatch"    // a header tells another thing than the body
)

// Reasons for which a channel is closed, or never opens (spec/attended-control.md,
// section 4). Beside them stand revoked, signed_out and replaced, above.
const (
	NoSession          Code = "no_session"          // nobody is signed in, or not any more
	NoArm              Code = "no_arm"              // the person armed nothing
	ArmExpired         Code = "arm_expired"         // the grant's, the arm's or the token's time is over
	ArmMismatch        Code = "arm_mismatch"        // another person, tab, page or catalog than was armed
	ArmReplayed        Code = "arm_replayed"        // a one-use arm shown again
	Killed             Code = "killed"              // a kill switch stands over it
	RevalidationFailed Code = "revalidation_failed" // the provider didn't say yes
)

// Codes of attended calls (section 6): what a caller is answered, and how a call
// ended.
const (
	ArgumentsInvalid   Code = "arguments_invalid"             // 422: they don't meet the tool's input schema
	ResultInvalid      Code = "result_invalid"                // 422: the page's result doesn't meet the output schema
	InvalidRequest     Code = "invalid_request"               // 400
	Unauthenticated    Code = "unauthenticated"               // 401
	PolicyDenied       Code = "policy_denied"                 // 403
	AuthorityLost      Code = "authority_lost"                // 403: arm, token, role or grant is gone
	LeaseExpired       Code = "lease_expired"                 // 403
	LeaseRevoked       Code = "lease_revoked"                 // 403
	Forbidden          Code = "forbidden"                     // 403: no such thing of this caller's
	UnknownTool        Code = "unknown_tool"                  // 404
	UnknownDocument    Code = "unknown_document"              // 404
	UnknownCall        Code = "unknown_call"                  // 404
	RequestConflict    Code = "request_conflict"              // 409: the same id with other content
	StaleGeneration    Code = "stale_generation"              // 409: the page registered anew
	CatalogStale       Code = "catalog_stale"                 // 409: other tools than the caller saw
	RateLimited        Code = "rate_limited"                  // 429
	AttentionBudget    Code = "attention_budget"              // 429: too many prompts for one person
	Busy               Code = "busy"                          // 429: eight prompts wait already
	ChannelUnavailable Code = "browser_channel_unavailable"   // 503: the page isn't there
	FenceUnavailable   Code = "dispatch_fence_unavailable"    // 503: the fence couldn't be written
	OutcomeUnavailable Code = "durable_outcome_unavailable"   // 503: the outcome couldn't be read
	AuditUnavailable   Code = "audit_unavailable"             // 503
	PolicyUnavailable  Code = "policy_unavailable"            // 503
	UserDenied         Code = "user_denied"                   // the person said no
	ConfirmExpired     Code = "confirmation_expired"          // nobody answered the prompt in time
	CallCancelled      Code = "browser_call_cancelled"        // its caller or its lease's end cancelled it
	NotDispatched      Code = "browser_call_not_dispatched"   // nothing was sent to the page
	ExecutionFailed    Code = "browser_execution_failed"      // the page's tool failed
	WindowExpired      Code = "reconciliation_window_expired" // unknown for ever
)
