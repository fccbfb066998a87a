// Package live is attended control while it happens: the channels of armed pages,
// who attends them, and the one entry by which agents' calls reach them
// (spec/attended-control.md, sections 3 to 6).
//
// It contains
//
//	live.go        Config, Authority, Trust: what is known of who has a page open
//	attend.go      arming: Grant, Finalize, Revoke
//	channel.go     one channel, from channel.open to its close
//	frame.go       what a page's frames do
//	revalidate.go  exact yeses of the page's sign-in, none of them kept
//	dispatch.go    Dispatch: the one entry of MCP, REST and workflows
//	execute.go     execute_call: admission, and what is sent
//	flight.go      one call under way on this node, and who waits for it
//	passkey.go     confirmations by passkey: the challenge
//
// Everything durable is the ledger's: a frame leaves only after the claim that the
// ledger committed, and what a page says is written before anybody is told. In
// memory alone are arguments and results, the sockets, and who waits.
//
// A goroutine serves each channel and reads its socket, a second one writes it; a
// call under way has one of its own, which nothing but its end stops.
//
// It holds no cookie and no token: whether a page's sign-in still stands is a
// function without arguments, whose credential stays with the page's server.
//
// Floor: runtime.
package live

import (
	"context"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/identity"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// Trust is what the page's server verified of who has a page open, just now.
type Trust struct {
	Person controlv1.Person
	// Revalidate tells whether that sign-in still stands: nil is an exact yes, a
	// refusal code an exact no, and anything else no answer. Its credential stays
	// inside it.
	Revalidate func(context.Context) error
}

// Conn is a page's socket; package pagesock has the real one.
type Conn interface {
	// Read answers one text frame. refusal.TooLarge is a frame over its limit, and
	// refusal.Malformed one that isn't text; any other error is the socket's end.
	Read(ctx context.Context) ([]byte, error)
	Write(ctx context.Context, frame []byte) error
	// Close ends it, with a reason that is a code. The first close counts.
	Close(code controlv1.Close, reason refusal.Code)
}

// Caller is who asks for calls, as a surface verified it just now: a person, and
// the agent that acts for them.
type Caller struct {
	Who identity.Principal
	// Generation is that of the caller's own grant, and Look answers it anew, at the
	// claim of a mutation that was asked for earlier. nil is a grant that can't
	// change.
	Generation int64
	Look       func(context.Context) (generation int64, err error)
}

// Answer is what Dispatch answers: controlv1.Documents, controlv1.LeaseReceipt or
// controlv1.Receipt.
type Answer interface{ Encode() ([]byte, error) }

// Passkeys verifies a person's assertions; *credential.Book is one.
type Passkeys interface {
	// ConfirmKeys answers the ids of a person's passkeys, base64url, and the RP ID.
	ConfirmKeys(ctx context.Context, person string) (rpID string, ids []string, err error)
	// Confirm judges an assertion with user verification over a challenge.
	Confirm(ctx context.Context, person string, challenge, assertion []byte) error
}

// Config is what an Authority stands on. Passkeys may be nil: then nothing that
// asks for one can be confirmed.
type Config struct {
	Book     *ledger.Book
	Policy   *policy.Set
	Passkeys Passkeys
	Key      ref.Key             // of references and masks
	Tenant   string              // whose people these are
	Name     controlv1.ID        // told in channel.ready; zero is "chaperone"
	Origin   string              // this server's own: pages elsewhere aren't ours
	Reads    map[string][]string // by origin: the tools of a page that isn't ours which only read
}

// Authority is the one authority of a node's attended pages.
type Authority struct {
	Config
}

// New makes one.
func New(c Config) (*Authority, error) { return &Authority{Config: c}, nil }

// Grant seals fresh step-up evidence, at the callback of an arming step-up.
func (a *Authority) Grant(ctx context.Context, t Trust) (ledger.Arm, error) {
	panic("to do")
}

// Finalize revalidates and binds a grant to the reloaded page. Its nonce is told once.
func (a *Authority) Finalize(ctx context.Context, t Trust, arm ref.Attended, p controlv1.Place) (ledger.Arm, controlv1.Nonce, error) {
	panic("to do")
}

// Revoke ends an arm by its exact binding; of a grant p is zero. It asks nobody.
func (a *Authority) Revoke(ctx context.Context, who controlv1.Person, arm ref.Attended, p controlv1.Place, why refusal.Code) error {
	panic("to do")
}

// Channel serves a page's socket until it ends, and closes it. place is the one
// that was finalized.
func (a *Authority) Channel(ctx context.Context, t Trust, arm ref.Attended, place controlv1.Place, conn Conn) {
	panic("to do")
}

// Dispatch does what a caller asks. Its error has a code of section 6.
func (a *Authority) Dispatch(ctx context.Context, c Caller, what controlv1.Action) (Answer, error) {
	panic("to do")
}

// Principal answers the reference of a person.
func (a *Authority) Principal(p identity.Principal) ref.Principal {
	return controlv1.Person{Tenant: p.Tenant(), Actor: p.Actor()}.Principal(a.Key)
}

// Close ends every channel (1013) once its calls are over or ctx is done.
func (a *Authority) Close(ctx context.Context) error { return nil }
