package host

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
)

// session is the live side of the run's authority: what the journal knows by its
// hash, this process alone can honour.
type session struct {
	bootstrap      string    // published once, in the descriptor; "" for a local surface
	bootstrapUntil time.Time // in whole milliseconds, as it is published
	timer          *time.Timer

	beginning sync.Mutex // held while an action is committed; taken before mu

	mu       sync.Mutex
	token    [32]byte // SHA-256 of the session token; zero until the handshake
	until    time.Time
	sequence int64                // the highest accepted
	byID     map[string]*accepted // by request id, tombstones too
	bySeq    map[int64]*accepted
	tombs    int
}

// init makes the credentials of a new run. Nothing of a local surface's run
// expires, so its timer stands still.
func (s *session) init(handshake bool) {
	s.byID, s.bySeq = map[string]*accepted{}, map[int64]*accepted{}
	s.timer = time.NewTimer(BootstrapTime)
	if !handshake {
		s.timer.Stop()
		return
	}
	s.bootstrap = run.NewToken()
	s.bootstrapUntil = time.Now().Add(BootstrapTime).Truncate(time.Millisecond)
}

// number gives a local action the next sequence. A client's action brings its own.
func (s *session) number(a *run.Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Sequence == 0 {
		s.sequence++
		a.Sequence = s.sequence
	}
}

// Descriptor answers what a registration of this run publishes. It holds the
// one-use credential.
func (h *Host) Descriptor(endpoint, transport string) ownedv1.Descriptor {
	return ownedv1.Descriptor{
		Identity: h.Identity(), Endpoint: endpoint, Transport: transport,
		BootstrapToken: h.session.bootstrap, ExpiresAtMS: h.session.bootstrapUntil.UnixMilli(), HostCommit: h.commit,
	}
}

// Identity answers the binding that every message of this run carries.
func (h *Host) Identity() ownedv1.Identity {
	return ownedv1.Identity{
		Protocol: ownedv1.Protocol, EngagementID: h.config.Engagement, RunID: h.config.RunID, Epoch: h.run.Epoch(),
	}
}

// Admit judges a request's credential before its body is read; its refusal is a
// 401. A bootstrap token that is right and past its expiry burns the run.
func (h *Host) Admit(v ownedv1.Verb, token string) error {
	s := &h.session
	sum := sha256.Sum256([]byte(token))
	if v != ownedv1.Handshake {
		s.mu.Lock()
		defer s.mu.Unlock()
		if subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 || !time.Now().Before(s.until) {
			return v.Refuse(http.StatusUnauthorized, "", "the session credential isn't this run's")
		}
		return nil
	}
	want := sha256.Sum256([]byte(s.bootstrap))
	if subtle.ConstantTimeCompare(sum[:], want[:]) != 1 {
		return v.Refuse(http.StatusUnauthorized, "", "the bootstrap credential isn't this run's")
	}
	if !time.Now().Before(s.bootstrapUntil) {
		h.expire()
		return v.Refuse(http.StatusUnauthorized, "", "the bootstrap credential is past its expiry")
	}
	return nil
}

// Handshake spends the bootstrap token, which Admit has passed, and opens the
// session. Exactly one of any number of callers succeeds; the others get a 409.
// Another binding is a 403 and burns the token.
func (h *Host) Handshake(ctx context.Context, token string, req ownedv1.HandshakeRequest) (ownedv1.HandshakeResponse, error) {
	const v = ownedv1.Handshake
	// The verb goes on when its caller is gone: a half-told spending helps nobody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if bad := req.Check(v, h.Identity()); bad != nil {
		// The run can't be opened any more. It stays to say so until its expiry.
		if err := h.run.Burn(ctx, token); err != nil && !errors.Is(err, refusal.Replayed) {
			return ownedv1.HandshakeResponse{}, h.broken(v, err)
		}
		return ownedv1.HandshakeResponse{}, bad
	}
	session := run.NewToken()
	until := time.Now().Add(h.config.Session).Truncate(time.Millisecond)
	switch err := h.run.Open(ctx, token, session, until); refusal.Of(err) {
	case "":
		if err != nil {
			return ownedv1.HandshakeResponse{}, h.broken(v, err)
		}
	case refusal.Replayed:
		return ownedv1.HandshakeResponse{}, v.Refuse(http.StatusConflict, "", "the bootstrap credential was used before")
	case refusal.Expired, refusal.UnauthorizedAdapter:
		h.expire()
		return ownedv1.HandshakeResponse{}, v.Refuse(http.StatusUnauthorized, "", "the bootstrap credential isn't good any more")
	default:
		return ownedv1.HandshakeResponse{}, h.broken(v, err)
	}
	h.session.open(session, until)
	return ownedv1.HandshakeResponse{
		Identity: h.Identity(), ClientNonce: req.ClientNonce, SessionToken: session,
		ExpiresAtMS: until.UnixMilli(), HostCommit: h.commit, Capabilities: ownedv1.Capabilities,
	}, nil
}

// open takes the session's credential. From here the timer is the session's.
func (s *session) open(token string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.until = sha256.Sum256([]byte(token)), until
	s.timer.Reset(time.Until(until))
}

// expire ends the run if what it waits for is past its expiry: the handshake, or
// the session.
func (h *Host) expire() {
	s := &h.session
	s.mu.Lock()
	until, what := s.bootstrapUntil, "the bootstrap credential expired unused"
	if s.token != [32]byte{} {
		until, what = s.until, "the session expired"
	}
	if left := time.Until(until); left > 0 {
		s.timer.Reset(left)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	h.end(fmt.Errorf("%s: %w", what, refusal.Expired))
}

// broken ends a run whose authority can't be written any more. Whether the verb
// took effect isn't known, so nobody may go on with it.
func (h *Host) broken(v ownedv1.Verb, err error) error {
	h.end(fmt.Errorf("the run's journal can't be written: %w", err))
	return v.Refuse(http.StatusUnauthorized, "", "the run is over")
}
