package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/canon"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// verb names a move; what happened, in the audit's words.
type verb string

// step is one line of a table of moves.
type step struct {
	verb     verb
	from, to string
}

// noun is a record whose state is one column.
type noun struct {
	name  string // in the audit's words
	table string
	key   string
	facts string // the columns that the log tells the digest of
	moves []step
}

// stand is what a verb read of a record before it moves it: the full state, by its
// version.
type stand struct {
	state   string
	version int64
}

// born answers the state that a first verb leads to.
func (n *noun) born(v verb) string {
	for _, m := range n.moves {
		if m.verb == v && m.from == "" {
			return m.to
		}
	}
	panic("ledger: " + string(v) + " begins nothing") // our own invariant: verbs are constants here
}

// goes answers where v leads from a state, and whether it does.
func (n *noun) goes(v verb, from string) (string, bool) {
	for _, m := range n.moves {
		if m.verb == v && m.from == from && from != "" {
			return m.to, true
		}
	}
	return "", false
}

// over tells whether no verb leads on from a state.
func (n *noun) over(state string) bool {
	return !slices.ContainsFunc(n.moves, func(m step) bool { return m.from == state })
}

// event is what an audit row tells beside the move itself.
type event struct {
	tenant    string
	principal string
	reason    refusal.Code
	public    []audit.Field
}

// move is the only writer of a record's state after its birth: one conditional
// update on the full state that was read, and its audit row. From a state where v
// doesn't start, and where somebody else moved it meanwhile, it is a Conflict and
// nothing is changed.
// also are further columns that it writes, "name=" and a value each.
func (b *Book) move(tx *tx, n *noun, id string, v verb, was stand, e event, now time.Time, also ...any) error {
	to, ok := n.goes(v, was.state)
	if !ok {
		return refuse(refusal.Conflict, n.name+" can't be "+string(v)+" now")
	}
	more, args := "", []any{to, string(e.reason), now.UnixMilli(), id, was.state, was.version}
	for i := 0; i < len(also); i += 2 {
		args = append(args, also[i+1])
		more += fmt.Sprintf(", %s$%d", also[i], len(args))
	}
	facts, err := n.written(tx, `update `+n.table+` set state=$1, version=version+1, reason=$2, moved_ms=$3`+more+` where `+n.key+`=$4 and state=$5 and version=$6 returning `+n.facts, args...)
	if errors.Is(err, sql.ErrNoRows) {
		err = refuse(refusal.Conflict, n.name+" stands elsewhere than was read")
	}
	if err != nil {
		return err
	}
	b.notify(tx, n, id, to, e.reason)
	return b.tell(tx, n, id, v, stand{to, was.version + 1}, e, facts)
}

// begun tells the birth of a record whose row was just inserted.
func (b *Book) begun(tx *tx, n *noun, id string, v verb, e event) error {
	facts, err := n.written(tx, `select `+n.facts+` from `+n.table+` where `+n.key+`=$1`, id)
	if err != nil {
		return err
	}
	return b.born(tx, n, id, v, e, facts)
}

// born is begun where the insertion answered the facts.
func (b *Book) born(tx *tx, n *noun, id string, v verb, e event, facts string) error {
	b.notify(tx, n, id, n.born(v), e.reason)
	return b.tell(tx, n, id, v, stand{n.born(v), 1}, e, facts)
}

// tell appends the audit row: the state, the version, and the digest of the
// record's facts, which holds the row to the log.
func (b *Book) tell(tx *tx, n *noun, id string, v verb, is stand, e event, facts string) error {
	public := append([]audit.Field{audit.Word("state", is.state), audit.Count("version", is.version), audit.Digest("facts", facts)}, e.public...)
	if e.tenant == anyTenant {
		e.tenant = b.tenant
	}
	return b.log.Append(tx, audit.Event{
		Tenant: e.tenant, Kind: "attended." + n.name + "_" + string(v), Actor: e.principal, Subject: id, Code: e.reason, Public: public,
	})
}

// written names a record's facts as they stand, by a statement that answers them;
// sql.ErrNoRows where it answers none.
func (n *noun) written(tx *tx, statement string, args ...any) (string, error) {
	values, into := row(strings.Count(n.facts, ",") + 1)
	if err := tx.QueryRow(statement, args...).Scan(into...); err != nil {
		return "", err
	}
	return factsDigest(values)
}

// row makes room for so many columns.
func row(width int) (values, into []any) {
	values, into = make([]any, width), make([]any, width)
	for i := range values {
		into[i] = &values[i]
	}
	return values, into
}

func factsDigest(values []any) (string, error) {
	all := make([]string, len(values))
	for i, v := range values {
		if raw, ok := v.([]byte); ok {
			v = string(raw)
		}
		all[i] = fmt.Sprint(v)
	}
	text, err := canon.Marshal(all)
	return canon.Digest(text), err
}

// notify runs OnArmEnd's and OnCall's functions after the commit.
func (b *Book) notify(tx *tx, n *noun, id, state string, why refusal.Code) {
	switch {
	case n == &arms && (state == string(ArmRevoked) || state == string(ArmLapsed)):
		r, err := ref.Parse[ref.AttendedKind](id)
		if err != nil {
			return
		}
		tx.AfterCommit(func() {
			b.mu.Lock()
			all := b.onArm
			b.mu.Unlock()
			for _, f := range all {
				f(r, why)
			}
		})
	case n == &calls:
		c, err := controlv1.ParseID(id)
		if err != nil {
			return
		}
		tx.AfterCommit(func() {
			b.mu.Lock()
			all := b.onAny
			b.mu.Unlock()
			for _, f := range all {
				f(c, CallState(state))
			}
		})
	}
}
