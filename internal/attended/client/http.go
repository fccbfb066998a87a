package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
)

// HTTP is a server elsewhere.
type HTTP struct {
	url   string
	token func(context.Context) (string, error)
	by    *http.Client
}

// HTTPOptions of NewHTTP.
type HTTPOptions struct {
	Transport http.RoundTripper // nil is the usual one
}

// answerTime is longer than any action is answered in: execute_call at 120 s, and
// get_call at 50 s.
const answerTime = 150 * time.Second

// NewHTTP makes a carrier to the server of an origin. token answers the bearer token
// that is good now. Plain http is for this machine alone.
func NewHTTP(origin string, token func(context.Context) (string, error), o HTTPOptions) (*HTTP, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, fmt.Errorf("no origin of a server: %w", refusal.BadDocument)
	}
	// A redirect would carry the token to wherever it points.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &HTTP{origin + "/browser/control", token, &http.Client{Transport: o.Transport, Timeout: answerTime, CheckRedirect: stay}}, nil
}

func loopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

var errLost = errors.New("attended control: no answer")

// Do posts the action.
func (h *HTTP) Do(ctx context.Context, a controlv1.Action) ([]byte, error) {
	body, err := controlv1.EncodeAction(a)
	if err != nil {
		return nil, err
	}
	token, err := h.token(ctx)
	if err != nil {
		return nil, &Refused{Code: refusal.Unauthenticated}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, errLost
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := h.by.Do(req)
	if err != nil {
		return nil, errors.Join(errLost, ctx.Err()) // its own text may hold what mustn't leave
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, controlv1.MaxDocuments+1024))
	if err != nil {
		return nil, errors.Join(errLost, ctx.Err())
	}
	return read(resp.StatusCode, text)
}

// read judges an answer: the status and the body must say the same.
func read(status int, text []byte) ([]byte, error) {
	var in struct {
		Status string         `json:"status"`
		Result jsontext.Value `json:"result"`
		Error  *struct {
			Code        string `json:"code"`
			Retryable   bool   `json:"retryable"`
			Correlation string `json:"correlation_id"`
		} `json:"error"`
	}
	if err := json.Unmarshal(text, &in, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w that can be read: HTTP %d", errLost, status)
	}
	switch {
	case in.Error == nil && status == http.StatusOK && in.Status == "success" && in.Result != nil:
		return in.Result, nil
	case in.Error != nil && status != http.StatusOK && in.Status == "" && in.Result == nil:
		code, err := controlv1.ParseWord(in.Error.Code)
		if err != nil {
			break
		}
		return nil, &Refused{refusal.Code(code.String()), in.Error.Retryable, in.Error.Correlation}
	}
	return nil, fmt.Errorf("%w that can be read: HTTP %d", errLost, status)
}
