package guard

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates of one peer, by what it shows: who shows nothing is asked to wait soonest.
var rates = map[Credential]struct {
	perSecond rate.Limit
	burst     int
}{
	Nobody: {20, 60},
	Owner:  {100, 300},
	Bearer: {200, 400},
	Itself: {2000, 4000},
}

// maxPeers bounds what is remembered; those that were idle longest are dropped.
const (
	maxPeers = 10_000
	idlePeer = time.Minute
)

type limiter struct {
	mu    sync.Mutex // guards peers
	peers map[key]*peer
}

type key struct {
	name string
	who  Credential
}

type peer struct {
	bucket *rate.Limiter
	used   time.Time
}

func newLimiter() *limiter { return &limiter{peers: map[key]*peer{}} }

// allow takes one token of the peer's bucket.
func (l *limiter) allow(name string, who Credential) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	p := l.peers[key{name, who}]
	if p == nil {
		if len(l.peers) >= maxPeers {
			l.sweep(now)
		}
		r := rates[who]
		p = &peer{bucket: rate.NewLimiter(r.perSecond, r.burst)}
		l.peers[key{name, who}] = p
	}
	p.used = now
	return p.bucket.AllowN(now, 1)
}

// sweep drops who was idle, and where everybody was busy all of them.
func (l *limiter) sweep(now time.Time) {
	for k, p := range l.peers {
		if now.Sub(p.used) > idlePeer {
			delete(l.peers, k)
		}
	}
	if len(l.peers) >= maxPeers {
		clear(l.peers)
	}
}
