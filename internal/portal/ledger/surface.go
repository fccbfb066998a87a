package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Enable turns the browser surface of a session on, with that selection: bound to
// this session, for 12 hours at most. generation is the one that its owner saw:
// that of [Book.Selection], or 0 where they saw that it is off; another is
// [refusal.Conflict]. On a surface that is on it is Select. The caller has seen to
// it that step-up is fresh. Refusals of the selection are those of Connect.
func (b *Book) Enable(ctx context.Context, session, actor string, selection []tool.Selected, generation int64) (Connection, error) {
	return b.put(ctx, session, actor, selection, generation, connectionEnabled)
}

// Select changes what the surface that is on may do. Where it isn't on: disabled.
func (b *Book) Select(ctx context.Context, session, actor string, selection []tool.Selected, generation int64) (Connection, error) {
	return b.put(ctx, session, actor, selection, generation, connectionSelected)
}

func (b *Book) put(ctx context.Context, session, actor string, selection []tool.Selected, generation int64, v verb) (Connection, error) {
	if session == "" {
		return Connection{}, fmt.Errorf("no session: %w", tool.SessionExpired)
	}
	var c Connection
	err := b.db.Update(ctx, func(tx *tx) (err error) {
		now := time.Now()
		if err := b.open(tx, actor); err != nil {
			return err
		}
		if err := b.mine(tx, session, actor); err != nil {
			return err
		}
		if c, err = b.ofSession(tx, session, actor); err != nil {
			return err
		}
		switch live := c.State == Live && now.Before(c.Expires); {
		case c.State == Ended:
			return fmt.Errorf("session is over: %w", tool.SessionExpired)
		case c.Generation != generation && (live || generation != 0):
			return fmt.Errorf("the selection was changed meanwhile: %w", refusal.Conflict)
		case v == connectionSelected && !live:
			return fmt.Errorf("the browser surface is off: %w", tool.Disabled)
		case c.ID == "" || c.State.Over():
			return b.enableNew(tx, &c, session, actor, selection, now)
		case c.State == Live && !live:
			if err := b.move(tx, &c, connectionExpired, refusal.Expired, now); err != nil {
				return err
			}
			return b.enableNew(tx, &c, session, actor, selection, now)
		case live:
			if err := b.choose(tx, c, selection); err != nil {
				return err
			}
			return b.move(tx, &c, connectionSelected, "", now)
		}
		if err := b.choose(tx, c, selection); err != nil {
			return err
		}
		c.Expires = now.Add(SessionTime)
		return b.move(tx, &c, connectionEnabled, "", now)
	})
	if err != nil {
		return Connection{}, err
	}
	return b.Connection(ctx, c.ID)
}

// enableNew makes the session's next grant. Its generation goes on from the last
// one's, so no receipt or callback of that can mean this one.
func (b *Book) enableNew(tx *tx, c *Connection, session, actor string, selection []tool.Selected, now time.Time) error {
	*c = Connection{ID: NewID(), Actor: actor, Transport: Browser, Provenance: FromBrowser, Session: session,
		Generation: c.Generation + 1, Expires: now.Add(SessionTime)}
	if err := b.room(tx, actor); err != nil {
		return err
	}
	if err := b.choose(tx, *c, selection); err != nil {
		return err
	}
	return b.insert(tx, *c, connectionEnabled, now)
}

// mine refuses a session that was another person's: their grants can't share one
// count of generations.
func (b *Book) mine(tx *tx, session, actor string) error {
	others, err := b.find(tx, `session=$2 and actor<>$3 and transport=$4`, session, actor, string(Browser))
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("session is another person's: %w", tool.SessionExpired)
	}
	return err
}

// ofSession answers the session's latest grant; its zero value is none. A session
// that is another person's is none.
func (b *Book) ofSession(tx *tx, session, actor string) (Connection, error) {
	all, err := b.find(tx, `session=$2 and actor=$3 and transport=$4`, session, actor, string(Browser))
	if err != nil || len(all) == 0 {
		return Connection{}, err
	}
	latest := slices.MaxFunc(all, func(a, c Connection) int { return int(a.Generation - c.Generation) })
	return latest, nil
}

// Selection answers the session's grant that is on. Where none is, it is
// [refusal.Unknown], beside the last one that was (or the zero Connection).
func (b *Book) Selection(ctx context.Context, session string) (c Connection, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		c = Connection{}
		all, err := b.find(tx, `session=$2 and transport=$3`, session, string(Browser))
		if err != nil || len(all) == 0 {
			return err
		}
		c = slices.MaxFunc(all, func(a, c Connection) int { return int(a.Generation - c.Generation) })
		c.Selection, err = selected(tx, c.ID)
		return err
	})
	if err == nil && !c.Enabled(time.Now()) {
		err = fmt.Errorf("the browser surface is off: %w", refusal.Unknown)
	}
	return c, err
}

// Enabled tells whether c is a grant that can be used now.
func (c Connection) Enabled(now time.Time) bool { return c.State == Live && now.Before(c.Expires) }

// Disable turns the session's browser surface off; nothing that was prepared can
// be executed any more. Where it is off already nothing happens.
func (b *Book) Disable(ctx context.Context, session string) error {
	return b.over(ctx, connectionDisabled, tool.Disabled, `session=$2 and transport=$3 and state=$4`, session, string(Browser), string(Live))
}

// EndSession ends what a session may do, since it was signed out or replaced.
func (b *Book) EndSession(ctx context.Context, session string) error {
	return b.over(ctx, connectionEnded, tool.SessionExpired, `session=$2 and transport=$3 and state in ($4,$5)`, session, string(Browser), string(Live), string(Off))
}
