package client

import (
	"context"
	"errors"
	"sync"
)

// Mount is a directory of registrations and the sessions made from it: one for
// each run, which keeps its sequence for as long as the registration lasts.
type Mount struct {
	dir  string
	life context.Context // ends at Close, and with it every wait for a registration
	end  context.CancelFunc

	mu   sync.Mutex
	runs map[ids]*seat
}

// ids is what binds a session: exactly this run of exactly this engagement.
type ids struct{ engagement, run string }

// seat is the place of one run's session. Whoever has its token may look, wait
// and shake hands; another run's callers don't wait behind it.
type seat struct {
	token   chan struct{}
	session *Session
	err     error // of the handshake, which is never made twice
}

// NewMount names the directory; it isn't looked at before it is needed.
func NewMount(dir string) *Mount {
	life, end := context.WithCancel(context.Background())
	return &Mount{dir: dir, life: life, end: end, runs: map[ids]*seat{}}
}

// Session answers the session of exactly this run and engagement: the one it
// has, or a new one from the registration it waits for (see [WaitRegistration]).
// A session that is over stays over, also when the run's registration was
// replaced: each turn of an agent is a run of its own.
func (m *Mount) Session(ctx context.Context, engagementID, runID string) (*Session, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(m.life, stop)()
	s := m.seat(ids{engagementID, runID})
	select {
	case <-s.token:
		defer func() { s.token <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case s.err != nil:
		return nil, s.err
	case s.session != nil:
		if err := s.session.reg.unchanged(); err != nil {
			s.session.end(err)
		}
		if err := s.session.Err(); err != nil {
			return nil, err
		}
		return s.session, nil
	}
	reg, err := WaitRegistration(ctx, m.dir, engagementID, runID)
	if err != nil {
		return nil, err
	}
	if s.session, s.err = reg.Connect(ctx); s.err != nil {
		return nil, errors.Join(s.err, reg.Close())
	}
	return s.session, nil
}

func (m *Mount) seat(id ids) *seat {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.runs[id]
	if s == nil {
		s = &seat{token: make(chan struct{}, 1)}
		s.token <- struct{}{}
		m.runs[id] = s
	}
	return s
}

// Close ends every session, and every wait for one with context.Canceled.
func (m *Mount) Close() error {
	m.end()
	m.mu.Lock()
	runs := m.runs
	m.runs = map[ids]*seat{}
	m.mu.Unlock()
	var errs []error
	for _, s := range runs {
		<-s.token
		if s.session != nil {
			errs = append(errs, s.session.Close())
		}
		s.token <- struct{}{}
	}
	return errors.Join(errs...)
}
