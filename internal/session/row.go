package session

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

const columns = `id, tenant, cookie_hash, key_hash, browser, login, actor, name, issuer, subject, sid, acr, auth_ms, recovery,
	roles, agent, generation, access_ms, created_ms, used_ms, end_ms, origin, sealed`

// one reads the one session that a condition names; sql.ErrNoRows where none is.
func one(tx *tx, where string, args ...any) (Session, string, error) {
	return read(tx.QueryRow(`select `+columns+` from session where `+where, args...).Scan)
}

// read reads a row of columns.
func read(scan func(...any) error) (s Session, sealed string, err error) {
	var browser, login, list string
	var auth, recovery, access, created, used, end int64
	err = scan(&s.ID, &s.Tenant, &s.cookieHash, &s.keyHash, &browser, &login, &s.Actor, &s.Name, &s.Issuer, &s.Subject, &s.SID,
		&s.ACR, &auth, &recovery, &list, &s.Agent, &s.Generation, &access, &created, &used, &end, &s.Origin, &sealed)
	if err != nil {
		return Session{}, "", err
	}
	if s.Browser, err = ref.Parse[ref.BrowserKind](browser); err != nil {
		return Session{}, "", err
	}
	if s.Login, err = ref.Parse[ref.LoginKind](login); err != nil {
		return Session{}, "", err
	}
	if err := json.Unmarshal([]byte(list), &s.Roles); err != nil {
		return Session{}, "", fmt.Errorf("a session's roles don't decode: %w", refusal.Tampered)
	}
	s.AuthTime, s.AccessUntil, s.Recovery = moment(auth), moment(access), recovery != 0
	s.Created, s.Used, s.End = time.UnixMilli(created), time.UnixMilli(used), time.UnixMilli(end)
	s.IdleEnd = idleEnd(s.Used, s.End)
	return s, sealed, nil
}

// insert writes a new session's row.
func insert(tx *tx, s Session, t Tokens, cookie string) error {
	list, sealed, err := encoded(s, t, cookie)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`insert into session (id, tenant, cookie_hash, key_hash, browser, login, actor, name, issuer, subject, sid, acr,
		auth_ms, recovery, roles, agent, generation, sealed, access_ms, state, reason, created_ms, used_ms, end_ms, ended_ms, origin)
		values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,'',$21,$22,$23,0,$24)`,
		s.ID, s.Tenant, s.cookieHash, s.keyHash, s.Browser.String(), s.Login.String(), s.Actor, s.Name, s.Issuer, s.Subject, s.SID, s.ACR,
		millis(s.AuthTime), number(s.Recovery), list, s.Agent, s.Generation, sealed, millis(s.AccessUntil), string(Active),
		s.Created.UnixMilli(), s.Used.UnixMilli(), s.End.UnixMilli(), s.Origin)
	return err
}

// rewrite writes what a step-up changed, where the old cookie still stood.
func rewrite(tx *tx, s Session, oldHash, cookie string) error {
	list, sealed, err := encoded(s, s.tokens, cookie)
	if err != nil {
		return err
	}
	rows, err := tx.Exec(`update session set cookie_hash=$1, login=$2, name=$3, sid=$4, acr=$5, auth_ms=$6, recovery=$7, roles=$8,
		generation=$9, sealed=$10, access_ms=$11, used_ms=$12 where id=$13 and cookie_hash=$14`,
		s.cookieHash, s.Login.String(), s.Name, s.SID, s.ACR, millis(s.AuthTime), number(s.Recovery), list,
		s.Generation, sealed, millis(s.AccessUntil), s.Used.UnixMilli(), s.ID, oldHash)
	if err == nil && rows != 1 {
		err = expired()
	}
	return err
}

// encoded answers a row's two encoded columns.
func encoded(s Session, t Tokens, cookie string) (list, sealed string, err error) {
	if s.Roles == nil {
		s.Roles = []string{}
	}
	data, err := json.Marshal(s.Roles)
	if err != nil || t == (Tokens{}) {
		return string(data), "", err
	}
	text, err := json.Marshal(t)
	return string(data), seal(cookie, "tokens", string(text)), err
}

// label makes a User-Agent into what a person's own list may show: printable,
// at most 200 bytes.
func label(agent string) string {
	agent = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, agent)
	for len(agent) > 200 {
		_, n := utf8.DecodeLastRuneInString(agent)
		agent = agent[:len(agent)-n]
	}
	return agent
}

// millis is 0 for no time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// moment is the reverse of millis.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
