package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Claim is one change that a caller wants made.
type Claim struct {
	Caller
	Review    string // browser: the prepare receipt, which is spent with it
	Tool      tool.Name
	Digest    string // of {tool, arguments}
	RequestID string // UUID, lower case
	// What Settle needs to find out what became of it.
	Collection, Item, IfVersion string
	IfAbsent, HasContent        bool
	Metadata                    string // JSON, "" for none
	// What it adds to hosted storage; negative for what it frees.
	Items, Bytes int64
	Until        time.Time // when its source has surely been given up
}

// Claim is the one commit before a change's effect: it judges the caller's grant,
// spends the review, counts what the change adds and writes the request with its
// mark. fresh tells that the caller now makes the change, once, and then calls
// Finish. Where it is false the request was claimed before, with the same input,
// and its state says what became of it.
//
// Refusals: those of Allow; of a browser those of Confirm, and review_declined
// where the receipt wasn't confirmed or is another input's; request_conflict;
// quota_exceeded. After any error nothing was or will be sent.
func (b *Book) Claim(ctx context.Context, c Claim) (r Request, fresh bool, err error) {
	var late error
	err = b.db.Update(ctx, func(tx *tx) error {
		r, fresh, late = Request{}, false, nil
		now := time.Now()
		g, err := b.grant(tx, c.Caller, now)
		if err != nil {
			return err
		}
		there, off, err := b.reach(tx, c.Caller, g, c.Collection, c.Tool)
		if err != nil {
			return err
		}
		if c.Transport == Browser {
			if late, err = b.spend(tx, c, g, now); err != nil || late != nil {
				return err
			}
		}
		known := false
		if r, known, err = b.byID(tx, c.Actor, g.Connection, c.RequestID); err != nil {
			return err
		}
		if known && r.Digest != c.Digest {
			return fmt.Errorf("request id was used for another input: %w", tool.RequestConflict)
		}
		if known && !r.again() {
			return nil
		}
		if off != nil {
			return off
		}
		if there.Kind == Storage {
			if err := b.reserve(tx, c.Actor, c.Items, c.Bytes); err != nil {
				return err
			}
		}
		fresh = true
		// A crash right after this commit leaves the request begun: nothing, or
		// everything, reached the source, which Settle is asked once Until is over.
		r, err = b.begin(tx, c, g, there.Collection, r, now)
		return err
	})
	if err == nil {
		err = late
	}
	if err != nil {
		return Request{}, false, err
	}
	return r, fresh, nil
}

// begin writes the request, or takes one that was refused up again.
func (b *Book) begin(tx *tx, c Claim, g Grant, there Collection, old Request, now time.Time) (Request, error) {
	v, receipt, mark := requestBegun, NewID(), NewID()
	if old.Receipt != "" {
		v, receipt = requestAgain, old.Receipt
		if rows, err := tx.Exec(`delete from portal_request where receipt=$1 and state=$2 and mark=$3`, receipt, string(Refused), old.Mark); err != nil || rows != 1 {
			return Request{}, errors.Join(err, refusal.Conflict)
		}
	}
	to, ok := goes(requestMoves, v, old.State)
	if !ok {
		to = born(requestMoves, v)
	}
	_, err := tx.Exec(`insert into portal_request (receipt, tenant, actor, transport, connection, generation, request_id, tool, digest, mark,
		collection, place, item, if_version, if_absent, has_content, metadata, items, bytes, state, code, outcome, version_before, version_after,
		begun_ms, until_ms, settled_ms) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,'','','','',$21,$22,0)`,
		receipt, b.tenant, c.Actor, string(c.Transport), g.Connection, g.Generation, c.RequestID, string(c.Tool), c.Digest, mark,
		c.Collection, there.Place, c.Item, c.IfVersion, flag(c.IfAbsent), flag(c.HasContent), c.Metadata, c.Items, c.Bytes,
		string(to), now.UnixMilli(), c.Until.UnixMilli())
	if err != nil {
		return Request{}, err
	}
	r, _, err := b.byID(tx, c.Actor, g.Connection, c.RequestID)
	if err != nil {
		return Request{}, err
	}
	return r, b.tellRequest(tx, r, v, "")
}

func flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}
