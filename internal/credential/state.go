package credential

import "fmt"

// State is where a person, a link, a code or a request stands.
type State string

const (
	// Active is a person who may sign in, or a token that is good.
	Active State = "active"
	// Disabled is a person who may not.
	Disabled State = "disabled"
	// Revoked is a token that is no longer good.
	Revoked State = "revoked"

	// Unused is a link or recovery code that nobody has used.
	Unused State = "unused"
	// Used is one that was, and is good for nothing.
	Used State = "used"
	// Replaced is a recovery code that a newer set has taken the place of.
	Replaced State = "replaced"

	// Waiting is an authorization request that waits for a person.
	Waiting State = "waiting"
	// Answered has a person, and no code yet.
	Answered State = "answered"
	// Coded has handed out its one code.
	Coded State = "coded"
	// Spent has had its code exchanged.
	Spent State = "spent"
	// Replayed had its code shown again afterwards; its tokens are revoked.
	Replayed State = "replayed"
)

// moves is every way in which a row of each table changes its state, and in which
// it is born (from ""). There is no other.
var moves = map[string][]struct{ from, to State }{
	"person":        {{"", Active}, {Active, Disabled}, {Disabled, Active}},
	"enrolment":     {{"", Unused}, {Unused, Used}},
	"recovery_code": {{"", Unused}, {Unused, Used}, {Unused, Replaced}},
	"idp_request":   {{"", Waiting}, {Waiting, Answered}, {Answered, Coded}, {Coded, Spent}, {Spent, Replayed}},
	"idp_token":     {{"", Active}, {Active, Revoked}},
}

// keys names each table's key column.
var keys = map[string]string{
	"person": "id", "enrolment": "secret_hash", "recovery_code": "code_hash", "idp_request": "id", "idp_token": "token_hash",
}

// move is the only writer of a state. It tells whether this call moved the row:
// of any number of racers exactly one is told so.
func move(tx *tx, table, key string, from, to State) (bool, error) {
	for _, m := range moves[table] {
		if m.from == from && m.to == to && from != "" {
			rows, err := tx.Exec(`update `+table+` set state=$1 where `+keys[table]+`=$2 and state=$3`, string(to), key, string(from))
			return rows == 1, err
		}
	}
	panic(fmt.Sprintf("credential: %s has no move from %s to %s", table, from, to))
}
