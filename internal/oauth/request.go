package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

const (
	maxState   = 1024   // bytes of a client's state
	maxPending = 10_000 // requests that wait for an answer
)

// Ask is a checked request for authorization: a client that Book.Client answered,
// a redirect URI that it admits, a challenge by S256.
type Ask struct {
	Client    Client
	Redirect  string
	State     string // the client's own, given back as it is; "" for none
	Challenge string // base64url of SHA-256: 43 characters
	Scopes    []string
	Resource  string // "" is the one that there is
}

// Pending is what a person is asked.
type Pending struct {
	ID       string
	Client   Client // its id and name, and whether a document vouches for it
	Redirect string
	Scopes   []string
	Expires  time.Time
}

// Approval is a person's yes.
type Approval struct {
	Actor      string
	Roles      []string
	Scopes     []string  // of those asked, at least one
	Connection string    // made for this approval alone
	Ends       time.Time // at most [MaxLife] from now
}

// Begin records a request and answers its id, which is no secret but isn't
// guessed either. Anything that Ask can't hold is [refusal.BadDocument], a
// redirect URI that isn't the client's [refusal.BadRedirect], another resource
// [refusal.BadResource].
func (b *Book) Begin(ctx context.Context, a Ask) (string, error) {
	switch {
	case a.Client.ID == "" || !a.Client.Admits(a.Redirect):
		return "", fmt.Errorf("authorization request: %w", refusal.BadRedirect)
	case !isChallenge(a.Challenge) || len(a.State) > maxState || !printable(a.State) || len(a.Scopes) == 0 || !within(a.Scopes, Scopes):
		return "", fmt.Errorf("authorization request: %w", refusal.BadDocument)
	case a.Resource != "" && a.Resource != b.resource:
		return "", fmt.Errorf("authorization request: %w", refusal.BadResource)
	}
	id, now := handle(""), time.Now()
	err := b.db.Update(ctx, func(tx *tx) error {
		var waiting int
		err := tx.QueryRow(`select count(*) from oauth_request where tenant=$1 and state='waiting' and expires_ms>$2`, b.tenant, now.UnixMilli()).Scan(&waiting)
		if err == nil && waiting >= maxPending {
			err = fmt.Errorf("authorization requests: %w", refusal.TooMany)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(`insert into oauth_request (id, tenant, client, client_name, document, redirect, client_state, challenge, scopes, state,
			actor, created_ms, expires_ms, moved_ms) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,'',$11,$12,$11)`,
			id, b.tenant, a.Client.ID, a.Client.Name, flag(a.Client.Document), a.Redirect, a.State, a.Challenge, strings.Join(a.Scopes, " "),
			born(aRequest, verbAsk), now.UnixMilli(), now.Add(RequestLife).UnixMilli())
		if err != nil {
			return err
		}
		return b.tell(tx, event{verb: verbAsk, subject: id, client: a.Client.ID, sealed: []audit.Sealed{audit.Seal("redirect_host", RedirectHost(a.Redirect))}})
	})
	return id, err
}

// row is a request as it stands.
type request struct {
	Pending
	state       State
	clientState string
	challenge   string
}

// read answers a request; one that time has ended is told as expired.
func (b *Book) read(tx *tx, id string) (request, error) {
	var r request
	var document, expires int64
	var scopes string
	known, err := tx.One(`select client, client_name, document, redirect, client_state, challenge, scopes, state, expires_ms
		from oauth_request where tenant=$1 and id=$2`, []any{b.tenant, id},
		&r.Client.ID, &r.Client.Name, &document, &r.Redirect, &r.clientState, &r.challenge, &scopes, &r.state, &expires)
	if err == nil && !known {
		err = unknown("authorization request")
	}
	r.ID, r.Client.Document, r.Scopes, r.Expires = id, document == 1, strings.Fields(scopes), time.UnixMilli(expires)
	return r, err
}

// check refuses a request that nobody can answer any more.
func (r request) check() error {
	switch {
	case r.state == Expired || r.state == Waiting && !time.Now().Before(r.Expires):
		return fmt.Errorf("authorization request: %w", refusal.Expired)
	case r.state != Waiting:
		return fmt.Errorf("authorization request was answered before: %w", refusal.Conflict)
	}
	return nil
}

// Request answers what a person is asked. One that was answered is
// [refusal.Conflict], one past its ten minutes [refusal.Expired].
func (b *Book) Request(ctx context.Context, id string) (Pending, error) {
	var r request
	err := b.db.View(ctx, func(tx *tx) (err error) {
		if r, err = b.read(tx, id); err != nil {
			return err
		}
		return r.check()
	})
	return r.Pending, err
}

// Approve records a person's yes: the request is answered, the family is born and
// a code issued, in one transaction. It answers where the browser goes next.
// Of any number of answers one wins; refusals are those of Request.
func (b *Book) Approve(ctx context.Context, id string, a Approval) (string, error) {
	now := time.Now()
	if a.Actor == "" || a.Connection == "" || len(a.Scopes) == 0 || !a.Ends.After(now) || a.Ends.After(now.Add(MaxLife)) {
		return "", fmt.Errorf("approval: %w", refusal.BadDocument)
	}
	code := secret(codePrefix)
	return b.answer(ctx, id, a.Actor, verbApprove, func(tx *tx, r request) (url.Values, error) {
		if !within(a.Scopes, r.Scopes) {
			return nil, fmt.Errorf("approval of more than was asked: %w", refusal.BadDocument)
		}
		f := family{id: handle(""), kind: "consent", client: r.Client.ID, name: r.Client.Name, actor: a.Actor, roles: list(a.Roles),
			scopes: strings.Join(a.Scopes, " "), resource: b.resource, connection: a.Connection, ends: a.Ends.UnixMilli()}
		if err := b.found(tx, f, verbApprove, now); err != nil {
			return nil, err
		}
		if err := b.trust(tx, f.client); err != nil {
			return nil, err
		}
		_, err := tx.Exec(`insert into oauth_code (hash, tenant, family, request, client, redirect, challenge, state, issued_ms, expires_ms, moved_ms)
			values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$9)`, digest(code), b.tenant, f.id, id, f.client, r.Redirect, r.challenge,
			born(aCode, verbApprove), now.UnixMilli(), now.Add(CodeLife).UnixMilli())
		return url.Values{"code": {code}}, err
	})
}

// Deny records a person's no and answers where the browser goes next.
func (b *Book) Deny(ctx context.Context, id, actor string) (string, error) {
	return b.answer(ctx, id, actor, verbDeny, func(tx *tx, r request) (url.Values, error) {
		err := b.tell(tx, event{verb: verbDeny, actor: actor, subject: id, client: r.Client.ID, code: refusal.Cancelled})
		return url.Values{"error": {"access_denied"}}, err
	})
}

// answer moves a request by v with what f does, or by expiry.
func (b *Book) answer(ctx context.Context, id, actor string, v verb, f func(*tx, request) (url.Values, error)) (next string, err error) {
	var late error
	err = b.db.Update(ctx, func(tx *tx) error {
		late = nil
		r, err := b.read(tx, id)
		if err != nil {
			return err
		}
		if late = r.check(); late != nil {
			if r.state != Waiting || !errors.Is(late, refusal.Expired) {
				return late
			}
			if err := move(tx, aRequest, id, verbExpire); err != nil {
				return err
			}
			return b.tell(tx, event{verb: verbExpire, subject: id, client: r.Client.ID, code: refusal.Expired})
		}
		if err := move(tx, aRequest, id, v); err != nil {
			return err
		}
		if _, err := tx.Exec(`update oauth_request set actor=$1 where id=$2`, actor, id); err != nil {
			return err
		}
		answer, err := f(tx, r)
		if err != nil {
			return err
		}
		next = b.back(r.Redirect, r.clientState, answer)
		return nil
	})
	if err = errors.Join(err, late); err != nil {
		return "", err
	}
	return next, nil
}

// back makes the URL that a client is answered at, with its state and the issuer
// (RFC 9207).
func (b *Book) back(redirect, state string, answer url.Values) string {
	if state != "" {
		answer.Set("state", state)
	}
	answer.Set("iss", strings.TrimSuffix(b.resource, "/mcp"))
	separator := "?"
	if strings.Contains(redirect, "?") {
		separator = "&"
	}
	return redirect + separator + answer.Encode()
}

// Back is where a client is told of an error, at a redirect URI that it admits.
func (b *Book) Back(c Client, redirect, state, code string) (string, bool) {
	if !c.Admits(redirect) {
		return "", false
	}
	if len(state) > maxState || !printable(state) {
		state = ""
	}
	return b.back(redirect, state, url.Values{"error": {code}}), true
}

func isChallenge(s string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return err == nil && len(raw) == sha256.Size
}

// printable is what RFC 6749 lets a state hold (appendix A.5).
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// proves tells whether a verifier is the one that a challenge was made of (RFC
// 7636, section 4.6).
func proves(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 ||
		strings.Trim(verifier, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~") != "" {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
