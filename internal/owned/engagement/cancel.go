package engagement

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"chaperone/internal/refusal"
)

// cancelTime bounds the cancellation of a run, whatever its caller wants.
const cancelTime = 10 * time.Second

// cancel ends the run at the server and waits until the server says that it is
// over. Its error says that nobody knows whether it is.
func (t *turn) cancel() error {
	t.cancelled = true
	t.tell("cancelling the run at the API")
	t.follow.stop() // from here on the status is asked for by us
	bound := min(cancelTime, 2*t.Patience)
	ctx, done := context.WithTimeout(context.Background(), bound)
	defer done()
	var err error
	for {
		var status string
		if status, _, err = t.api.status(ctx, t.result); err == nil {
			t.follow.keep(status)
			if final(status) {
				return nil
			}
		}
		// Again each time: a server that was away has forgotten what it didn't answer.
		asked := t.api.ask(ctx, "cancellation of the run", http.MethodPost, t.result.runPath()+"/cancel?action=interrupt", []byte("{}"), nil)
		if err == nil {
			err = asked
		}
		select {
		case <-time.After(pendingEvery):
		case <-ctx.Done():
			t.follow.keep(Unknown)
			return fmt.Errorf("the run %s may go on at the server, which didn't confirm its cancellation within %s: %w", t.result.RunID, bound, errOr(err))
		}
	}
}

// errOr is err, or the code of a run that goes on though its cancellation was
// accepted.
func errOr(err error) error {
	if err == nil {
		return refusal.TimedOut
	}
	return err
}
