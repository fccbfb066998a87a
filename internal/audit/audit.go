// Package audit is unfinished: signatures first.
//
// Floor: durable authority.
package audit

import (
	"context"
	"time"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Event is what one leaf tells. It holds no free text: every word and id must
// match [A-Za-z0-9._:-]{1,128}, and what a person might read in clear goes in
// Sealed.
type Event struct {
	Tenant  string       // "" means the log's own tenant
	Kind    string       // what happened, e.g. "owned_run.started"
	Actor   string       // id of who did it, "" where nobody is known
	Subject string       // id of what it happened to, e.g. a run id
	Code    refusal.Code // the outcome, "" where there is none
	Public  []Field      // in clear, for ever
	Sealed  []Sealed     // as salted commitments; values can be erased later
}

// Field is a public value of an allow-listed type: ID, Word, Digest or Count.
type Field struct {
	name, text string
	count      int64
	isCount    bool
}

// ID is an identifier that Chaperone or a caller chose.
func ID(name, id string) Field { return Field{name: name, text: id} }

// Word is a code, a kind or a state.
func Word[T ~string](name string, word T) Field { return Field{name: name, text: string(word)} }

// Digest is a digest with its algorithm: "sha256:…".
func Digest(name, digest string) Field { return Field{name: name, text: digest} }

// Count is a number: a size, a sequence, a duration in ms, a port.
func Count[T ~int | ~int64 | ~int32 | ~uint16](name string, n T) Field {
	return Field{name: name, count: int64(n), isCount: true}
}

// Sealed is a value that the leaf holds as SHA-256(salt ‖ value) alone; see
// Seal. Never a token, an argument, a result or page text.
type Sealed struct{ name, value string }

// Seal makes a sealed value, at most 1024 bytes: a host, a rule, an address.
func Seal(name, value string) Sealed { return Sealed{name, value} }

// Options of Open.
type Options struct {
	Tenant        string // default "local"
	CheckpointDir string // "" writes none
	KeyFile       string // Ed25519 signing key, made at first use (0600)
	// CheckpointEvery is the least time between two checkpoints while the log
	// grows (default a minute); Close writes one whatever the time.
	CheckpointEvery time.Duration
}

// Log appends events and integrates them.
type Log struct{}

// Open answers a log over db. It neither reads nor writes yet.
func Open(db *store.DB, opts Options) (*Log, error) { panic("unbuilt") }

// Append inserts e's leaf in tx, so that it is there exactly if the change is.
func (l *Log) Append(tx *store.Tx, e Event) error { panic("unbuilt") }

// Start integrates in the background until Close: what others left first.
func (l *Log) Start(ctx context.Context) { panic("unbuilt") }

// Close integrates what is left, writes a last checkpoint where the log grew,
// and waits for the background work.
func (l *Log) Close(ctx context.Context) error { panic("unbuilt") }

// Check is a domain package's invariants, run by Verify in its own snapshot.
type Check func(tx *store.Tx) error
