package credential

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/go-webauthn/webauthn/webauthn"

	"chaperone/internal/refusal"
)

// challengeLife is how long a person has to touch their authenticator.
const challengeLife = 5 * time.Minute

// maxResponse bounds what an authenticator answers, in bytes.
const maxResponse = 64 << 10

// What a challenge is for. A challenge of one kind is unknown to the others.
const (
	forEnrol = "enrol" // bound to a link
	forAdd   = "add"   // bound to a person
	forLogin = "login" // bound to an authorization request
)

// keep stores a challenge by its hash, until it is answered or too old.
func (b *Book) keep(ctx context.Context, purpose, binding string, s *webauthn.SessionData) error {
	b.sweepNow(ctx)
	challenge := s.Challenge
	s.Challenge = "" // comes back with the answer; here only its hash stands
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return b.db.Update(ctx, func(tx *tx) error {
		_, err := tx.Exec(`insert into webauthn_challenge (challenge_hash, tenant, purpose, binding, body, until_ms) values ($1,$2,$3,$4,$5,$6)`,
			hash(challenge), b.tenant, purpose, binding, string(body), time.Now().Add(challengeLife).UnixMilli())
		return err
	})
}

// spend takes the challenge that an answer carries out of the database, in the
// transaction that judges the answer. It answers false for one that isn't there,
// is for something else, or is too old; of any number of racers exactly one
// gets it.
func (b *Book) spend(tx *tx, challenge, purpose, binding string) (s webauthn.SessionData, ok bool, err error) {
	var body string
	var until int64
	err = tx.QueryRow(`select body, until_ms from webauthn_challenge where challenge_hash=$1 and tenant=$2 and purpose=$3 and binding=$4`,
		hash(challenge), b.tenant, purpose, binding).Scan(&body, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	rows, err := tx.Exec(`delete from webauthn_challenge where challenge_hash=$1`, hash(challenge))
	if err != nil || rows != 1 || time.Now().UnixMilli() >= until {
		return s, false, err
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		return s, false, fmt.Errorf("a kept challenge doesn't decode: %w", refusal.Tampered)
	}
	s.Challenge = challenge
	return s, true, nil
}

// plain refuses an answer that isn't one strict JSON object of bounded size,
// before the library, which is more lenient, reads it.
func plain(response []byte) error {
	v := jsontext.Value(response)
	if len(response) > maxResponse || !v.IsValid() || v.Kind() != '{' {
		return denied()
	}
	return nil
}
