package engagement

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// stream is the run's event stream, open from the run's creation. It is read to
// its end, since closing it cancels the run.
type stream struct {
	hangUp context.CancelFunc
	ended  chan struct{} // closed when the server, or close, has ended it

	mu      sync.Mutex
	values  jsontext.Value
	failure jsontext.Value
	other   bool // it speaks of another run
}

// begin creates the thread, unless one was given, and the run with its stream.
func (t *turn) begin(ctx context.Context, body []byte) error {
	own := t.Thread == ""
	if err := t.thread(ctx); err != nil {
		return t.orTold(ctx, err)
	}
	err := t.patiently(ctx, func() error { return t.create(ctx, body) })
	if err == nil {
		return nil
	}
	err = t.orTold(ctx, t.explain(err))
	if own {
		err = errors.Join(err, t.forget())
	}
	return err
}

// orTold is err, or the caller's own wish where that came first.
func (t *turn) orTold(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errTold
	}
	return err
}

// thread makes the thread, or makes sure that there is the one that was given.
func (t *turn) thread(ctx context.Context) error {
	var thread struct {
		ID string `json:"thread_id"`
	}
	what, method, path, body := "a new thread", http.MethodPost, "/threads", []byte("{}")
	if t.Thread != "" {
		what, method, path, body = "the thread "+t.Thread, http.MethodGet, "/threads/"+t.Thread, nil
	}
	t.tell("asking for " + what)
	if err := t.patiently(ctx, func() error { return t.api.ask(ctx, what, method, path, body, &thread) }); err != nil {
		return err
	}
	if !uuid.MatchString(thread.ID) || t.Thread != "" && thread.ID != t.Thread {
		return &apiError{what: what, why: "the answer isn't what a LangGraph-compatible server answers: is --api right?"}
	}
	t.result.ThreadID = thread.ID
	return nil
}

// lateTime is how long a caller who wants to end still waits for the id of a run
// that is being made, in order to cancel it by name.
const lateTime = 2 * time.Second

// create makes the run. The id is the server's: in the header that tells where
// the run is.
func (t *turn) create(ctx context.Context, body []byte) error {
	const what = "a new run"
	living, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lateTime, hangUp) })
	resp, err := t.api.send(living, what, http.MethodPost, "/threads/"+t.result.ThreadID+"/runs/stream", body)
	if err != nil {
		stop()
		hangUp()
		return err
	}
	late := !stop()
	folder, id := path.Split(resp.Header.Get("Content-Location"))
	sse := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	if !sse || !uuid.MatchString(id) || !strings.HasSuffix(folder, "/threads/"+t.result.ThreadID+"/runs/") {
		hangUp() // which cancels whatever it made
		resp.Body.Close()
		return &apiError{what: what, why: "the answer isn't what a LangGraph-compatible server answers: it names no run"}
	}
	t.result.RunID, t.result.Status = id, Unknown
	t.stream = &stream{hangUp: hangUp, ended: make(chan struct{})}
	if late { // its time is nearly up, but the run has a name now
		close(t.stream.ended)
		resp.Body.Close()
		return nil
	}
	go t.stream.read(resp.Body, id)
	return nil
}

// explain tells a refusal of a run that a busy thread, or a missing assistant, is
// behind. Servers answer 409 or 422 where the thread is busy, and 422 for more.
func (t *turn) explain(err error) error {
	var refused *apiError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.status {
	case http.StatusNotFound:
		refused.why = "it knows no assistant or graph of that name: see --assistant"
	case http.StatusConflict, http.StatusUnprocessableEntity:
		var thread struct {
			Status string `json:"status"`
		}
		err := t.api.ask(context.Background(), "the thread", http.MethodGet, "/threads/"+t.result.ThreadID, nil, &thread)
		if refused.status == http.StatusConflict || err == nil && thread.Status == "busy" {
			refused.status, refused.why = http.StatusConflict, "another run is under way in this thread: wait for its end, or take another --thread"
		}
	}
	return refused
}

// forget deletes the thread that was made for a run that couldn't be. Runs that
// the server made without telling go with it.
func (t *turn) forget() error {
	ctx, cancel := context.WithTimeout(context.Background(), cancelTime)
	defer cancel()
	err := t.api.ask(ctx, "deletion of the new thread", http.MethodDelete, "/threads/"+t.result.ThreadID, nil, nil)
	if err != nil {
		return fmt.Errorf("the empty thread %s is left at the server: %w", t.result.ThreadID, err)
	}
	return nil
}

// maxEvent bounds one event that is kept. A larger one is let go: the thread's
// state has its values.
const maxEvent = 16 << 20

// read reads to the end.
func (s *stream) read(body io.ReadCloser, runID string) {
	defer close(s.ended)
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	var event string
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			s.take(event, data, runID)
			event, data = "", nil
		case string(field) == "event":
			event = string(value)
		case string(field) == "data" && len(data)+len(value) <= maxEvent:
			data = append(append(data, value...), '\n')
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		s.mu.Lock()
		s.values = nil
		s.mu.Unlock()
		// Its end, however it comes, is what counts now; the status is asked for.
		_, _ = io.Copy(io.Discard, body)
	}
}

// take keeps what one event tells.
func (s *stream) take(event string, data []byte, runID string) {
	value := jsontext.Value(bytes.TrimSpace(data))
	if !value.IsValid() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch event {
	case "metadata":
		var of struct {
			RunID string `json:"run_id"`
		}
		s.other = s.other || json.Unmarshal(value, &of) != nil || of.RunID != runID
	case "values":
		s.values = value
	case "error":
		s.failure = value
	}
}

// foreign tells whether the stream spoke of another run than the one it is of.
func (s *stream) foreign() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.other
}

// told answers the last values and the failure that the stream told.
func (s *stream) told() (values, failure jsontext.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values, s.failure
}

// close hangs up and waits for the reader. It may be called often.
func (s *stream) close() {
	s.hangUp()
	<-s.ended
}
