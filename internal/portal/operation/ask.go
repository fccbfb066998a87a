package operation

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// grace is how much later than its deadline a source is still heard: one that
// keeps it answers just then.
const grace = 250 * time.Millisecond

// errGivenUp tells that a source didn't answer in time.
var errGivenUp = errors.New("the source didn't answer in time")

// errBroke tells that a source's code panicked.
var errBroke = errors.New("the source's code broke")

// answer is what a call of a source came to.
type answer[T any] struct {
	value T
	err   error
}

// start calls a source in a goroutine of its own, which Close waits for and which
// holds the slot. A mail that makes a parser panic must not end everybody's calls.
func start[T any](d *Desk, s *slot, ctx context.Context, call func(context.Context) (T, error)) <-chan answer[T] {
	done := make(chan answer[T], 1)
	s.hold()
	d.running.Go(func() {
		defer s.drop()
		a := answer[T]{err: errBroke}
		defer func() {
			recover()
			done <- a
		}()
		a.value, a.err = call(ctx)
	})
	return done
}

// ask is one read of a source under its deadline. What is cancelled by the caller
// is cancelled; a source that fails in a way that isn't the contract's, or hangs,
// is source_unavailable.
func ask[T any](ctx context.Context, d *Desk, s *slot, call func(context.Context) (T, error)) (T, error) {
	var none T
	within, cancel := context.WithTimeout(ctx, d.limits.Deadline)
	defer cancel()
	done := start(d, s, within, call)
	var a answer[T]
	select {
	case a = <-done:
	case <-within.Done():
		a = last(done)
	}
	switch {
	case a.err == nil:
		return a.value, nil
	case ctx.Err() != nil:
		return none, tool.Fail(tool.Cancelled)
	}
	return none, refused(a.err, tool.SourceUnavailable)
}

// last hears a source that keeps its deadline.
func last[T any](done <-chan answer[T]) answer[T] {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case a := <-done:
		return a
	case <-timer.C:
		return answer[T]{err: errGivenUp}
	}
}

var (
	isVersion    = regexp.MustCompile(`^[!-~]{1,128}$`)
	isCollection = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	isCursor     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,1000}$`)
	isMediaType  = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$`)
)

// refused makes a source's error one of the contract's that a source may give,
// with the details that mean something to a caller, or otherwise where it isn't.
func refused(err error, otherwise refusal.Code) *tool.Error {
	var told *tool.Error
	if errors.As(err, &told) {
		clean := tool.Fail(told.Code)
		switch told.Code {
		case tool.VersionConflict:
			if v, ok := told.Details["version"].(string); ok && isVersion.MatchString(v) {
				clean = tool.Fail(told.Code, "version", v)
			}
			return clean
		case tool.QuotaExceeded:
			for _, name := range []string{"limit", "used"} {
				if n, ok := whole(told.Details[name]); ok {
					if clean.Details == nil {
						clean.Details = map[string]any{}
					}
					clean.Details[name] = n
				}
			}
			return clean
		case tool.InvalidInput:
			path, ok := told.Details["path"].(string)
			if rule, also := told.Details["rule"].(string); ok && also && ours.MatchString(path) && ours.MatchString(rule) {
				clean = tool.Fail(told.Code, "path", path, "rule", rule)
			}
			return clean
		case tool.NotFound, tool.AlreadyExists, tool.SourceDisconnected, tool.SourceUnavailable, tool.FunctionUnavailable, tool.TooLarge:
			return clean
		}
	}
	return tool.Fail(otherwise)
}

// ours is what a path and a rule in our own errors look like.
var ours = regexp.MustCompile(`^[A-Za-z0-9_/]{0,64}$`)

func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, v >= 0
	case int:
		return int64(v), v >= 0
	}
	return 0, false
}

// sound checks what a source tells of an item, and cuts what is too long to tell.
func sound(i source.Item) (source.Item, error) {
	if !tool.ValidItem(i.Item) || !isVersion.MatchString(i.Version) || i.Size < 0 {
		return i, lied("an item that can't be")
	}
	if !isMediaType.MatchString(i.MediaType) {
		i.MediaType = "application/octet-stream"
	}
	i.Title = clip(strings.ToValidUTF8(i.Title, "\uFFFD"), 1024)
	return i, nil
}

// clip cuts a text to most bytes at a character's boundary.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most]
}
