// Package live is attended control while it happens: the channels of armed pages,
// who attends them, and the one entry by which agents' calls reach them
// (spec/attended-control.md, sections 3 to 6).
//
// It contains
//
//	live.go        Config, Trust, Caller, Authority: what there is on this node
//	attend.go      arming: Grant, Finalize, Revoke
//	channel.go     one channel, from channel.open to its close
//	revalidate.go  exact yeses of the page's sign-in, none of them kept
//	dispatch.go    Dispatch: the one entry of MCP, REST and workflows
//	execute.go     execute_call: admission, and what is sent
//	flight.go      one call under way on this node, and who waits for it
//	passkey.go     confirmations by passkey: the challenge
//	prompt.go      confirmations on the authority's own origin: of pages that aren't ours
//	elsewhere.go   pages that other nodes hold: what they are asked, and answered
//	passed.go      the questions' one decoder
//	hint.go        what other nodes ended
//
// Everything durable is the ledger's: a frame leaves only after the claim that the
// ledger committed, and what a page says is written before anybody is told. In
// memory alone are arguments and results, the sockets, and who waits.
//
// A goroutine serves each channel and reads its socket. A call under way has one of
// its own, which nothing but its end stops: it alone sends the call's frames, each
// after its turn in the channel's rate and after one more look at the sign-in.
//
// It holds no cookie and no token: whether a page's sign-in still stands is a
// function without arguments, whose credential stays with the page's server.
//
// A call may come to any node. The one that holds the page's socket admits it and
// carries it whole; another one verifies who asks, passes the action on, and answers
// from the record where that node can't be reached. No token travels: a caller is the
// ids of their person and grant, which the other node looks at again.
//
// Floor: runtime.
package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/identity"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/relay"
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
	Grant      Grant // whose Look it is, by which another node looks; zero where there is none

	relayed bool // another node verified them
}

// Grant is what a caller acts by: ids, and nothing that opens anything.
type Grant struct{ Family, Connection string }

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
	Bus      relay.Bus           // to the other nodes; nil is a node alone
	// Grants looks at the grant of a caller whom another node verified. nil: no such
	// caller is served.
	Grants func(ctx context.Context, g Grant) (generation int64, err error)
}

// Authority is the one authority of a node's attended pages.
type Authority struct {
	Config
	terms controlv1.ID // the policy's version, which every channel and caller is under
	tasks sync.WaitGroup
	stop  chan struct{} // closed when the node ends
	hints chan word

	ownOrigin controlv1.Mask // this server's own, as the ledger has it

	mu        sync.Mutex // guards what follows; nothing waits under it
	closed    bool
	channels  map[ref.Attended][]*channel // from their first byte; several sockets may come with one arm
	documents map[ref.Document]*channel   // once they are ready
	flights   map[controlv1.ID]*flight
	taint     map[reader]time.Time // until when what it read counts
}

// New makes one over a ledger, whose ends it hears of.
func New(c Config) (*Authority, error) {
	if c.Book == nil || c.Policy == nil || c.Tenant == "" || c.Origin == "" {
		return nil, fmt.Errorf("attended control lacks a part: %w", refusal.BadDocument)
	}
	if c.Name.IsZero() {
		c.Name, _ = controlv1.ParseID("chaperone")
	}
	terms, err := controlv1.ParseID(c.Policy.Version())
	if err != nil {
		return nil, err
	}
	if c.Bus == nil {
		c.Bus = relay.Alone{}
	}
	a := &Authority{Config: c, terms: terms, stop: make(chan struct{}), hints: make(chan word, hinted), channels: map[ref.Attended][]*channel{},
		documents: map[ref.Document]*channel{}, flights: map[controlv1.ID]*flight{}, taint: map[reader]time.Time{}}
	if a.ownOrigin, err = c.mask(); err != nil {
		return nil, err
	}
	if err := c.Bus.Serve(a); err != nil {
		return nil, err
	}
	c.Book.OnArmEnd(a.armEnded)
	c.Book.OnCall(a.moved)
	a.tasks.Go(a.watch)
	if !c.Bus.Alone() {
		a.tasks.Go(a.tellHints)
	}
	return a, nil
}

// mask is this server's origin in private form.
func (c Config) mask() (controlv1.Mask, error) {
	origin, err := controlv1.ParseOrigin(c.Origin)
	if err != nil {
		return controlv1.Mask{}, err
	}
	name, _ := controlv1.ParseID("any")
	one, _ := controlv1.NewGeneration(1)
	page, err := controlv1.Place{Origin: origin, Document: ref.Mint[ref.DocumentKind](), Route: name, Generation: one,
		Catalog: controlv1.Null.Digest(), Scope: controlv1.Null.Digest()}.Private(c.Key)
	return page.Origin, err
}

// Terms answers the policy's version, as evidence and callers carry it.
func (a *Authority) Terms() controlv1.ID { return a.terms }

// Principal answers the reference of a person.
func (a *Authority) Principal(p identity.Principal) ref.Principal {
	return controlv1.Person{Tenant: p.Tenant(), Actor: p.Actor()}.Principal(a.Key)
}

// own tells whether a page is this server's.
func (a *Authority) own(origin controlv1.Origin) bool { return origin.String() == a.Origin }

func (a *Authority) reads(origin controlv1.Origin, tool controlv1.ID) bool {
	return slices.Contains(a.Reads[origin.String()], tool.String())
}

// join takes a channel in, unless the node ends.
func (a *Authority) join(c *channel) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.tasks.Add(1)
	a.channels[c.arm.Ref] = append(a.channels[c.arm.Ref], c)
	return true
}

// publish lets calls reach a channel that is ready.
func (a *Authority) publish(c *channel) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.documents[c.place.Document] = c
}

func (a *Authority) leave(c *channel) {
	a.mu.Lock()
	left := slices.DeleteFunc(a.channels[c.arm.Ref], func(other *channel) bool { return other == c })
	if a.channels[c.arm.Ref] = left; len(left) == 0 {
		delete(a.channels, c.arm.Ref)
	}
	if a.documents[c.place.Document] == c {
		delete(a.documents, c.place.Document)
	}
	a.mu.Unlock()
	a.tasks.Done()
}

// channel answers the live channel of a document, nil for none here.
func (a *Authority) channel(d ref.Document) *channel {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.documents[d]
}

// armEnded closes the sockets of an arm that has just ended: the one that opened it,
// and any that came with it and can open nothing any more.
func (a *Authority) armEnded(arm ref.Attended, why refusal.Code) {
	a.mu.Lock()
	channels := slices.Clone(a.channels[arm])
	a.mu.Unlock()
	a.hint(topicArm, arm.String()) // another socket of it may be with another node
	for _, c := range channels {
		c.end(controlv1.CloseTrust, controlv1.Trust(why))
	}
}

// moved wakes the call that a verb has just moved.
func (a *Authority) moved(id controlv1.ID, to ledger.CallState) {
	a.mu.Lock()
	f := a.flights[id]
	a.mu.Unlock()
	if f != nil {
		f.poke(to)
	} else {
		a.hint(topicCall, id.String())
	}
}

// tell hands a call what its own page said of it. What is said of any other call is
// nothing: it ends no channel, and moves nothing.
func (a *Authority) tell(c *channel, id controlv1.ID, what said) {
	a.mu.Lock()
	f := a.flights[id]
	a.mu.Unlock()
	if f != nil && f.c == c {
		f.hear(what)
	}
}

// watchTime is how often a node looks for what other nodes ended.
const watchTime = time.Second

// askTime is how often an idle channel's sign-in is asked for. Whoever ended it tells
// its arm's end at once; this is for where that was lost.
const askTime = 10 * time.Second

// watch hears of ends that other processes wrote, until the node ends.
func (a *Authority) watch() {
	tick := time.NewTicker(watchTime)
	defer tick.Stop()
	for round := time.Duration(1); ; round++ {
		select {
		case <-tick.C:
		case <-a.stop:
			return
		}
		a.mu.Lock()
		channels := slices.Concat(slices.Collect(maps.Values(a.channels))...)
		flights := slices.Collect(maps.Values(a.flights))
		a.mu.Unlock()
		for _, c := range channels {
			if c.standing() && round%(askTime/watchTime) == 0 {
				a.tasks.Go(c.look)
			}
		}
		for _, f := range flights {
			f.poke("")
		}
	}
}

// insist does what must be done until it is, for a while: after that, and where the
// node ends, Repair does it on any node.
func (a *Authority) insist(ctx context.Context, do func(context.Context) error) error {
	var err error
	for wait := 50 * time.Millisecond; wait < 10*time.Second; wait *= 2 {
		one, cancel := context.WithTimeout(ctx, sendTime)
		err = do(one)
		cancel()
		if err == nil || !infra(err) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		case <-a.stop:
			return err
		}
	}
	return err
}

// Close ends every channel (1013) and waits for what that ends. Nothing new begins.
func (a *Authority) Close(ctx context.Context) error {
	a.mu.Lock()
	first := !a.closed
	a.closed = true
	channels := slices.Concat(slices.Collect(maps.Values(a.channels))...)
	a.mu.Unlock()
	for _, c := range channels {
		c.end(controlv1.CloseGoingAway, refusal.ChannelUnavailable)
	}
	if first {
		close(a.stop)
	}
	done := make(chan struct{})
	go func() { a.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("attended control didn't end in time: %w", ctx.Err())
	}
}
