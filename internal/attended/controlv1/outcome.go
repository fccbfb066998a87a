package controlv1

import "chaperone/internal/refusal"

// Status is what a receipt says of a call.
type Status string

// Statuses of a receipt (section 6).
const (
	StatusPending    Status = "pending_confirmation"
	StatusDispatched Status = "dispatched"
	StatusSucceeded  Status = "succeeded"
	StatusFailed     Status = "failed"
	StatusCancelled  Status = "cancelled"
	StatusUnknown    Status = "unknown"
	StatusDenied     Status = "denied"
)

// Statuses lists them.
var Statuses = []Status{StatusPending, StatusDispatched, StatusSucceeded, StatusFailed, StatusCancelled, StatusUnknown, StatusDenied}

// Effect is what is known of a call's effect. Unknown never claims a rollback.
type Effect string

// Effects.
const (
	NoEffect      Effect = "none"
	Committed     Effect = "browser_reported_committed"
	UnknownEffect Effect = "unknown"
)

// ParseEffect reads one.
func ParseEffect(s string) (Effect, error) {
	switch e := Effect(s); e {
	case NoEffect, Committed, UnknownEffect:
		return e, nil
	}
	return "", invalid("", "isn't an effect")
}

// EffectOf answers what a page's own result tells of the effect: a read has none,
// a mutation that succeeded was reported committed, and one that failed is unknown
// unless its code says that nothing began.
func EffectOf(c Class, succeeded bool, code refusal.Code) Effect {
	switch {
	case !c.Mutates():
		return NoEffect
	case succeeded:
		return Committed
	case NothingBegan(code):
		return NoEffect
	}
	return UnknownEffect
}

// NothingBegan tells whether a page's error code says that the tool didn't begin.
func NothingBegan(code refusal.Code) bool {
	switch code {
	case "not_started", refusal.UnknownTool, refusal.ArgumentsInvalid, refusal.StaleGeneration, refusal.Busy, refusal.NotDispatched:
		return true
	}
	return false
}

// Level is how a call was confirmed. A visible click is recorded as that and
// never called human approval.
type Level string

// Levels.
const (
	VisibleClick Level = "visible_click"
	Passkey      Level = "passkey"
)

// ParseLevel reads one.
func ParseLevel(s string) (Level, error) {
	switch l := Level(s); l {
	case VisibleClick, Passkey:
		return l, nil
	}
	return "", invalid("", "isn't a level")
}

// Telemetry is what became of a call's export. It is never invented.
type Telemetry string

// States of the export.
const (
	Queued        Telemetry = "queued"
	Recorded      Telemetry = "recorded"
	NotConfigured Telemetry = "not_configured"
	Unavailable   Telemetry = "unavailable"
)

// ParseTelemetry reads one.
func ParseTelemetry(s string) (Telemetry, error) {
	switch t := Telemetry(s); t {
	case Queued, Recorded, NotConfigured, Unavailable:
		return t, nil
	}
	return "", invalid("", "isn't a state of an export")
}
