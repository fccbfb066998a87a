package ledger

import (
	"slices"
	"time"

	"chaperone/internal/refusal"
)

// verb names a move; what happened, in the audit's words.
type verb string

// step is one line of a table of moves.
type step[S ~string] struct {
	verb     verb
	from, to S
}

// born answers the state that a first verb leads to.
func born[S ~string](moves []step[S], v verb) S {
	for _, m := range moves {
		if m.verb == v && m.from == "" {
			return m.to
		}
	}
	panic("ledger: " + string(v) + " begins nothing") // our own invariant: verbs are constants here
}

// goes answers where v leads from a state, and whether it does.
func goes[S ~string](moves []step[S], v verb, from S) (S, bool) {
	for _, m := range moves {
		if m.verb == v && m.from == from && from != "" {
			return m.to, true
		}
	}
	return "", false
}

// exists tells whether some move leads to a state.
func exists[S ~string](moves []step[S], s S) bool {
	return slices.ContainsFunc(moves, func(m step[S]) bool { return m.to == s })
}

// machine is a noun whose state is one column.
type machine[S ~string] struct {
	update string // set state=$1, moved_ms=$2 where key=$3 and state=$4
	read   string // select state where key=$1
	moves  []step[S]
}

// move is the only writer of a noun's state: one conditional update on the state
// that was read. It answers that state; from one where v doesn't start it changes
// nothing and ok is false. No row is the state "".
func (m machine[S]) move(tx *tx, key string, v verb, now time.Time) (was S, ok bool, err error) {
	known, err := tx.One(m.read, []any{key}, &was)
	if err != nil || !known {
		return "", false, err
	}
	to, ok := goes(m.moves, v, was)
	if !ok {
		return was, false, nil
	}
	rows, err := tx.Exec(m.update, string(to), now.UnixMilli(), key, string(was))
	if err == nil && rows != 1 {
		err = refusal.Conflict
	}
	return was, err == nil, err
}
