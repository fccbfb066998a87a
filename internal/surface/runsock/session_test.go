package runsock_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/owned/ownedv1"
)

// client speaks the protocol over the run's socket, each request on a connection
// of its own.
func (h *hosted) client() *http.Client {
	path := filepath.Join(h.registry, "browser.sock")
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// session is an open session of a client in Go.
type session struct {
	*hosted
	http     *http.Client
	d        ownedv1.Descriptor
	token    string
	sequence int64
}

// open does the handshake.
func (h *hosted) open() *session {
	h.t.Helper()
	s := &session{hosted: h, http: h.client(), d: h.descriptor()}
	body := ownedv1.HandshakeRequest{Identity: s.d.Identity, ClientNonce: newHex(32)}.Encode()
	status, answer, err := s.post(context.Background(), ownedv1.Handshake, s.d.BootstrapToken, body)
	if err != nil || status != http.StatusOK {
		h.t.Fatalf("handshake: %d %s %v", status, answer, err)
	}
	got, err := ownedv1.DecodeHandshakeResponse(answer)
	if err != nil {
		h.t.Fatal(err)
	}
	s.token = got.SessionToken
	return s
}

func (s *session) post(ctx context.Context, v ownedv1.Verb, token string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.d.Endpoint+v.Path(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", ownedv1.ContentType)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// request makes the next action's request.
func (s *session) request(action, params string) ownedv1.ActionRequest {
	s.sequence++
	return ownedv1.ActionRequest{
		Identity: s.d.Identity, RequestID: newHex(16), Sequence: s.sequence,
		DeadlineMS: time.Now().Add(29 * time.Second).UnixMilli(), Action: action, RawParams: []byte(params),
	}
}

// act does one action and answers its result, or the status and code of a refusal.
func (s *session) act(ctx context.Context, action, params string) (string, error) {
	status, answer, err := s.post(ctx, ownedv1.DoAction, s.token, s.request(action, params).Encode())
	if err != nil {
		return "", err
	}
	if status != http.StatusOK {
		return fmt.Sprintf("%d %s", status, answer), nil
	}
	got, err := ownedv1.DecodeActionResponse(answer)
	return string(got.Result), err
}

// must is act for a test's preparations.
func (s *session) must(action, params string) string {
	s.t.Helper()
	got, err := s.act(context.Background(), action, params)
	if err != nil || strings.Contains(got, `"error"`) {
		s.t.Fatalf("%s: %s %v", action, got, err)
	}
	return got
}

// site is a small site on loopback.
type site struct {
	*httptest.Server
	hits atomic.Int64 // of /hit
}

func newSite(t testing.TB) *site {
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/form":
			io.WriteString(w, form)
		case "/hit":
			s.hits.Add(1)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

const form = `<!doctype html><title>A form</title><h1>&lt;Form&gt;</h1>
<input id=name><button id=go onclick="document.title='hello '+document.getElementById('name').value; console.log('clicked')">Go</button>
<div style="height:3000px"></div>`
