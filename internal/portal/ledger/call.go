package ledger

import (
	"context"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Call is one of an account's recent calls: what the Automation hub lists.
type Call struct {
	At         time.Time
	Tool       tool.Name
	Collection string // "" for collections_list, and where the arguments named none
	Effect     tool.Effect
	Code       refusal.Code // "" where it went well
	Transport  Transport
	Connection string
	RequestID  string // of a change
	Receipt    string // of a change
	Digest     string // of {tool, arguments}, for the log alone; "" where they didn't decode
}

// record writes c into the account's ring, over the oldest.
func (b *Book) record(tx *tx, who Caller, connection string, c Call, now time.Time) error {
	rows, err := tx.Exec(`update portal_account set calls=calls+1 where tenant=$1 and actor=$2`, b.tenant, who.Actor)
	if err != nil || rows == 0 {
		return err // nobody's account: nobody looks at its calls
	}
	var number int64
	if err := tx.QueryRow(`select calls from portal_account where tenant=$1 and actor=$2`, b.tenant, who.Actor).Scan(&number); err != nil {
		return err
	}
	t, _ := tool.Lookup(string(c.Tool))
	_, err = tx.Exec(`insert into portal_call (tenant, actor, slot, number, at_ms, tool, collection, effect, code, transport, connection, request_id, receipt)
		values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13) on conflict (tenant, actor, slot) do update set number=excluded.number, at_ms=excluded.at_ms,
		tool=excluded.tool, collection=excluded.collection, effect=excluded.effect, code=excluded.code, transport=excluded.transport,
		connection=excluded.connection, request_id=excluded.request_id, receipt=excluded.receipt`,
		b.tenant, who.Actor, number%Ring, number, now.UnixMilli(), string(c.Tool), c.Collection, string(t.Effect), string(c.Code),
		string(who.Transport), connection, c.RequestID, c.Receipt)
	if err != nil {
		return err
	}
	if connection != OwnerConnection {
		_, err = tx.Exec(`update portal_connection set used_ms=$1 where connection=$2 and used_ms<$1`, now.UnixMilli(), connection)
	}
	return err
}

// Told records a read that a caller of that grant is about to be answered. The
// grant is judged again, with the collection: what came back late, after a sign-out
// or another selection, is refused and goes to nobody.
func (b *Book) Told(ctx context.Context, c Caller, g Grant, call Call) error {
	return b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		c.Connection, c.Generation = g.Connection, g.Generation
		if c.Transport == Owner {
			c.Connection = ""
		}
		if _, err := b.grant(tx, c, now); err != nil {
			return err
		}
		// A change that is told again was judged by its claim.
		if call.Collection != "" && call.Code == "" && call.Receipt == "" {
			if _, off, err := b.reach(tx, c, g, call.Collection, call.Tool); err != nil || off != nil {
				return first(err, off)
			}
		}
		return b.note(tx, c, g.Connection, call, now)
	})
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Refuse records a call that was refused before anything was begun, where its
// connection is known; its caller learns nothing by it.
func (b *Book) Refuse(ctx context.Context, c Caller, call Call) error {
	return b.db.Update(ctx, func(tx *tx) error {
		connection := c.Connection
		if c.Transport == Browser {
			stands, err := b.ofSession(tx, c.Session, c.Actor)
			if err != nil {
				return err
			}
			connection = stands.ID
		} else if all, err := b.find(tx, `connection=$2 and actor=$3`, connection, c.Actor); err != nil || len(all) == 0 {
			return err
		}
		if connection == "" {
			return nil
		}
		return b.note(tx, c, connection, call, time.Now())
	})
}

// note records a call that has no request of its own.
func (b *Book) note(tx *tx, c Caller, connection string, call Call, now time.Time) error {
	if err := b.record(tx, c, connection, call, now); err != nil {
		return err
	}
	public := []audit.Field{audit.Word("transport", c.Transport), audit.Word("tool", call.Tool)}
	if call.Collection != "" {
		public = append(public, audit.ID("collection", call.Collection))
	}
	if call.Digest != "" {
		public = append(public, audit.Digest("input", call.Digest))
	}
	return b.tell(tx, event{kind: "called", actor: c.Actor, subject: connection, code: call.Code, public: public})
}

// Calls answers the account's last calls, the latest first, at most limit (1..Ring).
func (b *Book) Calls(ctx context.Context, actor string, limit int) (all []Call, err error) {
	limit = min(max(limit, 1), Ring)
	err = b.db.View(ctx, func(tx *tx) error {
		all = nil
		return tx.Each(`select at_ms, tool, collection, effect, code, transport, connection, request_id, receipt from portal_call
			where tenant=$1 and actor=$2 order by number desc limit $3`, []any{b.tenant, actor, limit}, func(r store.Scanner) error {
			var c Call
			var ms int64
			if err := r.Scan(&ms, &c.Tool, &c.Collection, &c.Effect, &c.Code, &c.Transport, &c.Connection, &c.RequestID, &c.Receipt); err != nil {
				return err
			}
			c.At = at(ms)
			all = append(all, c)
			return nil
		})
	})
	return all, err
}
