package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"chaperone/internal/refusal"
)

// Options of Dial.
type Options struct {
	Address
	Node string       // this process's name among the nodes
	Key  []byte       // that the nodes share, at least 32 bytes
	Log  *slog.Logger // nil: nothing is logged
}

// Times of a connection.
const (
	dialTime  = 5 * time.Second
	writeTime = 5 * time.Second
	pingTime  = 5 * time.Second // two of them without an answer end a connection that hangs
)

// NATS is a bus over core NATS.
type NATS struct {
	log   *slog.Logger
	nc    *nats.Conn
	seal  *sealer
	me    string
	roots string // what every subject of these nodes begins with
	side  Side

	ending context.Context // of all that is worked at
	end    context.CancelFunc
	tasks  sync.WaitGroup // added to under mu, while it isn't draining

	mu       sync.Mutex // guards what follows
	draining bool
	waiting  map[ticket]waiter
	working  map[question]*work
}

// Dial connects. It is an error where the server can't be reached, doesn't take the
// credentials, demands none, or keeps what passes.
func Dial(ctx context.Context, o Options) (*NATS, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	n := &NATS{log: o.Log, me: o.Node, waiting: map[ticket]waiter{}, working: map[question]*work{}}
	var err error
	if n.seal, err = newSealer(o.Key, o.Node); err != nil {
		return nil, err
	}
	domain, err := n.seal.domain()
	if err != nil {
		return nil, err
	}
	n.roots = "chaperone." + domain
	n.ending, n.end = context.WithCancel(context.WithoutCancel(ctx))
	secret, err := credentials(o.CredentialsFile)
	if err != nil {
		return nil, err
	}
	options := append(n.options(), secret)
	if o.CAFile != "" {
		options = append(options, nats.RootCAs(o.CAFile))
	}
	if n.nc, err = nats.Connect(o.URL, options...); err != nil {
		return nil, connecting(err)
	}
	if err := n.fit(ctx); err != nil {
		n.nc.Close()
		return nil, err
	}
	return n, nil
}

// options are those of every connection. Nothing is kept for later while it is down:
// what is asked then was never asked. Servers that a server names aren't dialled:
// the configuration's are, by the protocol that it says.
func (n *NATS) options() []nats.Option {
	return []nats.Option{
		nats.Name("chaperone"), nats.NoEcho(), nats.Timeout(dialTime), nats.FlusherTimeout(writeTime),
		nats.PingInterval(pingTime), nats.MaxPingsOutstanding(2),
		nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 250*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(), nats.IgnoreDiscoveredServers(),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { n.log.Warn("the relay is down") }),
		nats.ReconnectHandler(func(*nats.Conn) { n.log.Info("the relay is up again") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { n.log.Warn("the relay", "trouble", trouble(err)) }),
	}
}

// trouble names an error of the client's, whose own text may hold a subject.
func trouble(err error) string {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		return "slow_consumer"
	case errors.Is(err, nats.ErrPermissionViolation):
		return "permission_violation"
	}
	return "other"
}

// connecting is why no connection came about, in words that help.
func connecting(err error) error {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrNkeyButNoSigCB), errors.Is(err, nats.ErrNkeysNotSupported):
		return fmt.Errorf("relay: the server doesn't take what relay_credentials_file holds: %w", refusal.Unauthenticated)
	case errors.Is(err, nats.ErrSecureConnWanted), errors.Is(err, nats.ErrSecureConnRequired):
		return fmt.Errorf("relay: the server and the address don't agree on TLS: %w", refusal.BadDocument)
	case errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("relay: no server answers there: %w", refusal.Unreachable)
	}
	return fmt.Errorf("relay: %w", err) // of the network or TLS: an address at most
}

// fit refuses a server over which nothing of ours may travel.
func (n *NATS) fit(ctx context.Context) error {
	switch {
	case !n.nc.AuthRequired():
		return fmt.Errorf("relay: the server lets anybody in; arguments travel only where it demands credentials: %w", refusal.Unauthenticated)
	case !n.nc.HeadersSupported(), n.nc.MaxPayload() < int64(MaxBody+overhead):
		return fmt.Errorf("relay: the server must support headers and take messages of %d bytes (max_payload): %w", MaxBody+overhead, refusal.BadDocument)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// Who may not ask this can't be told; the operator is, in the docs.
	m, err := n.nc.RequestWithContext(ctx, "$JS.API.INFO", nil)
	if err != nil {
		return nil
	}
	var info struct {
		Error *struct{} `json:"error"`
	}
	if json.Unmarshal(m.Data, &info) != nil || info.Error != nil {
		return nil
	}
	return fmt.Errorf("relay: the account has JetStream, which could keep what passes; give the nodes an account without it: %w", refusal.BadDocument)
}

// The subjects. A dot in a node's name would be a level of its own.
func token(node string) string { return strings.ReplaceAll(node, ".", "-") }

func (n *NATS) toSubject(node string) string { return n.roots + ".to." + token(node) }
func (n *NATS) hintSubject() string          { return n.roots + ".hint" }
func (n *NATS) backSubject(node string, id ticket) string {
	return fmt.Sprintf("%s.back.%s.%x", n.roots, token(node), id[:])
}

// Serve subscribes. A user who may not is an error.
func (n *NATS) Serve(side Side) error {
	n.side = side
	for subject, f := range map[string]nats.MsgHandler{
		n.toSubject(n.me):                       n.taken, // one for all of a question, so that their order stays
		n.hintSubject():                         n.told,
		n.roots + ".back." + token(n.me) + ".*": n.back,
	} {
		if _, err := n.nc.Subscribe(subject, f); err != nil {
			return connecting(err)
		}
	}
	// The server's no to a subscription comes before its answer to this.
	if err := n.nc.FlushTimeout(dialTime); err != nil {
		return connecting(err)
	}
	if errors.Is(n.nc.LastError(), nats.ErrPermissionViolation) {
		return fmt.Errorf("relay: the user must be allowed to publish and subscribe chaperone.>: %w", refusal.Forbidden)
	}
	return nil
}

// Alone is false.
func (n *NATS) Alone() bool { return false }

// Err tells whether the connection is up, and still one that demands credentials.
func (n *NATS) Err() error {
	if n.nc.Status() != nats.CONNECTED || !n.nc.AuthRequired() {
		return ErrGone
	}
	return nil
}

// send seals a frame and hands it to the connection. Its error is that nothing left.
func (n *NATS) send(subject, reply string, f frame) error {
	text, err := f.encode()
	if err != nil {
		return err
	}
	if err := n.Err(); err != nil {
		return err
	}
	if err := n.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: n.seal.seal(subject, text)}); err != nil {
		return ErrGone
	}
	return nil
}

// receive opens what came. What no node sent is dropped.
func (n *NATS) receive(m *nats.Msg) (string, frame, bool) {
	sender, text, err := n.seal.open(m.Subject, m.Data)
	if err != nil {
		return "", frame{}, false
	}
	f, err := decode(text)
	return sender, f, err == nil
}

// Drain takes no new question: who asks then is told that this node isn't there.
func (n *NATS) Drain(ctx context.Context) {
	n.mu.Lock()
	n.draining = true
	n.mu.Unlock()
	done := make(chan struct{})
	go func() { n.tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Close ends what is worked at and the connection.
func (n *NATS) Close(ctx context.Context) error {
	n.end()
	n.Drain(ctx)
	n.nc.FlushTimeout(time.Second)
	n.nc.Close()
	return ctx.Err()
}
