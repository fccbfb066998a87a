package ledger

import (
	"fmt"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Transport is how a caller comes.
type Transport string

const (
	// Bearer is an app with a token, over HTTP MCP.
	Bearer Transport = "bearer"
	// Browser is an agent in the owner's own page, through WebMCP.
	Browser Transport = "browser"
	// Owner is the person, in the portal. It needs no connection.
	Owner Transport = "owner"
)

// Where a connection comes from.
const (
	FromConsent = "oauth-consent"
	FromBrowser = "owner-browser"
)

// ConnectionState is where a grant stands.
type ConnectionState string

const (
	// Live can be used until it expires.
	Live ConnectionState = "live"
	// Off is a browser's grant that its owner disabled; the same session can
	// enable it again.
	Off ConnectionState = "disabled"
	// Ended is over: its session is.
	Ended ConnectionState = "ended"
	// Revoked is over: its owner took it back.
	Revoked ConnectionState = "revoked"
	// Lapsed is over: it expired.
	Lapsed ConnectionState = "expired"
)

const (
	connectionMade     verb = "connected"
	connectionEnabled  verb = "enabled"
	connectionSelected verb = "selected"
	connectionDisabled verb = "disabled"
	connectionEnded    verb = "ended"
	connectionRevoked  verb = "revoked"
	connectionExpired  verb = "expired"
)

// connectionMoves is every way in which a grant changes; each makes another
// generation of it.
var connectionMoves = []step[ConnectionState]{
	{connectionMade, "", Live},
	{connectionEnabled, "", Live},
	{connectionEnabled, Off, Live},
	{connectionSelected, Live, Live},
	{connectionDisabled, Live, Off},
	{connectionEnded, Live, Ended},
	{connectionEnded, Off, Ended},
	{connectionRevoked, Live, Revoked},
	{connectionRevoked, Off, Revoked},
	{connectionExpired, Live, Lapsed},
	{connectionExpired, Off, Lapsed},
}

// Over tells whether a grant in this state can never be used again.
func (s ConnectionState) Over() bool { return s == Ended || s == Revoked || s == Lapsed }

// Connection is a grant over exact collections and exact functions.
type Connection struct {
	ID         string // 32 hex
	Actor      string
	Transport  Transport
	Provenance string
	Session    string // browser: the session that it is bound to
	Client     string // bearer: the app's id
	ClientName string // bearer: what the app calls itself; somebody else's text
	State      ConnectionState
	Generation int64 // from 1, another with each change
	Selection  []tool.Selected
	Created    time.Time
	Expires    time.Time
	Revoked    time.Time // zero until it is over
	Used       time.Time // zero until it is used
}

const connectionColumns = `connection, actor, transport, provenance, session, client, client_name, state, generation, created_ms, expires_ms, revoked_ms, used_ms`

func (c *Connection) scan(row store.Scanner) error {
	var created, expires, revoked, used int64
	err := row.Scan(&c.ID, &c.Actor, &c.Transport, &c.Provenance, &c.Session, &c.Client, &c.ClientName, &c.State, &c.Generation,
		&created, &expires, &revoked, &used)
	c.Created, c.Expires, c.Revoked, c.Used = at(created), at(expires), at(revoked), at(used)
	return err
}

// find answers the rows of connections, newest first, without their selections.
func (b *Book) find(tx *tx, where string, args ...any) (out []Connection, err error) {
	args = append([]any{b.tenant}, args...)
	err = tx.Each(`select `+connectionColumns+` from portal_connection where tenant=$1 and `+where+
		` order by created_ms desc, generation desc, connection`, args, func(r store.Scanner) error {
		var c Connection
		if err := c.scan(r); err != nil {
			return err
		}
		out = append(out, c)
		return nil
	})
	return out, err
}

// insert writes a new connection in the state that v begins with.
func (b *Book) insert(tx *tx, c Connection, v verb, now time.Time) error {
	_, err := tx.Exec(`insert into portal_connection (connection, tenant, actor, transport, provenance, session, client, client_name,
		state, generation, created_ms, expires_ms, revoked_ms, used_ms, moved_ms) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,0,0,$11)`,
		c.ID, b.tenant, c.Actor, string(c.Transport), c.Provenance, c.Session, c.Client, c.ClientName,
		string(born(connectionMoves, v)), c.Generation, now.UnixMilli(), c.Expires.UnixMilli())
	if err != nil {
		return err
	}
	digest, err := selectionDigest(tx, c.ID)
	if err != nil {
		return err
	}
	e := event{kind: string(v), actor: c.Actor, subject: c.ID, public: []audit.Field{audit.Word("transport", c.Transport),
		audit.Count("generation", c.Generation), audit.Digest("selection", digest), audit.Count("expires_ms", c.Expires.UnixMilli())}}
	if c.Session != "" {
		e.public = append(e.public, audit.ID("session", audit.Name(c.Session)))
	}
	if c.Client != "" {
		e.sealed = []audit.Sealed{audit.Seal("client", clip(c.Client, audit.MaxSealed))}
	}
	return b.tell(tx, e)
}

// clip cuts a text to most bytes at a character's boundary.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most]
}

// move is the only writer of a grant's state and generation. It compares both
// with those of c, which its caller read, and takes the reviews that were open
// under the old generation with it. A grant that stands where v doesn't start
// from is a [refusal.Conflict].
func (b *Book) move(tx *tx, c *Connection, v verb, why refusal.Code, now time.Time) error {
	to, ok := goes(connectionMoves, v, c.State)
	if !ok {
		return fmt.Errorf("connection is %s and can't be %s: %w", c.State, v, refusal.Conflict)
	}
	revoked := int64(0)
	if to.Over() {
		revoked = now.UnixMilli()
	}
	rows, err := tx.Exec(`update portal_connection set state=$1, generation=$2, revoked_ms=$3, moved_ms=$4, expires_ms=$5
		where connection=$6 and state=$7 and generation=$8`, string(to), c.Generation+1, revoked, now.UnixMilli(), c.Expires.UnixMilli(),
		c.ID, string(c.State), c.Generation)
	if err != nil {
		return err
	}
	if rows != 1 {
		return fmt.Errorf("connection changed meanwhile: %w", refusal.Conflict)
	}
	c.State, c.Generation = to, c.Generation+1
	if err := b.cancelReviews(tx, c.ID, now); err != nil {
		return err
	}
	digest, err := selectionDigest(tx, c.ID)
	if err != nil {
		return err
	}
	return b.tell(tx, event{kind: string(v), actor: c.Actor, subject: c.ID, code: why, public: []audit.Field{
		audit.Word("transport", c.Transport), audit.Count("generation", c.Generation), audit.Digest("selection", digest),
		audit.Count("expires_ms", c.Expires.UnixMilli())}})
}
