package mcp

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter is a rate for each name. What is remembered is bounded: the idle are
// forgotten first, and their buckets were full again anyway.
type limiter struct {
	every rate.Limit
	burst int

	mu    sync.Mutex // guards the fields below
	names map[string]*rate.Limiter
}

const maxNames = 10_000

// newLimiter allows perSecond of each name in the long run, and burst at once.
func newLimiter(perSecond float64, burst int) *limiter {
	return &limiter{every: rate.Limit(perSecond), burst: burst, names: map[string]*rate.Limiter{}}
}

func (l *limiter) allow(name string) bool {
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
func (l *limiter) sweep(now time.Time) {
	for name, bucket := range l.names {
		if bucket.TokensAt(now) >= float64(l.burst) {
			delete(l.names, name)
		}
	}
	if len(l.names) >= maxNames {
		clear(l.names)
	}
}
