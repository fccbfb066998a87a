package controlv1

import "chaperone/internal/refusal"

// Close is a WebSocket close code (section 3).
type Close int

// The close codes of a channel.
const (
	CloseGoingAway Close = 1013 // the authority is going away; try later
	CloseTooLarge  Close = 1009 // a frame over its limit
	CloseFault     Close = 1011 // anything else
	CloseInvalid   Close = 4400 // a message that doesn't decode, or out of order
	CloseTrust     Close = 4403 // authority is missing or over; its reason says which
	CloseTimeout   Close = 4408 // what had to come didn't in time
	CloseRate      Close = 4429 // too many frames
)

// TrustReasons are the reasons of a 4403, in the spec's order.
var TrustReasons = []refusal.Code{
	refusal.NoSession, refusal.NoArm, refusal.ArmExpired, refusal.ArmMismatch, refusal.ArmReplayed,
	refusal.Revoked, refusal.SignedOut, refusal.Killed, refusal.RevalidationFailed,
}

// Trust answers the reason that a 4403 gives for why. What isn't among
// TrustReasons is told as revoked: a page learns no more than these words.
func Trust(why refusal.Code) refusal.Code {
	for _, r := range TrustReasons {
		if r == why {
			return r
		}
	}
	switch why {
	case refusal.LoggedOut, refusal.SessionExpired:
		return refusal.SignedOut
	case refusal.Expired:
		return refusal.ArmExpired
	}
	return refusal.Revoked
}
