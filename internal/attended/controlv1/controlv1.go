// Package controlv1 is the protocol webmcp.control.v1 (spec/attended-control.md,
// sections 1 to 6): its digests, its tool descriptors and catalogs, the frames of
// the channel both ways, the private form of a channel's binding, and the inputs
// and receipts of browser_control.
//
// It contains
//
//	element.go   ID, Word, Digest, Generation, Value: what fields are made of
//	strict.go    the strict decoder; bad.go: what a refusal says
//	tool.go      a tool's descriptor; catalog.go: an ordered set of them
//	digest.go    the digests of section 1
//	page.go      frames that the page sends; authority.go: those that it gets
//	binding.go   the exact binding of a channel, and its private form
//	action.go    what a caller asks; receipt.go: what it is answered
//	outcome.go   statuses, effects, and which effect a result tells
//	close.go     close codes and their reasons
//
// A message is decoded once, strictly, into types that can't hold what is
// invalid: fields of opaque element types whose only makers check them, and sum
// types where one field decides which others there are. Duplicate, unknown,
// missing and case-folded names, null for what is absent, floats and unsafe
// integers, trailing data, invalid UTF-8, and anything over its limit are
// refused. Encoding refuses a zero element, so that what is sent can be decoded.
//
// A fault of the protocol closes the channel; a fault of one call fails that call
// and leaves the channel up. [Bad] tells which.
//
// The package has no state, clock, socket or goroutine, and no error of it
// repeats a value. No type of it can hold a cookie, a token or a raw arm receipt.
//
// Floor: wire contract.
package controlv1

// Protocol is the value of every frame's "protocol".
const Protocol = "webmcp.control.v1"

// Limits of sections 2 to 6.
const (
	MaxFrame     = 65_536 // bytes of a frame, and of its canonical envelope
	MaxArguments = 49_152 // canonical bytes of a call's arguments, at both ends alike
	MaxResult    = 1_500  // canonical bytes of a result's value
	MaxTools     = 64     // of a catalog, and of a lease
	MaxRoles     = 16     // of a tool
	MaxRole      = 64     // bytes of one
	MaxVersion   = 64     // bytes of a tool's version
	MaxSource    = 256    // bytes of a tool's source_ref
	MaxKeys      = 64     // credentials that a passkey confirmation may name
	MaxAssertion = 16_384 // bytes of a passkey's assertion
	MaxInt       = 1<<53 - 1
)

// Times of sections 4 to 6, in milliseconds.
const (
	GrantMS        = 60_000  // a recent-auth grant, at most
	ArmMS          = 900_000 // an arm, at most
	LeaseMS        = 900_000 // a lease, at most
	DefaultLeaseMS = 300_000
	LateMS         = 30_000 // how long a result may come late
)
