package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// Two refusals that a session can live with; they stand in the error's tree
// beside its code.
var (
	errKept     = errors.New("the host kept the deadline")                   // a well-formed 504
	errConflict = errors.New("the host refused it as replayed or cancelled") // a well-formed 409
)

// post sends one request on a connection of its own and answers the body of a
// 200. A kept connection would let the transport send a request again by itself
// when the connection turns out to be closed.
func (r *Registration) post(ctx context.Context, v ownedv1.Verb, token string, body []byte) ([]byte, error) {
	transport := &http.Transport{DialContext: r.dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.desc.Endpoint+v.Path(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v, refusal.BrowserProtocolError)
	}
	req.Header.Set("Content-Type", ownedv1.ContentType)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := transport.RoundTrip(req) // follows no redirect
	if err != nil {
		return nil, lost(ctx, v, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, ownedv1.MaxMessage+1))
	if err != nil {
		return nil, lost(ctx, v, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refused(v, resp, data)
	}
	if len(data) > ownedv1.MaxMessage || !plainJSON(resp.Header) {
		return nil, fmt.Errorf("%s: the answer is no message of the protocol: %w", v, malformed(v))
	}
	return data, nil
}

// malformed is the code of an answer that isn't one: at the handshake it means
// another runtime.
func malformed(v ownedv1.Verb) refusal.Code {
	if v == ownedv1.Handshake {
		return refusal.IncompatibleRuntime
	}
	return refusal.BrowserProtocolError
}

// plainJSON tells the one Content-Type of the protocol, without an encoding.
func plainJSON(h http.Header) bool {
	types := h.Values("Content-Type")
	return len(types) == 1 && types[0] == ownedv1.ContentType && h.Get("Content-Encoding") == ""
}

// lost maps a transport's failure. The transport's own words may quote what was
// received, so they are left out.
func lost(ctx context.Context, v ownedv1.Verb, err error) error {
	code, why := malformed(v), "the answer isn't HTTP"
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		code, why = refusal.BrowserTimeout, "no answer in time"
	case errors.Is(err, errPeer):
		code, why = refusal.UnauthorizedAdapter, errPeer.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op), errors.Is(err, os.ErrNotExist):
		code, why = refusal.BrowserDisconnected, "the connection was lost"
	}
	return fmt.Errorf("%s: %s: %w", v, why, code)
}

// refused maps an HTTP status that isn't 200 (section 2, client mapping). The
// status decides; a body that isn't the protocol's makes the refusal fatal.
func refused(v ownedv1.Verb, resp *http.Response, data []byte) error {
	body, err := ownedv1.DecodeErrorBody(data)
	wellFormed := err == nil && plainJSON(resp.Header)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s: refused with %d: %w", v, resp.StatusCode, refusal.UnauthorizedAdapter)
	case http.StatusConflict:
		if wellFormed && body.Error == refusal.UnauthorizedAdapter {
			return fmt.Errorf("%s: %w: %w", v, errConflict, refusal.UnauthorizedAdapter)
		}
		return fmt.Errorf("%s: refused with 409: %w", v, refusal.UnauthorizedAdapter)
	case http.StatusUpgradeRequired:
		return fmt.Errorf("%s: refused with 426: %w", v, refusal.IncompatibleRuntime)
	case http.StatusGatewayTimeout:
		if wellFormed && body.Error == refusal.BrowserTimeout {
			return fmt.Errorf("%s: %w: %w", v, errKept, refusal.BrowserTimeout)
		}
		return fmt.Errorf("%s: 504 with no proper body: %w", v, refusal.BrowserTimeout)
	}
	return fmt.Errorf("%s: answered with %d: %w", v, resp.StatusCode, malformed(v))
}

// errPeer: what is at the other end isn't the host that made the registration.
var errPeer = errors.New("the socket isn't the registration owner's")

// dial reaches the host. The address that HTTP derived from the endpoint is only
// looked at for loopback: over a Unix socket the endpoint is no destination.
func (r *Registration) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	if r.desc.Transport == ownedv1.TransportDirect {
		return new(net.Dialer).DialContext(ctx, "tcp", r.desc.Authority())
	}
	path, err := r.socketPath()
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if uid, err := peerUID(conn.(*net.UnixConn)); err != nil || uid != r.owner {
		return nil, errors.Join(errPeer, conn.Close())
	}
	return conn, nil
}

// peerUID asks the kernel who listens at the other end.
func peerUID(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}
