// Package session is the durable authority over sign-in: which browser is signed
// in as whom, until when, and how strongly (spec/attended-control.md section 4).
//
// It contains
//
//	session.go  what a session is and tells
//	state.go    the states of a session and of a flow, the two tables of moves
//	book.go     Begin, Find, StepUp, Holds: one look-up, and how an id is renewed
//	end.go      how sessions end, one by one, all others, and by expiry
//	flow.go     the one-use state of a redirect to the provider
//	next.go     where a redirect may lead afterwards
//	logout.go   back-channel logout, its replays and its tombstones
//	seal.go     what opens only to who shows the secret it was sealed under
//	check.go    the invariants, for audit verify and for every fault test
//
// A browser holds two secrets of 256 random bits: the cookie, which scripts can't
// read, and the key, which other sites can't send. Here only their SHA-256
// stands. The cookie is renewed at each sign-in and each step-up, and the old one
// is dead in the same transaction; the public handle (ID) stays, so that what was
// granted to a session is still its own afterwards.
//
// A session ends at the earliest of: half an hour without use, twelve hours after
// it began (a step-up doesn't move that), sign-out, revocation, and the provider's
// word. Find decides it at each use by the clock; nothing waits for a timer.
//
// Durable steps, and what a crash right after each leaves: a flow that was begun
// is claimed by nobody and expires; a flow that was claimed without a session
// leaves the person where they were, signed out, and they begin again; a session
// that began without its cookie having reached the browser ends idle.
//
// It never holds a token or a secret that the database alone could open, verifies
// no token, and decides nobody's rights.
//
// Floor: durable authority.
package session

import (
	"fmt"
	"slices"
	"time"

	"chaperone/internal/identity"
	"chaperone/internal/ref"
)

// Limits of a session's life.
const (
	Idle      = 30 * time.Minute // without use
	Absolute  = 12 * time.Hour   // from its beginning, whatever happens
	FreshTime = 5 * time.Minute  // how long a step-up is fresh
	touch     = time.Minute      // a use is written at most this often
)

// Facts is what a verified sign-in tells of a person.
type Facts struct {
	Actor, Name          string
	Issuer, Subject, SID string // SID: the provider's session, "" where it told none
	ACR                  string
	// AuthTime is when the person proved themselves at a level that a step-up
	// accepts. It is zero where the level is lower or the provider didn't tell:
	// then the session isn't fresh.
	AuthTime    time.Time
	Issued      time.Time // the token's iat; a logout that came after it kills the sign-in
	Recovery    bool      // by a recovery code; never fresh
	Roles       []string
	Agent       string    // a label of the User-Agent, for the person's own list
	AccessUntil time.Time // expiry of the access token; zero where there is none
	Tokens      Tokens
	// Replaces is the cookie that the browser had before, "" for none: its session
	// ends in the transaction that begins the new one.
	Replaces string
	// Origin is where the sign-in was begun, "" on this server's own: the session
	// counts there alone.
	Origin string
}

// Tokens are the provider's, for revalidation and for its logout. They never
// print, and at rest only the session's cookie opens them.
type Tokens struct{ ID, Access string }

// String keeps the tokens out of logs.
func (Tokens) String() string { return "session.Tokens" }

// GoString keeps the tokens out of %#v.
func (Tokens) GoString() string { return "session.Tokens" }

// Session is a sign-in that stands.
type Session struct {
	ID      string // public handle, 32 hex; no secret
	Browser ref.Browser
	Login   ref.Login // minted at each sign-in and step-up

	Tenant, Actor, Name  string
	Issuer, Subject, SID string
	ACR                  string
	AuthTime             time.Time // see Facts; never later than our own clock said
	Recovery             bool
	Roles                []string
	Generation           int64 // 1 at sign-in, one more at each step-up
	Agent                string
	Origin               string // that it counts on, "" for this server's own
	AccessUntil          time.Time

	Created, Used, IdleEnd, End time.Time

	cookieHash, keyHash string
	tokens              Tokens
}

// Principal answers who the session acts as.
func (s Session) Principal() (identity.Principal, error) {
	return identity.New(identity.Claims{Tenant: s.Tenant, Actor: s.Actor, Roles: s.Roles})
}

// Fresh tells whether a step-up (or a sign-in of the same strength) is younger
// than [FreshTime]. A recovery code never makes a session fresh.
func (s Session) Fresh(now time.Time) bool {
	return !s.Recovery && now.Before(s.FreshUntil())
}

// FreshUntil answers when the session stops being fresh; zero where it can't be.
func (s Session) FreshUntil() time.Time {
	if s.Recovery || s.AuthTime.IsZero() {
		return time.Time{}
	}
	return s.AuthTime.Add(FreshTime)
}

// Tokens answers the provider's tokens where the session was found by its cookie.
func (s Session) Tokens() Tokens { return s.tokens }

// String tells the handle alone.
func (s Session) String() string { return fmt.Sprintf("session %.8s…", s.ID) }

// GoString keeps what the session holds out of %#v.
func (s Session) GoString() string { return s.String() }

// over tells whether the session has ended by the clock.
func (s Session) over(now time.Time) bool {
	return !now.Before(s.IdleEnd) || !now.Before(s.End)
}

// idleEnd is when a session last used at used ends idle, at most its end.
func idleEnd(used, end time.Time) time.Time {
	if idle := used.Add(Idle); idle.Before(end) {
		return idle
	}
	return end
}

// roles answers a clean copy: sorted, each once.
func roles(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}
