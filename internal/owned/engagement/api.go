package engagement

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// maxAnswer bounds one answer of the API, which repeats a run's input.
const maxAnswer = 32 << 20

// api speaks to one server. It follows no redirect and reads no proxy settings,
// and what the server says in words goes nowhere.
type api struct {
	base      string // without a slash at its end
	key       string
	patience  time.Duration
	transport *http.Transport
}

func newAPI(address, key string, patience time.Duration) (*api, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// Not quoted: what is wrong in it may be a password.
		return nil, fmt.Errorf("the API's address must be http(s)://HOST[:PORT] without a user, a query or a fragment: %w", refusal.BadDocument)
	}
	return &api{
		base: strings.TrimSuffix(u.String(), "/"), key: key, patience: patience,
		transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: patience}).DialContext,
			ResponseHeaderTimeout:  patience,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}, nil
}

func (a *api) close() { a.transport.CloseIdleConnections() }

// apiError is a refusal or a failure of the API, in our words. Status is 0 where
// there was no answer.
type apiError struct {
	what   string // what was asked
	status int
	why    string
	again  time.Duration // Retry-After, where there was one
}

func (e *apiError) Error() string {
	if e.status == 0 {
		return fmt.Sprintf("the agent API: %s: %s", e.what, e.why)
	}
	return fmt.Sprintf("the agent API: %s: refused with %d: %s", e.what, e.status, e.why)
}

// Unwrap gives each failure its code.
func (e *apiError) Unwrap() error {
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return refusal.Unauthenticated
	case http.StatusNotFound:
		return refusal.Unknown
	case http.StatusConflict:
		return refusal.Conflict
	case http.StatusTooManyRequests:
		return refusal.RateLimited
	}
	return refusal.Failed
}

// send sends one request; a body that isn't nil is JSON. The caller closes the
// answer's body, whose status is 2xx.
func (a *api) send(ctx context.Context, what, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// Servers copy this header into the run's configuration, which is the caller's.
	req.Header.Set("User-Agent", "")
	if a.key != "" {
		req.Header.Set("X-Api-Key", a.key)
	}
	resp, err := a.transport.RoundTrip(req) // follows no redirect
	if err != nil {
		return nil, &apiError{what: what, why: unanswered(err)}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	resp.Body.Close()
	return nil, &apiError{what, resp.StatusCode, meaning(resp.StatusCode), retryAfter(resp.Header)}
}

// unanswered says why there is no answer. A transport's own words may quote what
// was received.
func unanswered(err error) string {
	var timeout net.Error
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return "given up"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time: is the server overloaded?"
	case errors.As(err, &op) && op.Op == "dial":
		return "can't be reached (" + op.Err.Error() + "): is the server running, and --api its address?"
	case errors.As(err, &op) && op.Op == "remote error", strings.HasPrefix(err.Error(), "tls:"), strings.HasPrefix(err.Error(), "x509:"):
		return "no TLS connection can be made: is its certificate one that this system trusts?"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op):
		return "the connection was lost"
	}
	return "the answer isn't HTTP: is --api the address of an agent API?"
}

// meaning says what a status means to whoever named the API.
func meaning(status int) string {
	switch {
	case status/100 == 3:
		return "it redirects, and redirects aren't followed: name its final address with --api"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "it wants another credential: see --api-key-file"
	case status == http.StatusNotFound:
		return "there is no such thing at that address"
	case status == http.StatusConflict:
		return "it stands against what the server does already"
	case status == http.StatusTooManyRequests:
		return "it has too much to do: try later"
	case status/100 == 5:
		return "the server failed: its own log says why"
	}
	return "the server doesn't accept the request: is it LangGraph-compatible, and are input and config what the graph wants?"
}

// retryAfter reads the header's seconds; its other form counts as none.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// ask sends a request, for one answer's time at most, and decodes the answer into
// into, unless that is nil.
func (a *api) ask(ctx context.Context, what, method, path string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	resp, err := a.send(ctx, what, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return &apiError{what: what, why: unanswered(err)}
	case into == nil:
		return nil
	case len(data) > maxAnswer || json.Unmarshal(data, into) != nil:
		return &apiError{what: what, why: "the answer isn't what a LangGraph-compatible server answers: is --api right?"}
	}
	return nil
}

// patiently repeats what the server refuses with 429, as it asks for and for as
// long as a run may be pending.
func (t *turn) patiently(ctx context.Context, ask func() error) error {
	until := time.Now().Add(t.Wait)
	for {
		err := ask()
		var refused *apiError
		if !errors.As(err, &refused) || refused.status != http.StatusTooManyRequests {
			return err
		}
		again := max(refused.again, time.Second)
		if time.Until(until) < again {
			return fmt.Errorf("%w (it asks to wait %s; --wait is %s)", err, again, t.Wait)
		}
		t.tell(fmt.Sprintf("the API is busy: again in %s", again))
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return errTold
		}
	}
}

// runPath is where the API has a run.
func (r Result) runPath() string { return "/threads/" + r.ThreadID + "/runs/" + r.RunID }

// status answers what the server says of the run now.
func (a *api) status(ctx context.Context, r Result) (string, *stamp, error) {
	var run struct {
		RunID  string `json:"run_id"`
		Status string `json:"status"`
		Kwargs struct {
			Config struct {
				Configurable *stamp `json:"configurable"`
			} `json:"config"`
		} `json:"kwargs"`
	}
	err := a.ask(ctx, "the run's status", http.MethodGet, r.runPath(), nil, &run)
	if err != nil {
		return "", nil, err
	}
	switch run.Status {
	case Pending, Running, Success, Failed, TimedOut, Interrupted:
	default:
		run.RunID = ""
	}
	if run.RunID != r.RunID {
		return "", nil, &apiError{what: "the run's status", why: "the answer isn't what a LangGraph-compatible server answers"}
	}
	return run.Status, run.Kwargs.Config.Configurable, nil
}

// stamp is what the server put in the run's own configuration, where it shows it.
type stamp struct {
	RunID      string `json:"run_id"`
	Engagement string `json:"desktop_engagement_id"`
}

// values answers the thread's values, nil where the server doesn't tell them.
func (a *api) values(thread string) jsontext.Value {
	var state struct {
		Values jsontext.Value `json:"values"`
	}
	if a.ask(context.Background(), "the thread's values", http.MethodGet, "/threads/"+thread+"/state", nil, &state) != nil {
		return nil // the status is what counts, and is told
	}
	return state.Values
}
