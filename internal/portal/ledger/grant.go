package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Caller is who asks, as its surface has verified it.
type Caller struct {
	Actor      string
	Transport  Transport
	Connection string // bearer: the token's; browser: "" or the session's; owner: ""
	Session    string // browser and owner
	// Generation is that of the grant which the caller acts under; 0 where it holds
	// none and means whatever stands. Another than what stands is grant_revoked.
	Generation int64
}

// OwnerConnection stands where a connection's id does for the owner's own page.
const OwnerConnection = "owner"

// Grant is what a caller may do, as it stood when it was read.
type Grant struct {
	Connection string // its id, or OwnerConnection
	Generation int64  // 0 for the owner
}

// Allowed is a collection with the functions that a caller may use there now.
type Allowed struct {
	Collection
	Functions []tool.Name
}

// fate is what a grant's state means for its caller.
func (c Connection) fate(now time.Time) refusal.Code {
	gone := tool.GrantRevoked
	if c.Transport == Browser {
		gone = tool.SessionExpired
	}
	switch {
	case c.State == Off:
		return tool.Disabled
	case c.State == Ended:
		return tool.SessionExpired
	case c.State == Revoked:
		return tool.GrantRevoked
	case c.State == Lapsed, c.State == Live && !now.Before(c.Expires):
		return gone
	case c.State == Live:
		return ""
	}
	return tool.GrantRevoked // a state that doesn't exist
}

// grant is the one judgement of a caller against what stands in the ledger.
func (b *Book) grant(tx *tx, c Caller, now time.Time) (Grant, error) {
	var stands Connection
	switch c.Transport {
	case Owner:
		if c.Actor == "" {
			return Grant{}, fmt.Errorf("nobody asks: %w", tool.SessionExpired)
		}
		return Grant{Connection: OwnerConnection}, nil
	case Bearer:
		all, err := b.find(tx, `connection=$2 and actor=$3 and transport=$4`, c.Connection, c.Actor, string(Bearer))
		if err != nil {
			return Grant{}, err
		}
		if len(all) != 1 {
			return Grant{}, fmt.Errorf("no such connection: %w", tool.GrantRevoked)
		}
		stands = all[0]
	case Browser:
		var err error
		if stands, err = b.ofSession(tx, c.Session, c.Actor); err != nil {
			return Grant{}, err
		}
		if stands.ID == "" || c.Session == "" {
			return Grant{}, fmt.Errorf("the browser surface was never enabled: %w", tool.Disabled)
		}
	default:
		return Grant{}, fmt.Errorf("no such transport: %w", tool.GrantRevoked)
	}
	if why := stands.fate(now); why != "" {
		return Grant{}, fmt.Errorf("connection is %s: %w", stands.State, why)
	}
	if c.Connection != "" && c.Connection != stands.ID || c.Generation != 0 && c.Generation != stands.Generation {
		return Grant{}, fmt.Errorf("connection has changed: %w", tool.GrantRevoked)
	}
	return Grant{stands.ID, stands.Generation}, nil
}

// reach answers the collection, where the caller may use that function of it.
// Whether it is connected is the second error, so that a replay can be answered
// all the same.
func (b *Book) reach(tx *tx, c Caller, g Grant, id string, f tool.Name) (a Allowed, off, err error) {
	there, err := b.current(tx, c.Actor, id)
	if err != nil {
		return Allowed{}, nil, err
	}
	if there.Collection == "" {
		return Allowed{}, nil, fmt.Errorf("no such collection: %w", tool.UnknownCollection)
	}
	a = Allowed{there, offers[there.Kind]}
	if c.Transport != Owner {
		if a.Functions, err = chosen(tx, g.Connection, there); err != nil {
			return Allowed{}, nil, err
		}
		if a.Functions == nil && c.Transport == Browser {
			return Allowed{}, nil, fmt.Errorf("collection isn't selected: %w", tool.UnselectedCollection)
		}
		if a.Functions == nil { // an app isn't told what else there is
			return Allowed{}, nil, fmt.Errorf("no such collection: %w", tool.UnknownCollection)
		}
	}
	if !slices.Contains(a.Functions, f) || !slices.Contains(offers[there.Kind], f) {
		return Allowed{}, nil, fmt.Errorf("function isn't available there: %w", tool.FunctionUnavailable)
	}
	if there.State != Connected {
		off = fmt.Errorf("collection is %s: %w", there.State, tool.SourceDisconnected)
	}
	return a, off, nil
}

// chosen answers the functions that a connection selects of this incarnation of a
// collection, nil where it selects none.
func chosen(tx *tx, connection string, c Collection) ([]tool.Name, error) {
	var functions string
	known, err := tx.One(`select functions from portal_selected where connection=$1 and collection=$2 and incarnation=$3`,
		[]any{connection, c.Collection, c.Incarnation}, &functions)
	if err != nil || !known {
		return nil, err
	}
	return split(functions), nil
}

// Allow answers whether the caller may use that function of that collection now.
// Refusals, in this order: disabled, session_expired, grant_revoked;
// unknown_collection (a browser: unselected_collection where there is one);
// function_unavailable; source_disconnected.
func (b *Book) Allow(ctx context.Context, c Caller, collection string, f tool.Name) (a Allowed, g Grant, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		var off error
		if g, err = b.grant(tx, c, time.Now()); err != nil {
			return err
		}
		if a, off, err = b.reach(tx, c, g, collection, f); err != nil {
			return err
		}
		return off
	})
	return a, g, err
}

// Visible answers the caller's collections by id, each with the functions that it
// may use there now: none in one that is disconnected.
func (b *Book) Visible(ctx context.Context, c Caller) (out []Allowed, g Grant, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		out = nil
		if g, err = b.grant(tx, c, time.Now()); err != nil {
			return err
		}
		all, err := b.all(tx, c.Actor)
		if err != nil {
			return err
		}
		mine := map[string]string{}
		if c.Transport != Owner {
			if mine, err = incarnations(tx, g.Connection); err != nil {
				return err
			}
		}
		for _, there := range all {
			a := Allowed{there, there.Kind.Offers()}
			if c.Transport != Owner {
				functions, ok := mine[there.Collection+" "+there.Incarnation]
				if !ok {
					continue
				}
				a.Functions = split(functions)
			}
			if there.State != Connected {
				a.Functions = []tool.Name{}
			}
			out = append(out, a)
		}
		return nil
	})
	return out, g, err
}

// incarnations answers a connection's functions by collection and incarnation.
func incarnations(tx *tx, connection string) (map[string]string, error) {
	all := map[string]string{}
	err := tx.Each(`select collection, incarnation, functions from portal_selected where connection=$1`, []any{connection}, func(r store.Scanner) error {
		var collection, incarnation, functions string
		if err := r.Scan(&collection, &incarnation, &functions); err != nil {
			return err
		}
		all[collection+" "+incarnation] = functions
		return nil
	})
	return all, err
}
