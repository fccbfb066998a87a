package oauth

import (
	"fmt"
	"time"

	"chaperone/internal/refusal"
)

// State is where a record stands; each kind of record has its own of them.
type State string

const (
	// Absent is the state before the first and after the last: no such row.
	Absent State = ""

	// Registered is a client that nobody has consented to yet.
	Registered State = "registered"
	// Trusted is a client that somebody has consented to.
	Trusted State = "trusted"

	// Waiting is a request that waits for a person's answer.
	Waiting State = "waiting"
	// Approved is a request that came to a code; final.
	Approved State = "approved"
	// Denied is a request that a person refused; final.
	Denied State = "denied"
	// Expired is a request, a code or a family that time has ended; final.
	Expired State = "expired"

	// Issued is a code that waits for its one use.
	Issued State = "issued"
	// Redeemed is a code that became tokens.
	Redeemed State = "redeemed"
	// Replayed is a code that was shown again after its use; final.
	Replayed State = "replayed"

	// Live is a family whose tokens act, or a token of one.
	Live State = "live"
	// Revoked is a family that a person or its client ended; final.
	Revoked State = "revoked"
	// Burned is a family of which a spent secret was shown again; final.
	Burned State = "burned"
	// Rotated is a refresh token that became the next one; final.
	Rotated State = "rotated"
)

// record is a kind of record with a state.
type record string

const (
	aClient  record = "client"
	aRequest record = "request"
	aCode    record = "code"
	aFamily  record = "family"
	aToken   record = "token"
)

// verb names a move, in the audit's words.
type verb string

const (
	verbRegister verb = "registered"
	verbTrust    verb = "trusted"
	verbForget   verb = "forgotten"
	verbAsk      verb = "asked"
	verbApprove  verb = "approved"
	verbDeny     verb = "denied"
	verbExpire   verb = "expired"
	verbRedeem   verb = "redeemed"
	verbReplay   verb = "replayed"
	verbIssue    verb = "issued"
	verbRefresh  verb = "refreshed"
	verbRevoke   verb = "revoked"
	verbBurn     verb = "burned"
)

// step is one line of the table.
type step struct {
	record   record
	verb     verb
	from, to State
}

// moves is every way in which a record changes its state. There is no other.
var moves = []step{
	{aClient, verbRegister, Absent, Registered},
	{aClient, verbTrust, Registered, Trusted},
	{aClient, verbForget, Registered, Absent},
	{aClient, verbForget, Trusted, Absent},

	{aRequest, verbAsk, Absent, Waiting},
	{aRequest, verbApprove, Waiting, Approved},
	{aRequest, verbDeny, Waiting, Denied},
	{aRequest, verbExpire, Waiting, Expired},

	{aCode, verbApprove, Absent, Issued},
	{aCode, verbRedeem, Issued, Redeemed},
	{aCode, verbExpire, Issued, Expired},
	{aCode, verbReplay, Redeemed, Replayed},

	{aFamily, verbApprove, Absent, Live},
	{aFamily, verbIssue, Absent, Live},
	{aFamily, verbRevoke, Live, Revoked},
	{aFamily, verbBurn, Live, Burned},
	{aFamily, verbExpire, Live, Expired},

	{aToken, verbRedeem, Absent, Live},
	{aToken, verbIssue, Absent, Live},
	{aToken, verbRefresh, Absent, Live},
	{aToken, verbRefresh, Live, Rotated},
}

// updates holds the statement that moves each kind of record.
var updates = map[record]string{
	aClient:  `update oauth_client set state=$1, moved_ms=$2 where hash=$3 and state=$4`,
	aRequest: `update oauth_request set state=$1, moved_ms=$2 where id=$3 and state=$4`,
	aCode:    `update oauth_code set state=$1, moved_ms=$2 where hash=$3 and state=$4`,
	aFamily:  `update oauth_family set state=$1, moved_ms=$2 where id=$3 and state=$4`,
	aToken:   `update oauth_token set state=$1, moved_ms=$2 where hash=$3 and state=$4`,
}

// move is the only writer of a state. A record that doesn't stand where v starts
// from is a [refusal.Conflict], and nothing is changed.
func move(tx *tx, r record, key string, v verb) error {
	for _, m := range moves {
		if m.record != r || m.verb != v || m.from == Absent || m.to == Absent {
			continue
		}
		rows, err := tx.Exec(updates[r], string(m.to), time.Now().UnixMilli(), key, string(m.from))
		if err != nil || rows == 1 {
			return err
		}
	}
	return fmt.Errorf("the %s can't be %s now: %w", r, v, refusal.Conflict)
}

// born answers the state that a record's first verb leads to.
func born(r record, v verb) string {
	for _, m := range moves {
		if m.record == r && m.verb == v && m.from == Absent {
			return string(m.to)
		}
	}
	panic("oauth: " + string(v) + " doesn't begin a " + string(r))
}
