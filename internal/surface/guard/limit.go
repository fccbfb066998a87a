package guard

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates of one peer, by what it shows: who shows nothing is asked to wait soonest.
var rates = map[Credential]struct {
	perSecond float64
	burst     int
}{
	Nobody: {20, 60},
	Owner:  {100, 300},
	Bearer: {200, 400},
	Itself: {2000, 4000},
}

// Limiter is a rate for each name. What is remembered is bounded: the idle are
// forgotten first, and their buckets were full again anyway.
type Limiter struct {
	every rate.Limit
	burst int

	mu    sync.Mutex // guards names
	names map[string]*rate.Limiter
}

const maxNames = 10_000

// NewLimiter allows perSecond of each name in the long run, and burst at once.
func NewLimiter(perSecond float64, burst int) *Limiter {
	return &Limiter{every: rate.Limit(perSecond), burst: burst, names: map[string]*rate.Limiter{}}
}

// Allow takes one of the name's.
func (l *Limiter) Allow(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := l.names[name]
	if bucket == nil {
		if len(l.names) >= maxNames {
			l.sweep(time.Now())
		}
		bucket = rate.NewLimiter(l.every, l.burst)
		l.names[name] = bucket
	}
	return bucket.Allow()
}

// sweep forgets full buckets, and where there is none all of them.
func (l *Limiter) sweep(now time.Time) {
	for name, bucket := range l.names {
		if bucket.TokensAt(now) >= float64(l.burst) {
			delete(l.names, name)
		}
	}
	if len(l.names) >= maxNames {
		clear(l.names)
	}
}
