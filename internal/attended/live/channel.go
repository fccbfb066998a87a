package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// Limits of a channel (section 3).
const (
	openTime = 10 * time.Second // for channel.open, and again for the catalog
	sendTime = 5 * time.Second  // for one frame to leave
	burst    = 32               // frames at once, each way
	refill   = 16               // frames a second in the long run
	backlog  = 64               // calls that may wait to send before more are refused
	underway = 128              // calls that a page may leave unanswered before more are refused
)

// channel is one page's socket and what it was armed with.
type channel struct {
	a        *Authority
	conn     Conn
	yes      *revalidator
	place    controlv1.Place
	evidence controlv1.Evidence
	arm      ledger.Arm
	catalog  controlv1.Catalog
	actor    string

	in, out *rate.Limiter
	writing sync.Mutex    // one frame at a time
	gone    chan struct{} // closed at the end

	mu       sync.Mutex // guards what follows
	ended    *closing
	waiting  int // calls that wait to send
	flying   int // calls that aren't over
	probing  bool
	consumed bool // this socket opened the arm, so its end is the arm's
}

// closing is why a channel ends. As an error it is how a step says so.
type closing struct {
	code   controlv1.Close
	reason refusal.Code
}

func (c *closing) Error() string { return fmt.Sprintf("%d %s", c.code, c.reason) }

// Unwrap answers the reason: whoever asked for a call is told by it.
func (c *closing) Unwrap() error { return c.reason }

func trust(why refusal.Code) *closing {
	return &closing{controlv1.CloseTrust, controlv1.Trust(why)}
}

// Channel serves a page's socket until it ends, and closes it with its code. place
// is the one that was finalized; what the page says must be the same. The arm ends
// with the channel that it opened.
func (a *Authority) Channel(ctx context.Context, t Trust, arm ref.Attended, place controlv1.Place, conn Conn) {
	c := &channel{a: a, conn: conn, yes: newRevalidator(t.Revalidate), place: place, actor: t.Person.Actor, arm: ledger.Arm{Ref: arm},
		in: rate.NewLimiter(refill, burst), out: rate.NewLimiter(refill, burst), gone: make(chan struct{})}
	if !a.join(c) {
		conn.Close(controlv1.CloseGoingAway, refusal.ChannelUnavailable)
		return
	}
	defer a.leave(c)
	err := c.serve(ctx, t.Person)
	var why *closing
	if !errors.As(err, &why) {
		why = &closing{controlv1.CloseFault, refusal.Failed}
	}
	c.end(why.code, why.reason)
	c.disconnect(context.WithoutCancel(ctx))
}

// serve goes the way of a channel, in its one order.
func (c *channel) serve(ctx context.Context, who controlv1.Person) error {
	late := time.AfterFunc(openTime, func() { c.end(controlv1.CloseTimeout, refusal.TimedOut) })
	defer late.Stop()
	frame, err := c.read(ctx)
	if err != nil {
		return err
	}
	open, ok := frame.(controlv1.Open)
	if !ok {
		return &closing{controlv1.CloseInvalid, refusal.InvalidRequest}
	}
	if err := c.open(ctx, who, open); err != nil {
		return err
	}
	over := time.AfterFunc(time.Until(time.UnixMilli(min(c.arm.ExpiresMS, c.arm.Evidence.CredentialUntilMS))), func() {
		c.end(controlv1.CloseTrust, refusal.ArmExpired)
	})
	defer over.Stop()
	late.Reset(openTime)
	if frame, err = c.read(ctx); err != nil {
		return err
	}
	register, ok := frame.(controlv1.Register)
	if !ok {
		return &closing{controlv1.CloseInvalid, refusal.InvalidRequest}
	}
	if err := c.register(ctx, register); err != nil {
		return err
	}
	late.Stop()
	for {
		if frame, err = c.read(ctx); err != nil {
			return err
		}
		if frame == nil {
			continue // one call's fault, which was told to that call
		}
		if err := c.take(frame); err != nil {
			return err
		}
	}
}

// open consumes the arm.
func (c *channel) open(ctx context.Context, who controlv1.Person, f controlv1.Open) error {
	if f.Route != c.place.Route || f.Generation != c.place.Generation {
		return trust(refusal.ArmMismatch)
	}
	evidence, page, err := c.a.private(who, c.place)
	if err != nil {
		return trust(refusal.ArmMismatch)
	}
	c.evidence = evidence
	if err := c.revalidate(ctx); err != nil {
		return err
	}
	arm, err := c.a.Book.Open(ctx, c.arm.Ref, evidence, page, f.Nonce)
	if err != nil {
		return c.fault(err)
	}
	c.mu.Lock()
	c.arm, c.consumed = arm, true
	c.mu.Unlock()
	return nil
}

// register publishes the catalog, and makes the page ready by the receipt of what
// was published.
func (c *channel) register(ctx context.Context, f controlv1.Register) error {
	if err := c.revalidate(ctx); err != nil {
		return err
	}
	if f.Route != c.place.Route || f.Generation != c.place.Generation || f.Catalog.Digest() != c.place.Catalog || f.Catalog.Scope() != c.place.Scope {
		return trust(refusal.ArmMismatch)
	}
	if !c.a.classes(c.place.Origin, f.Catalog) {
		return &closing{controlv1.CloseInvalid, refusal.InvalidRequest}
	}
	r, err := c.a.Book.Register(ctx, c.arm.Ref, c.arm.Binding, f.Catalog)
	if err != nil {
		return c.fault(err)
	}
	if err := c.a.Book.Point(ctx, r.ID); err != nil {
		return c.fault(err)
	}
	if r, err = c.a.Book.Publish(ctx, r.ID); err != nil {
		return c.fault(err)
	}
	c.catalog = f.Catalog
	// Calls find the channel from here on, and wait with their frames until the page
	// has been told that it is ready.
	c.writing.Lock()
	defer c.writing.Unlock()
	c.a.publish(c)
	return c.put(controlv1.Ready{Authority: c.a.Name, Route: c.place.Route, Generation: r.Generation, Catalog: r.Catalog, Scope: r.Scope})
}

// classes tells whether a page may class its tools so: elsewhere than here every
// tool changes an account, unless the operator says that it reads.
func (a *Authority) classes(origin controlv1.Origin, catalog controlv1.Catalog) bool {
	if a.own(origin) {
		return true
	}
	for _, t := range catalog.Tools() {
		if t.Class() != controlv1.AccountMutation && (t.Class() != controlv1.Read || !a.reads(origin, t.ID())) {
			return false
		}
	}
	return true
}

// fault is the close that goes with an authority's error.
func (c *channel) fault(err error) *closing {
	if infra(err) {
		return &closing{controlv1.CloseFault, refusal.Failed}
	}
	return trust(refusal.Of(err))
}

// read answers the next frame, nil for one whose one call failed by it.
func (c *channel) read(ctx context.Context) (controlv1.PageFrame, error) {
	data, err := c.conn.Read(ctx)
	switch {
	case errors.Is(err, refusal.TooLarge):
		return nil, &closing{controlv1.CloseTooLarge, refusal.TooLarge}
	case errors.Is(err, refusal.Malformed):
		return nil, &closing{controlv1.CloseInvalid, refusal.InvalidRequest}
	case err != nil:
		return nil, &closing{controlv1.CloseFault, refusal.ChannelUnavailable}
	case !c.in.Allow():
		return nil, &closing{controlv1.CloseRate, refusal.RateLimited}
	}
	frame, err := controlv1.DecodePage(data)
	if err == nil {
		return frame, nil
	}
	var bad *controlv1.Bad
	if !errors.As(err, &bad) {
		return nil, &closing{controlv1.CloseInvalid, refusal.InvalidRequest}
	}
	if bad.Call.IsZero() || !c.isReady() {
		return nil, &closing{bad.Close, bad.Code}
	}
	if err := c.attended(); err != nil && !errors.Is(err, errSilent) {
		return nil, err
	} else if err == nil {
		c.a.tell(c, bad.Call, said{bad: bad.Code})
	}
	return nil, nil
}

func (c *channel) isReady() bool { return !c.catalog.IsZero() }

// revalidate asks for an exact yes. A no ends the channel; without an answer only
// what it was asked for is refused, until none has come for ten seconds.
func (c *channel) revalidate(ctx context.Context) error { return c.verdict(c.yes.check(ctx)) }

// look ends an idle channel whose sign-in is over. Without an answer it stays: what
// needs one asks for itself.
func (c *channel) look() {
	if err := c.yes.check(context.Background()); err != nil && !errors.Is(err, errSilent) {
		c.verdict(err)
	}
}

// verdict does what an answer of the sign-in asks for.
func (c *channel) verdict(err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, errSilent):
		why := trust(refusal.Of(err))
		if why.reason == refusal.Revoked && refusal.Of(err) != refusal.Revoked {
			why.reason = refusal.RevalidationFailed // the provider's no
		}
		c.end(why.code, why.reason)
		return why
	case !c.isReady():
		return trust(refusal.RevalidationFailed)
	}
	c.probe()
	return err
}

// code is why the channel has ended, "" while it hasn't.
func (c *channel) code() refusal.Code {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		return ""
	}
	return c.ended.reason
}

// probe goes on asking until a yes comes or the time for one is over.
func (c *channel) probe() {
	c.mu.Lock()
	already := c.probing
	c.probing = true
	c.mu.Unlock()
	if already {
		return
	}
	c.a.tasks.Go(func() {
		defer func() { c.mu.Lock(); c.probing = false; c.mu.Unlock() }()
		for end := time.Now().Add(yesTime); time.Now().Before(end); {
			select {
			case <-time.After(probeTime):
			case <-c.gone:
				return
			}
			ctx, cancel := context.WithDeadline(context.Background(), end)
			err := c.yes.check(ctx)
			cancel()
			if !errors.Is(err, errSilent) {
				c.verdict(err)
				return
			}
		}
		c.end(controlv1.CloseTrust, refusal.RevalidationFailed)
	})
}

// attended tells whether a frame may be acted on: the sign-in and the arm stand.
// Silence about the sign-in refuses the frame alone, and is answered as errSilent.
func (c *channel) attended() error {
	if err := c.revalidate(context.Background()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	err := c.a.insist(ctx, func(ctx context.Context) error {
		_, err := c.a.Book.Standing(ctx, c.arm.Ref)
		return err
	})
	if err != nil {
		if infra(err) {
			return errors.Join(errSilent, err)
		}
		return trust(refusal.Of(err))
	}
	return nil
}

// take acts on a frame of a ready channel.
func (c *channel) take(f controlv1.PageFrame) error {
	switch f.(type) {
	case controlv1.Open, controlv1.Register:
		return &closing{controlv1.CloseInvalid, refusal.InvalidRequest} // exactly once
	}
	if err := c.attended(); err != nil {
		if errors.Is(err, errSilent) {
			return nil // this frame is refused, and the channel stays
		}
		return err
	}
	switch f := f.(type) {
	case controlv1.Confirm:
		c.a.tell(c, f.Call, said{confirm: &f})
	case controlv1.Result:
		c.a.tell(c, f.Call, said{outcome: f.Outcome})
	case controlv1.Cancelled:
		c.a.tell(c, f.Call, said{effect: f.Effect})
	}
	return nil
}

// errNotSent is that a frame certainly didn't leave.
var errNotSent = errors.New("the frame wasn't sent")

// send waits for the frame's turn, has check look once more, and writes it. An
// error that is errNotSent tells that nothing of it left.
func (c *channel) send(f controlv1.AuthorityFrame, check func() error) error {
	if wait := c.out.Reserve(); wait.Delay() > 0 {
		select {
		case <-time.After(wait.Delay()):
		case <-c.gone:
			return errNotSent
		}
	}
	if check != nil {
		if err := check(); err != nil {
			return errors.Join(errNotSent, err)
		}
	}
	return c.write(f)
}

// write sends one frame now.
func (c *channel) write(f controlv1.AuthorityFrame) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.put(f)
}

// put writes one frame while the caller holds the writing.
func (c *channel) put(f controlv1.AuthorityFrame) error {
	data, err := controlv1.EncodeAuthority(f)
	if err != nil {
		return errors.Join(errNotSent, err)
	}
	if c.code() != "" {
		return errNotSent
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	if err := c.conn.Write(ctx, data); err != nil {
		c.end(controlv1.CloseTimeout, refusal.TimedOut)
		return err
	}
	return nil
}

// admit counts a call that is going to send; over the backlog it is rate_limited. A
// page that answers nothing keeps its calls' arguments here for minutes, and each is
// looked at every second: past so many more are busy.
func (c *channel) admit() (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.waiting >= backlog || c.out.Tokens() < -backlog:
		return nil, refusal.RateLimited
	case c.waiting+c.flying >= underway:
		return nil, refusal.Busy
	}
	c.waiting++
	return func() { c.mu.Lock(); c.waiting--; c.mu.Unlock() }, nil
}

// fly counts a call until it is over.
func (c *channel) fly() (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying++
	return func() { c.mu.Lock(); c.flying--; c.mu.Unlock() }
}

// end closes the channel once; the first reason counts, and nothing is sent after
// it.
func (c *channel) end(code controlv1.Close, reason refusal.Code) {
	c.mu.Lock()
	first := c.ended == nil
	if first {
		c.ended = &closing{code, reason}
		close(c.gone)
	}
	c.mu.Unlock()
	if first {
		c.a.tasks.Go(func() { c.conn.Close(code, reason) })
	}
}

// disconnect ends the arm that this channel opened, and everything under it. What
// fails is tried again for a while; after that Repair does it, on any node.
func (c *channel) disconnect(ctx context.Context) {
	c.mu.Lock()
	own, why := c.consumed, c.ended.reason
	late := c.ended.code == controlv1.CloseTimeout
	c.mu.Unlock()
	if !own { // no channel.open in time ends the arm too, unless another socket has it
		arm, err := c.a.Book.Find(ctx, c.arm.Ref)
		if !late || err != nil || arm.State != ledger.ArmActive {
			return
		}
	}
	switch why {
	case refusal.InvalidRequest, refusal.TooLarge, refusal.RateLimited, refusal.Failed:
		why = refusal.ChannelUnavailable
	}
	c.a.insist(ctx, func(ctx context.Context) error { return c.a.Book.Disconnect(ctx, c.arm.Ref, why) })
}
