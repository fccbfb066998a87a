package oauth

import (
	"context"
	"strings"
	"time"

	"chaperone/internal/audit"
)

// Client is a program that may ask a person.
type Client struct {
	ID        string // ours, or the https URL of its metadata document
	Name      string // its own word for itself, "" where it gave none
	Redirects []string
	Document  bool      // its host's owner vouches for it, since the host served the document
	Created   time.Time // of a registration
	Expires   time.Time // of a registration that nobody consents to
}

// Admits tells whether it may be sent back to uri; see admits.
func (c Client) Admits(uri string) bool { return admits(c.Redirects, uri) }

// Register adds a client by RFC 7591: public, without a secret, good for a day
// until somebody consents to it. With Options.MaxClients of those, the oldest one
// that nobody consented to makes room. Errors are those of readMetadata.
func (b *Book) Register(ctx context.Context, body []byte) (Client, error) {
	m, err := readMetadata(body)
	if err != nil {
		return Client{}, err
	}
	now := time.Now()
	c := Client{handle(clientPrefix), m.Name, m.Redirects, false, now, now.Add(unusedLife)}
	return c, b.db.Update(ctx, func(tx *tx) error { return b.admit(tx, c, now) })
}

// Client answers a client that may ask. One that was never registered, or whose
// time is over, is [refusal.Unknown]. A URL's document is fetched where what is
// known of it is over ten minutes old; where that fails, so does Client.
func (b *Book) Client(ctx context.Context, id string) (Client, error) {
	document := strings.HasPrefix(id, "https://")
	if document {
		if err := checkClientID(id); err != nil {
			return Client{}, err
		}
	}
	c, read, err := b.stored(ctx, id)
	if err != nil || !document && c.ID != "" || c.ID != "" && time.Since(read) < documentLife {
		return c, err
	}
	if !document {
		return Client{}, unknown("client")
	}
	return b.readDocument(ctx, id)
}

// stored answers the row of a client whose time isn't over, and when its document
// was read. A zero Client is none.
func (b *Book) stored(ctx context.Context, id string) (c Client, read time.Time, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		var kind, redirects string
		var created, fetched, expires int64
		known, err := tx.One(`select kind, name, redirects, created_ms, read_ms, expires_ms from oauth_client
			where hash=$1 and expires_ms>$2`, []any{b.key(id), time.Now().UnixMilli()},
			&kind, &c.Name, &redirects, &created, &fetched, &expires)
		if err != nil || !known {
			return err
		}
		c.ID, c.Document, read = id, kind == "document", time.UnixMilli(fetched)
		c.Created, c.Expires = time.UnixMilli(created), time.UnixMilli(expires)
		c.Redirects, err = readList(redirects)
		return err
	})
	return c, read, err
}

// readDocument fetches a client's document and remembers what it says.
func (b *Book) readDocument(ctx context.Context, id string) (Client, error) {
	data, err := b.fetch.read(ctx, id)
	if err != nil {
		return Client{}, err
	}
	m, err := readMetadata(data)
	switch {
	case err != nil:
		return Client{}, err
	case m.ClientID != id:
		return Client{}, refuseDocument("its client_id is another")
	case m.Secret != nil || m.Method != nil && *m.Method != "none":
		return Client{}, refuseDocument("it isn't a public client's")
	}
	now := time.Now()
	c := Client{id, m.Name, m.Redirects, true, now, now.Add(unusedLife)}
	return c, b.db.Update(ctx, func(tx *tx) error {
		rows, err := tx.Exec(`update oauth_client set name=$1, redirects=$2, read_ms=$3,
			expires_ms=case when expires_ms>$4 then expires_ms else $4 end where hash=$5`,
			c.Name, list(c.Redirects), now.UnixMilli(), c.Expires.UnixMilli(), b.key(id))
		if err != nil || rows == 1 {
			return err
		}
		return b.admit(tx, c, now)
	})
}

// admit inserts a client and makes room for it.
func (b *Book) admit(tx *tx, c Client, now time.Time) error {
	if err := b.makeRoom(tx, now); err != nil {
		return err
	}
	kind := "registered"
	if c.Document {
		kind = "document"
	}
	_, err := tx.Exec(`insert into oauth_client (hash, id, tenant, kind, state, name, redirects, created_ms, read_ms, expires_ms, moved_ms)
		values ($1,$2,$3,$4,$5,$6,$7,$8,$8,$9,$8)`, b.key(c.ID), c.ID, b.tenant, kind, born(aClient, verbRegister), c.Name, list(c.Redirects),
		now.UnixMilli(), c.Expires.UnixMilli())
	if err != nil {
		return err
	}
	return b.tell(tx, event{verb: verbRegister, client: c.ID, public: []audit.Field{audit.Word("kind", kind), audit.Count("redirects", len(c.Redirects))},
		sealed: []audit.Sealed{audit.Seal("name", c.Name)}})
}

// makeRoom forgets clients that are over and, at the cap, the oldest of those
// without consent: a flood of registrations pushes out registrations, never a
// client that somebody uses.
func (b *Book) makeRoom(tx *tx, now time.Time) error {
	if _, err := b.forget(tx, `expires_ms<=$2`, now.UnixMilli()); err != nil {
		return err
	}
	var waiting int
	if err := tx.QueryRow(`select count(*) from oauth_client where tenant=$1 and state='registered'`, b.tenant).Scan(&waiting); err != nil {
		return err
	}
	if waiting < b.most {
		return nil
	}
	_, err := b.forget(tx, `hash in (select hash from oauth_client where tenant=$1 and state='registered' order by created_ms, hash limit $2)`, waiting-b.most+1)
	return err
}

// forget removes clients; their families live on by themselves.
func (b *Book) forget(tx *tx, which string, arg any) (int64, error) {
	rows, err := tx.Exec(`delete from oauth_client where tenant=$1 and `+which, b.tenant, arg)
	if err != nil || rows == 0 {
		return 0, err
	}
	return rows, b.tell(tx, event{verb: verbForget, public: []audit.Field{audit.Count("clients", rows)}})
}

// key is a client's row: one document may be a client of several tenants.
func (b *Book) key(id string) string { return digest(b.tenant + "\x00" + id) }

// trust notes that somebody consented to a client, which keeps it.
func (b *Book) trust(tx *tx, id string) error {
	var state State
	known, err := tx.One(`select state from oauth_client where hash=$1`, []any{b.key(id)}, &state)
	if err != nil || !known { // pushed out meanwhile: the approval needs no row of it
		return err
	}
	if state == Registered {
		if err := move(tx, aClient, b.key(id), verbTrust); err != nil {
			return err
		}
	}
	_, err = tx.Exec(`update oauth_client set expires_ms=$1 where hash=$2`, time.Now().Add(consentLife).UnixMilli(), b.key(id))
	return err
}
