package session

import (
	"fmt"
	"time"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

type tx = store.Tx

// State is where a session stands.
type State string

const (
	// Absent is the state before the first: no such row.
	Absent State = ""
	// Active may be used until it is idle or over by the clock.
	Active State = "active"
	// Ended is over for good; its reason says why.
	Ended State = "ended"
)

// verb names a move, in the audit's words.
type verb string

const (
	verbBegin  verb = "began"
	verbStepUp verb = "stepped_up"
	verbEnd    verb = "ended"
)

type step struct {
	verb     verb
	from, to State
}

// moves is every way in which a session changes its state. There is no other.
var moves = []step{
	{verbBegin, Absent, Active},
	{verbStepUp, Active, Active},
	{verbEnd, Active, Ended},
}

// move is the only writer of a session's state after its birth. A session that
// stands elsewhere is [refusal.SessionExpired], and nothing is changed.
func move(tx *tx, id string, v verb, why refusal.Code, at time.Time) error {
	for _, m := range moves {
		if m.verb != v || m.from == Absent {
			continue
		}
		ended := int64(0)
		if m.to == Ended {
			ended = at.UnixMilli()
		}
		rows, err := tx.Exec(`update session set state=$1, reason=$2, ended_ms=$3 where id=$4 and state=$5`,
			string(m.to), string(why), ended, id, string(m.from))
		if err != nil || rows == 1 {
			return err
		}
	}
	return fmt.Errorf("session can't be %s now: %w", v, refusal.SessionExpired)
}

// stands is where a flow stands.
type stands string

const (
	// waiting was sent to the provider and hasn't come back.
	waiting stands = "waiting"
	// claimed came back once. It never comes back again.
	claimed stands = "claimed"
	// replayed came back a second time, which was told in the audit once.
	replayed stands = "replayed"
)

// flowMoves is every way in which a flow moves.
var flowMoves = []struct{ from, to stands }{
	{waiting, claimed},
	{claimed, replayed},
}

// moveFlow moves a flow on, and tells whether this call did.
func moveFlow(tx *tx, hash string, to stands) (bool, error) {
	for _, m := range flowMoves {
		if m.to != to {
			continue
		}
		rows, err := tx.Exec(`update session_flow set stands=$1 where state_hash=$2 and stands=$3`, string(m.to), hash, string(m.from))
		return rows == 1, err
	}
	panic("session: no move leads to " + string(to))
}
