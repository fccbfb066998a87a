// Package client is the agent's side of owned-browser-v1 (spec/owned-browser.md,
// sections 2 and 3).
//
// Contents: [Registration] is one run's private folder (or one static descriptor
// file), checked and held open; [Session] is the one handshake made with it and
// the strictly ordered actions that follow; [Mount] is the directory that a
// launcher mounted, with one session for each registration in it.
//
// A session is open until something about it can't be trusted any more: a lost
// connection, an answer that isn't exactly what the protocol says, credentials
// that were refused, its expiry, a registration that changed or went. From then
// on it is dead, every call answers the code of what ended it, and only a new
// registration helps: nothing is ever sent twice. A failed action, a deadline
// that the host kept (504) and an acknowledged cancel leave it open.
//
// The package follows no redirect, reads no proxy settings and keeps credentials
// out of its errors. It finds no directory by itself: its caller names one.
//
// Floor: runtime.
package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// Waiting times of section 2.
const (
	handshakeTime = 10 * time.Second // for the answer to a handshake
	cancelTime    = 2 * time.Second  // for the shielded cancel request
	graceTime     = 2 * time.Second  // after an action's deadline, for the host's 504
)

// Session is one authenticated session with a host. Its methods may be called
// concurrently; actions go one after another.
type Session struct {
	reg     *Registration
	token   string
	expires time.Time
	turn    chan struct{} // holds one token: whoever has it may send the next action

	mu       sync.Mutex
	sequence int64 // the last one used
	dead     error // why the session is over
}

// Connect opens the registration whose descriptor is the file at path, with
// browser.sock beside it, and makes the handshake. Closing the session closes
// the registration.
func Connect(ctx context.Context, path string) (*Session, error) {
	reg, err := OpenRegistration(path)
	if err != nil {
		return nil, err
	}
	s, err := reg.Connect(ctx)
	if err != nil {
		return nil, errors.Join(err, reg.Close())
	}
	return s, nil
}

// Connect makes the handshake: once, since the attempt spends the token. An
// error carries the code of section 2's mapping, or is ctx's.
func (r *Registration) Connect(ctx context.Context) (*Session, error) {
	q := ownedv1.HandshakeRequest{Identity: r.desc.Identity, ClientNonce: randomHex(32)}
	limited, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	body, err := r.post(limited, ownedv1.Handshake, r.desc.BootstrapToken, q.Encode())
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	a, err := ownedv1.DecodeHandshakeResponse(body)
	if err == nil {
		err = a.Answers(r.desc, q.ClientNonce, time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	s := &Session{reg: r, token: a.SessionToken, expires: time.UnixMilli(a.ExpiresAtMS), turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s, nil
}

// Do sends one action and answers its result object: a …Result of ownedv1, or
// {"error": CODE} where the action failed (see ownedv1.Failure). The deadline is
// ctx's, and at most 30 s from now; time spent behind another action counts.
//
// When ctx is cancelled, Do first asks the host to stop the action and waits at
// most 2 s for that, then answers ctx's error. Any other error carries a code.
// Params that can't be sent (BROWSER_ACTION_FAILED, nothing was) and a deadline
// that the host kept (BROWSER_TIMEOUT) leave the session open; else see
// [Session.Err].
func (s *Session) Do(ctx context.Context, a ownedv1.Action) (jsontext.Value, error) {
	deadline := time.Now().Add(ownedv1.MaxDeadlineMS * time.Millisecond)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-late.C:
		return nil, timedOut("behind another action")
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, timedOut("behind another action")
		}
		return nil, ctx.Err()
	}
	params, err := ownedv1.EncodeParams(a)
	if err != nil {
		return nil, err
	}
	q, err := s.request(deadline)
	if err != nil {
		return nil, err
	}
	q.Action, q.RawParams = a.Name(), params
	return s.send(ctx, q, deadline)
}

func timedOut(where string) error { return fmt.Errorf("%s: %w", where, refusal.BrowserTimeout) }

// request draws the next sequence, unless the session is over.
func (s *Session) request(deadline time.Time) (ownedv1.ActionRequest, error) {
	if !time.Now().Before(s.expires) {
		s.end(fmt.Errorf("the session has expired: %w", refusal.UnauthorizedAdapter))
	}
	if err := s.reg.unchanged(); err != nil {
		s.end(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return ownedv1.ActionRequest{}, fmt.Errorf("the session is over, only a new registration helps: %w", s.dead)
	}
	s.sequence++
	return ownedv1.ActionRequest{
		Identity: s.reg.desc.Identity, RequestID: randomHex(16), Sequence: s.sequence,
		DeadlineMS: deadline.UnixMilli(),
	}, nil
}

// answer is what came back for an action.
type answer struct {
	result jsontext.Value
	err    error
}

// send posts one action and waits for its answer or for the caller to give up.
func (s *Session) send(ctx context.Context, q ownedv1.ActionRequest, deadline time.Time) (jsontext.Value, error) {
	// The caller's cancellation mustn't cut the connection: the host would then
	// learn nothing, and we nothing of whether the action still runs.
	sent, stop := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(graceTime))
	defer stop()
	answers := make(chan answer, 1)
	go func() { answers <- s.ask(sent, q) }()
	select {
	case a := <-answers:
		return s.settle(a)
	case <-ctx.Done():
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		// A deadline is no cancellation: the host keeps the same one, and its 504
		// is awaited for the time of grace.
		return s.settle(<-answers)
	}
	s.cancel(ctx, q, stop, answers)
	return nil, ctx.Err()
}

// ask posts an action and judges the answer.
func (s *Session) ask(ctx context.Context, q ownedv1.ActionRequest) answer {
	body, err := s.reg.post(ctx, ownedv1.DoAction, s.token, q.Encode())
	if err != nil {
		return answer{nil, err}
	}
	r, err := ownedv1.DecodeActionResponse(body)
	if err == nil {
		err = r.Answers(q)
	}
	return answer{r.Result, err}
}

// settle hands an answer out, and ends the session if it can't go on.
func (s *Session) settle(a answer) (jsontext.Value, error) {
	if a.err != nil && !errors.Is(a.err, errKept) {
		s.end(a.err)
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.result, nil
}

// cancel stops the action whose caller has gone, shielded from that caller. An
// action whose end nobody confirmed ends the session.
func (s *Session) cancel(ctx context.Context, q ownedv1.ActionRequest, stop func(), answers <-chan answer) {
	shielded, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer done()
	c := ownedv1.CancelRequest{Identity: q.Identity, RequestID: q.RequestID, Sequence: q.Sequence}
	body, err := s.reg.post(shielded, ownedv1.Cancel, s.token, c.Encode())
	if err == nil {
		var r ownedv1.CancelResponse
		if r, err = ownedv1.DecodeCancelResponse(body); err == nil {
			err = r.Answers(c)
		}
	}
	if err != nil {
		s.end(err)
		stop()
		<-answers
		return
	}
	select {
	case a := <-answers:
		// 409 is how a cancelled action ends; one that was done first has a result.
		if a.err != nil && !errors.Is(a.err, errKept) && !errors.Is(a.err, errConflict) {
			s.end(a.err)
		}
	case <-shielded.Done():
		s.end(fmt.Errorf("a cancelled action has no answer: %w", refusal.BrowserProtocolError))
		stop()
		<-answers
	}
}

// end makes the session dead; the first reason stays.
func (s *Session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead == nil {
		s.dead = err
	}
}

// Err answers why the session is over, nil while it is open.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// Expires answers when the host will end the session.
func (s *Session) Expires() time.Time { return s.expires }

// Close ends the session on this side, waits for an action in flight and lets
// the registration go. The host isn't told: its run ends by whoever started it.
func (s *Session) Close() error {
	s.end(fmt.Errorf("closed: %w", refusal.BrowserDisconnected))
	<-s.turn // the folder must not be closed under a connection that is being made
	defer func() { s.turn <- struct{}{} }()
	return s.reg.Close()
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
