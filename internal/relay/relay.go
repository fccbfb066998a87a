// Package relay is what the nodes of one server say to each other while it
// happens: questions to one node, with an answer or its loss, and hints to all of
// them (spec/attended-control.md, sections 6 and 7; spec/product.md, "Many nodes").
//
// It contains
//
//	relay.go       Bus, Side, Alone; how a question can be lost
//	address.go     where the bus is, and what is refused before it is dialled
//	credentials.go a file's secret
//	nats.go        NATS: the connection, and what it must be
//	ask.go         one question, from who asks
//	answer.go      one question, at who answers; hints
//	frame.go       the messages and their one decoder
//	seal.go        what keeps them to the nodes
//
// A question goes to a node by its name. While it is open both sides say every
// second that they are there: who asks learns within seconds that the other node
// died, and who answers stops work that nobody waits for. A node that isn't there
// is told at once, by the server ("no responders"), and then certainly nothing was
// asked (ErrGone); an answer that was lost is another thing (ErrLost), since the work
// may have been done. Nothing is ever asked twice by the bus.
//
// What is asked may hold a call's arguments. So nothing of it is stored: core NATS
// only, in an account without JetStream, with no buffer while the connection is
// down, over TLS where it leaves the machine, and only where the server demands
// credentials. Each message is sealed besides, under a key of the nodes': whoever
// else may use that account reads nothing and is believed nothing.
//
// A hint says that something may have changed. It may be lost, and whoever hears it
// looks for themselves: it is no authority, and neither is anything here. Who may do
// what is judged at the node that answers, over the one database.
//
// Subscriptions have goroutines of the client's; each question has two here, whom
// Close waits for. No lock is held while anything is sent or called.
//
// Floor: runtime.
package relay

import (
	"context"
	"fmt"
	"time"

	"chaperone/internal/refusal"
)

// Limits and times of a bus.
const (
	MaxBody     = 96 << 10        // bytes of a question, an answer or a hint
	MostAsked   = 512             // questions that one node works at; more are busy
	beatTime    = time.Second     // between two signs of life, while a question is open
	silenceTime = 5 * time.Second // without one, the other side is gone
)

// ErrGone is that nobody has the question: its node isn't there, or nothing leaves
// this one.
var ErrGone = fmt.Errorf("the other node can't be reached: %w", refusal.ChannelUnavailable)

// ErrLost is that the question may have been worked at, and its answer is lost.
var ErrLost = fmt.Errorf("the other node didn't answer: %w", refusal.OutcomeUnavailable)

// Side is who answers on a node.
type Side interface {
	// Asked answers a question. ctx ends where who asked gives it up or is gone. Of an
	// error its code alone is told.
	Asked(ctx context.Context, topic string, body []byte) ([]byte, error)
	// Told hears a hint. It is short, and does what takes long elsewhere.
	Told(topic string, body []byte)
}

// Bus is how one node reaches the others.
type Bus interface {
	// Serve answers by side from now on. It is called once, before the first Ask.
	Serve(side Side) error
	// Ask asks a node, and waits for its answer for as long as ctx lets it: ErrGone,
	// ErrLost, or the other side's refusal.
	Ask(ctx context.Context, node, topic string, body []byte) ([]byte, error)
	// Tell hints to every other node, where it reaches them.
	Tell(topic string, body []byte)
	// Alone tells whether there is no other node by construction.
	Alone() bool
	// Err tells why no other node can be reached now, nil where they can be.
	Err() error
	// Drain takes no new question, and waits for those that are worked at.
	Drain(ctx context.Context)
	// Close ends what is open. Every question is lost by it.
	Close(ctx context.Context) error
}

// Alone is the bus of a node that has no other: nothing leaves the process.
type Alone struct{}

var _, _ Bus = Alone{}, (*NATS)(nil)

// Serve is never asked.
func (Alone) Serve(Side) error { return nil }

// Ask finds nobody.
func (Alone) Ask(context.Context, string, string, []byte) ([]byte, error) { return nil, ErrGone }

// Tell has nobody to tell.
func (Alone) Tell(string, []byte) {}

// Alone is true.
func (Alone) Alone() bool { return true }

// Err is nil: nobody is missing.
func (Alone) Err() error { return nil }

// Drain has nothing to wait for.
func (Alone) Drain(context.Context) {}

// Close has nothing to end.
func (Alone) Close(context.Context) error { return nil }
