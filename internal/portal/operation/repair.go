package operation

import (
	"context"
	"errors"
	"time"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Repair does what a crash, a silent source or time has left: it is run at start
// and every few seconds, by any number of nodes.
//
//   - A request that is begun and whose time is over is settled by what its source
//     tells, or told unknown; its effect is never repeated.
//   - Receipts and grants that expired are moved, what is past its retention goes.
//   - The items of removed collections are deleted.
//   - Usage that counts an unknown change is counted anew.
//
// It answers the first error and does the rest all the same.
func (d *Desk) Repair(ctx context.Context) error {
	s := d.inner()
	defer s.drop()
	errs := []error{d.settleAll(ctx, s), d.ledger.Sweep(ctx), d.empty(ctx, s), d.recountAll(ctx, s)}
	d.mu.Lock()
	d.evict(time.Now())
	d.mu.Unlock()
	return errors.Join(errs...)
}

// inner is a slot of nobody's account.
func (d *Desk) inner() *slot {
	s := &slot{gate: &gate{slots: make(chan struct{}, 1)}, leave: func() {}}
	s.gate.slots <- struct{}{}
	s.hold()
	return s
}

func (d *Desk) settleAll(ctx context.Context, s *slot) error {
	all, err := d.ledger.Doubtful(ctx, time.Now())
	errs := []error{err}
	for _, r := range all {
		if err := d.settle(ctx, s, r); err != nil && !isSource(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// isSource tells a source that doesn't answer, which is asked again next time.
func isSource(err error) bool {
	code := refusal.Of(err)
	return code == tool.SourceUnavailable || code == tool.SourceDisconnected
}

// settle asks the source what became of one change and writes it down. A source
// that doesn't answer is asked again, until Limits.Doubt is over: then it is
// unknown.
func (d *Desk) settle(ctx context.Context, s *slot, r ledger.Request) error {
	w, known, err := d.became(ctx, s, r)
	o := ledger.Outcome{State: ledger.Unknown, Code: tool.UnknownOutcome}
	switch {
	case err != nil && time.Since(r.Begun) < d.limits.Doubt:
		return err
	case err != nil:
	case known == source.Done:
		if told, ok := done(r, w); ok {
			o = told
		}
	case known == source.Not:
		o = ledger.Outcome{State: ledger.Refused, Code: tool.SourceUnavailable}
	}
	if err := d.ledger.Finish(ctx, r, o); err != nil && !errors.Is(err, refusal.Conflict) {
		return err
	}
	return nil
}

// became asks for one change.
func (d *Desk) became(ctx context.Context, s *slot, r ledger.Request) (source.Written, source.Settled, error) {
	type told struct {
		w source.Written
		s source.Settled
	}
	src, err := d.source(r.Collection)
	if err != nil {
		return source.Written{}, "", err
	}
	p := d.place(r.Collection)
	t, err := ask(ctx, d, s, func(ctx context.Context) (t told, err error) {
		if r.Tool == tool.DeleteItem {
			t.s, err = src.SettleDelete(ctx, p, r.Item, r.IfVersion, r.Mark)
			return t, err
		}
		t.w, t.s, err = src.Settle(ctx, p, source.Write{Item: r.Item, HasContent: r.HasContent, Metadata: asked(r.Metadata),
			IfVersion: r.IfVersion, IfAbsent: r.IfAbsent, Mark: r.Mark})
		return t, err
	})
	return t.w, t.s, err
}

// empty deletes the items of removed collections, and then the collections.
func (d *Desk) empty(ctx context.Context, s *slot) error {
	all, err := d.ledger.Leftovers(ctx)
	errs := []error{err}
	for _, c := range all {
		// A crash anywhere here leaves a removed collection, which the next Repair
		// goes on with.
		err := d.emptyOne(ctx, s, c)
		if err == nil {
			err = d.recount(ctx, s, c.Actor)
		}
		if err == nil {
			err = d.ledger.Emptied(ctx, c)
		}
		if err != nil && !isSource(err) && !errors.Is(err, refusal.Conflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (d *Desk) emptyOne(ctx context.Context, s *slot, c ledger.Collection) error {
	src, err := d.source(c)
	if err != nil {
		return err
	}
	p := d.place(c)
	for {
		page, err := ask(ctx, d, s, func(ctx context.Context) (source.Page, error) {
			return src.List(ctx, p, source.Query{Limit: tool.MaxRows})
		})
		if err != nil || len(page.Items) == 0 {
			return err
		}
		for _, i := range page.Items {
			_, err := ask(ctx, d, s, func(ctx context.Context) (bool, error) {
				return true, src.Delete(ctx, p, i.Item, i.Version, ledger.NewID())
			})
			if err != nil && refusal.Of(err) != tool.NotFound {
				return err
			}
		}
	}
}

func (d *Desk) recountAll(ctx context.Context, s *slot) error {
	actors, err := d.ledger.Unsure(ctx)
	errs := []error{err}
	for _, actor := range actors {
		if err := d.recount(ctx, s, actor); err != nil && !isSource(err) && !errors.Is(err, refusal.Conflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// recount counts what an account's hosted storage really holds.
func (d *Desk) recount(ctx context.Context, s *slot, actor string) error {
	stamp, err := d.ledger.Stamp(ctx, actor)
	if err != nil {
		return err
	}
	places, err := d.ledger.Places(ctx, actor)
	if err != nil {
		return err
	}
	var items, bytes int64
	for _, c := range places {
		n, size, err := d.weigh(ctx, s, c)
		if err != nil {
			return err
		}
		items, bytes = items+n, bytes+size
	}
	return d.ledger.Recount(ctx, actor, stamp, items, bytes)
}

func (d *Desk) weigh(ctx context.Context, s *slot, c ledger.Collection) (items, bytes int64, err error) {
	src, err := d.source(c)
	if err != nil {
		return 0, 0, err
	}
	q := source.Query{Limit: tool.MaxRows}
	for {
		page, err := ask(ctx, d, s, func(ctx context.Context) (source.Page, error) { return src.List(ctx, d.place(c), q) })
		if err != nil {
			return 0, 0, err
		}
		for _, i := range page.Items {
			items, bytes = items+1, bytes+max(i.Size, 0)
		}
		if page.Next == "" {
			return items, bytes, nil
		}
		if page.Next == q.Cursor || len(page.Items) == 0 {
			return 0, 0, lied("a list without an end")
		}
		q.Cursor = page.Next
	}
}
