package pagetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// message is one frame, either way.
type message struct {
	ID      int64          `json:"id,omitzero"`
	Session string         `json:"sessionId,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	} `json:"error,omitzero"`
}

// lenient reads what a page may have put into the protocol: half pairs, and names
// twice.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// wire is the pipe to one engine.
type wire struct {
	out  io.Writer
	done chan struct{}

	mu      sync.Mutex // guards what follows, and writing
	next    int64
	pending map[int64]chan message
	events  map[string]func(method string, params jsontext.Value) // by session
}

func newWire(in io.Reader, out io.Writer) *wire {
	w := &wire{out: out, done: make(chan struct{}), pending: map[int64]chan message{}, events: map[string]func(string, jsontext.Value){}}
	go w.read(in)
	return w
}

// read ends with the pipe. Handlers of events run here and mustn't call the engine.
func (w *wire) read(in io.Reader) {
	defer close(w.done)
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		frame, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(frame[:len(frame)-1], &m, lenient) != nil {
			continue
		}
		w.mu.Lock()
		answer, handler := w.pending[m.ID], w.events[m.Session]
		delete(w.pending, m.ID)
		w.mu.Unlock()
		if m.ID != 0 && answer != nil {
			answer <- m
		} else if m.Method != "" && handler != nil {
			handler(m.Method, m.Params)
		}
	}
}

// call sends a command and reads its answer into result, which may be nil.
func (w *wire) call(ctx context.Context, session, method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	w.mu.Lock()
	w.next++
	id := w.next
	w.pending[id] = answer
	frame, err := json.Marshal(message{ID: id, Session: session, Method: method, Params: text})
	if err == nil {
		_, err = w.out.Write(append(frame, 0))
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %d %s %v", method, m.Error.Code, m.Error.Message, m.Error.Data)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result, lenient)
	case <-w.done:
		return fmt.Errorf("%s: the engine has gone", method)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

func (w *wire) listen(session string, handler func(string, jsontext.Value)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[session] = handler
}
