package ledger

import (
	"context"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// Document is a live document as its registration tells of it. Origin, route and
// schemas are with the node that holds the channel.
type Document struct {
	Registration
	ArmExpiresMS int64
	Tools        []ToolRow
}

// ToolRow is what is kept of a registered tool.
type ToolRow struct {
	ID      controlv1.ID
	Schemas controlv1.Digest
	Class   controlv1.Class
	Roles   []string
}

// Documents answers a person's live documents.
func (b *Book) Documents(ctx context.Context, principal ref.Principal) (all []Document, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		all = nil
		ids, err := tx.Texts(`select r.registration from attended_registration r join attended_document d on d.document=r.document and d.registration=r.registration
			where r.tenant=$1 and r.principal=$2 and r.state='published' and d.state='pointed' order by r.document`, b.tenant, principal.String())
		for _, id := range ids {
			d, standing, err := b.document(tx, id)
			if err != nil {
				return err
			}
			if standing {
				all = append(all, d)
			}
		}
		return err
	})
	return all, err
}

func (b *Book) document(tx *tx, id string) (d Document, standing bool, err error) {
	r, err := findRegistration(tx, id)
	if err != nil {
		return d, false, err
	}
	a, err := b.findArm(tx, r.Arm)
	if err != nil || a.State != ArmConsumed || a.until() <= time.Now().UnixMilli() {
		return d, false, err
	}
	d = Document{Registration: r.Registration, ArmExpiresMS: a.until()}
	ids, err := tx.Texts(`select tool_id from attended_tool where registration=$1 order by ordinal`, id)
	for _, t := range ids {
		p := parser{}
		row := ToolRow{ID: parsed(&p, t, controlv1.ParseID)}
		found, err := findTool(tx, id, row.ID)
		if err != nil {
			return d, false, err
		}
		row.Schemas, row.Class, row.Roles = parsed(&p, found.schemas, controlv1.ParseDigest), found.class, found.roles
		if p.err != nil {
			return d, false, p.err
		}
		d.Tools = append(d.Tools, row)
	}
	return d, true, err
}

// Show answers a caller's call as it stands, from the durable record alone: on any
// node, after any restart.
func (b *Book) Show(ctx context.Context, who Caller, id controlv1.ID) (out Call, err error) {
	err = b.db.Look(ctx, func(tx *tx) error {
		c, err := b.ownCall(tx, id, who)
		out = c.Call
		return err
	})
	return out, err
}

// Call answers one of the tenant's calls, whoever asked for it: for the node that
// carries it.
func (b *Book) Call(ctx context.Context, id controlv1.ID) (out Call, err error) {
	err = b.db.Look(ctx, func(tx *tx) error {
		c, err := b.findCall(tx, id.String())
		if err == nil && c.tenant != b.tenant {
			err = refuse(refusal.UnknownCall, "no such call")
		}
		out = c.Call
		return err
	})
	return out, err
}

// OfDocument answers a document's calls, over or not.
func (b *Book) OfDocument(ctx context.Context, document ref.Document) (out []Call, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		out = nil
		all, err := readCalls(tx, `tenant=$1 and document=$2`, b.tenant, document.String())
		for _, c := range all {
			full, err := b.findCall(tx, c.ID.String())
			if err != nil {
				return err
			}
			out = append(out, full.Call)
		}
		return err
	})
	return out, err
}

// Registrations answers every registration that a document had: retired history
// stays.
func (b *Book) Registrations(ctx context.Context, document ref.Document) (all []Registration, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		all = nil
		ids, err := tx.Texts(`select registration from attended_registration where tenant=$1 and document=$2 order by created_ms, registration`, b.tenant, document.String())
		for _, id := range ids {
			r, err := findRegistration(tx, id)
			if err != nil {
				return err
			}
			all = append(all, r.Registration)
		}
		return err
	})
	return all, err
}
