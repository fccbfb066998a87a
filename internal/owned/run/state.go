package run

import (
	"fmt"
	"time"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

type tx = store.Tx

// State is where a run stands.
type State string

const (
	// Absent is the state before the first: no such row.
	Absent State = ""
	// Registered has a published descriptor and waits for its one handshake.
	Registered State = "registered"
	// Open has a session, or is held by a local surface; actions may begin.
	Open State = "open"
	// Burned is over: its bootstrap was shown too late or with another binding.
	Burned State = "burned"
	// Expired is over: nobody used its bootstrap in time.
	Expired State = "expired"
	// Ended is over: it was stopped, its session expired or it broke a limit;
	// its reason says which.
	Ended State = "ended"
	// Lost is over: the process that held it is gone without a word. What its
	// last action did is unknown.
	Lost State = "lost"
)

// Over tells whether nothing can happen in the run any more.
func (s State) Over() bool {
	return s != Absent && s != Registered && s != Open
}

// verb names a move; what a caller asks for, in the audit's words.
type verb string

const (
	verbRegister verb = "registered"
	verbStart    verb = "started"
	verbOpen     verb = "opened"
	verbBurn     verb = "burned"
	verbExpire   verb = "expired"
	verbEnd      verb = "ended"
	verbLose     verb = "lost"
)

// step is one line of the table.
type step struct {
	verb     verb
	from, to State
}

// moves is every way in which a run changes its state. There is no other.
var moves = []step{
	{verbRegister, Absent, Registered},
	{verbStart, Absent, Open},
	{verbOpen, Registered, Open},
	{verbBurn, Registered, Burned},
	{verbExpire, Registered, Expired},
	{verbEnd, Registered, Ended},
	{verbEnd, Open, Ended},
	{verbLose, Registered, Lost},
	{verbLose, Open, Lost},
}

// move is the only writer of a run's state. A run that stands where v doesn't
// start from is a [refusal.Conflict] (or [refusal.Replayed], where v spends the
// bootstrap), and nothing is changed.
func move(tx *tx, epoch string, v verb, at time.Time) error {
	for _, m := range moves {
		if m.verb != v || m.from == Absent {
			continue
		}
		rows, err := tx.Exec(`update owned_run set state=$1, moved_ms=$2 where epoch=$3 and state=$4`,
			string(m.to), at.UnixMilli(), epoch, string(m.from))
		if err != nil || rows == 1 {
			return err
		}
	}
	if v == verbOpen || v == verbBurn {
		return fmt.Errorf("run's bootstrap was spent before: %w", refusal.Replayed)
	}
	return fmt.Errorf("run can't be %s now: %w", v, refusal.Conflict)
}

// born answers the state that a run's first verb leads to.
func born(v verb) State {
	for _, m := range moves {
		if m.verb == v && m.from == Absent {
			return m.to
		}
	}
	panic("run: " + string(v) + " doesn't begin a run")
}
