package ledger

import (
	"context"
	"strings"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/ref"
)

// Where answers which node holds a person's live document, "" for none.
func (b *Book) Where(ctx context.Context, principal ref.Principal, document ref.Document) (string, error) {
	return b.place(ctx, `select r.node from attended_document d join attended_registration r on r.registration=d.registration
		where d.document=$3 and d.state='pointed' and r.state='published' and r.tenant=$1 and r.principal=$2`, principal, document.String())
}

// Carrier answers which node carries or carried a person's call, "" for no such call.
func (b *Book) Carrier(ctx context.Context, principal ref.Principal, call controlv1.ID) (string, error) {
	return b.place(ctx, `select node from attended_call where call=$3 and tenant=$1 and principal=$2`, principal, call.String())
}

func (b *Book) place(ctx context.Context, query string, principal ref.Principal, of string) (node string, err error) {
	err = b.db.Look(ctx, func(tx *tx) error {
		node = ""
		_, err := tx.One(query, []any{b.tenant, principal.String(), of}, &node)
		return err
	})
	return node, err
}

// Asking is a call that waits for its person, and the node that asks.
type Asking struct {
	Call controlv1.ID
	Node string
}

// Askings answers what a person is asked now, by whatever node.
func (b *Book) Askings(ctx context.Context, principal ref.Principal) (all []Asking, err error) {
	err = b.db.Look(ctx, func(tx *tx) error {
		all = nil
		rows, err := tx.Texts(`select node || ' ' || call from attended_call where tenant=$1 and principal=$2 and state='pending_confirmation' and deadline_ms>$3 order by call`,
			b.tenant, principal.String(), time.Now().UnixMilli())
		for _, text := range rows {
			node, call, _ := strings.Cut(text, " ")
			p := parser{}
			all = append(all, Asking{parsed(&p, call, controlv1.ParseID), node})
			if p.err != nil {
				return p.err
			}
		}
		return err
	})
	return all, err
}

// Heard tells whether an agent of a person's was told a result since a moment, by
// whatever node, beside those of some tools of pages of one origin.
func (b *Book) Heard(ctx context.Context, principal ref.Principal, agent controlv1.Mask, since time.Time, origin controlv1.Mask, but []string) (heard bool, err error) {
	err = b.db.Look(ctx, func(tx *tx) error {
		rows, err := tx.Texts(`select distinct c.tool_id || ' ' || a.origin_ref from attended_call c join attended_lease l on l.lease=c.lease join attended_arm a on a.arm=l.arm
			where c.tenant=$1 and c.principal=$2 and c.agent_ref=$3 and c.state='succeeded' and c.settled_ms>$4`, b.tenant, principal.String(), agent.String(), since.UnixMilli())
		heard = false
		for _, text := range rows {
			tool, of, _ := strings.Cut(text, " ")
			clean := false
			for _, name := range but {
				clean = clean || of == origin.String() && tool == name
			}
			heard = heard || !clean
		}
		return err
	})
	return heard, err
}
