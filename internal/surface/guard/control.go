package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/live"
	"chaperone/internal/canon"
	"chaperone/internal/oauth"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/refusal"
)

// Dispatcher is the one entry to attended control; *live.Authority is one.
type Dispatcher interface {
	Dispatch(ctx context.Context, c live.Caller, what controlv1.Action) (live.Answer, error)
}

// Families tells whether a grant's family stands; *oauth.Book is one.
type Families interface {
	Stands(ctx context.Context, family string) (bool, error)
}

// Connections tells how the connection that a grant acts through stands;
// *ledger.Book is one.
type Connections interface {
	Connection(ctx context.Context, id string) (ledger.Connection, error)
}

// Control is attended control as bearers ask for it, by MCP and REST alike: the
// same bytes in, the same bytes or the same refusal out (spec/attended-control.md,
// sections 5 and 6).
type Control struct {
	Authority   Dispatcher // nil where control isn't constructed: then nothing is available
	Families    Families
	Connections Connections
	Log         *slog.Logger // nil: nothing is logged
}

// Refused is what a caller is told of a request that was refused, or that failed.
type Refused struct {
	Code        refusal.Code
	Correlation string // random; the server's log has it beside what happened
}

// Error tells the code.
func (r *Refused) Error() string { return string(r.Code) }

// Unwrap lets refusal.Of find the code.
func (r *Refused) Unwrap() error { return r.Code }

// JSON answers {code, retryable, correlation_id} in canonical bytes.
func (r *Refused) JSON() []byte {
	b, err := canon.Marshal(map[string]any{"code": string(r.Code), "retryable": controlv1.Retryable(r.Code), "correlation_id": r.Correlation})
	if err != nil {
		panic("guard: a refusal that doesn't encode: " + err.Error())
	}
	return b
}

// Do reads what a bearer asks, has it done, and answers it in canonical bytes. Its
// error is a *Refused. ctx ends with the caller's wish, and takes the call with it.
func (c *Control) Do(ctx context.Context, g oauth.Grant, asked []byte) ([]byte, error) {
	answer, err := c.dispatch(ctx, g, asked)
	if err != nil {
		return nil, c.Refuse(err)
	}
	text, err := answer.Encode()
	if err != nil {
		return nil, c.Refuse(err)
	}
	return text, nil
}

func (c *Control) dispatch(ctx context.Context, g oauth.Grant, asked []byte) (live.Answer, error) {
	if c.Authority == nil {
		return nil, refusal.ChannelUnavailable
	}
	what, err := controlv1.DecodeAction(asked)
	if err != nil {
		return nil, err
	}
	generation, err := c.connection(ctx, g.Connection) // the family stood when the token was found
	if err != nil {
		return nil, err
	}
	return c.Authority.Dispatch(ctx, live.Caller{
		Who: g.Principal, Generation: generation,
		// A refreshed token is the same grant; a family or connection that is over is
		// none, and one that was changed has another generation.
		Look: func(ctx context.Context) (int64, error) {
			return c.Look(ctx, live.Grant{Family: g.Family, Connection: g.Connection})
		},
		Grant: live.Grant{Family: g.Family, Connection: g.Connection},
	}, what)
}

// errGone is a grant that is over.
var errGone = fmt.Errorf("the grant is over: %w", refusal.AuthorityLost)

// Look judges a grant anew, by its ids, on whatever node.
func (c *Control) Look(ctx context.Context, g live.Grant) (int64, error) {
	stands, err := c.Families.Stands(ctx, g.Family)
	if err != nil {
		return 0, err // the database's fault decides nothing about the grant
	}
	if !stands {
		return 0, errGone
	}
	return c.connection(ctx, g.Connection)
}

// connection answers the generation of the connection behind a grant, which changes
// with everything that its owner does to it. One without collections is a name
// alone: it stands or falls with its family, and its generation is 0.
func (c *Control) connection(ctx context.Context, id string) (int64, error) {
	is, err := c.Connections.Connection(ctx, id)
	switch {
	case errors.Is(err, refusal.Unknown):
		return 0, nil
	case err != nil:
		return 0, err
	case is.State != ledger.Live || !time.Now().Before(is.Expires):
		return 0, errGone
	}
	return is.Generation, nil
}

// told are the codes of section 6: what a caller can be answered.
var told = []refusal.Code{
	refusal.ArgumentsInvalid, refusal.ResultInvalid, refusal.InvalidRequest, refusal.Unauthenticated, refusal.PolicyDenied, refusal.AuthorityLost,
	refusal.LeaseExpired, refusal.LeaseRevoked, refusal.Killed, refusal.Forbidden, refusal.UnknownTool, refusal.UnknownDocument, refusal.UnknownCall,
	refusal.RequestConflict, refusal.StaleGeneration, refusal.CatalogStale, refusal.TooLarge, refusal.RateLimited, refusal.AttentionBudget, refusal.Busy,
	refusal.ChannelUnavailable, refusal.FenceUnavailable, refusal.OutcomeUnavailable, refusal.AuditUnavailable, refusal.PolicyUnavailable,
}

// Refuse answers an error as a caller is told of it. A code that isn't section 6's
// is told as the nearest that is: why an arm is gone is its person's to know, and
// what went wrong inside is ours.
func (c *Control) Refuse(err error) *Refused {
	var already *Refused
	if errors.As(err, &already) {
		return already
	}
	r := &Refused{refusal.Of(err), rand.Text()}
	switch {
	case slices.Contains(told, r.Code):
	case r.Code == refusal.OriginDenied:
		r.Code = refusal.Forbidden
	case slices.Contains(controlv1.TrustReasons, r.Code):
		r.Code = refusal.AuthorityLost
	default:
		r.Code = refusal.OutcomeUnavailable
	}
	if c.Log != nil {
		level := slog.LevelDebug
		if controlv1.RESTStatus(r.Code) == http.StatusServiceUnavailable {
			level = slog.LevelWarn
		}
		c.Log.Log(context.Background(), level, "attended control refused", "code", string(r.Code), "cause", string(refusal.Of(err)), "correlation_id", r.Correlation)
	}
	return r
}

// Asked reads the body of a request for control: JSON, as many bytes as an action
// may have. Its error has the code.
func Asked(r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, refusal.InvalidRequest
	}
	body, err := io.ReadAll(r.Body)
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, refusal.TooLarge
	case err != nil:
		return nil, refusal.InvalidRequest
	}
	return body, nil
}
