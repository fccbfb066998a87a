package client

import (
	"context"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/live"
	"chaperone/internal/refusal"
)

// Within is the authority of this process, for a workflow that runs in the server.
type Within struct {
	Authority *live.Authority
	Caller    live.Caller
}

// Do dispatches as any other way in does, and reads and writes the same texts.
func (w Within) Do(ctx context.Context, a controlv1.Action) ([]byte, error) {
	answer, err := w.Authority.Dispatch(ctx, w.Caller, a)
	if err == nil {
		return answer.Encode()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // whoever asked has left; what the authority said of that is nobody's
	}
	code := refusal.Of(err)
	if code == "" {
		return nil, err
	}
	return nil, &Refused{Code: code, Retryable: controlv1.Retryable(code)}
}
