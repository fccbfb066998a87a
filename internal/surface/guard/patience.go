package guard

import (
	"io"
	"net/http"
	"time"
)

// How long a caller may take. A stream may last; what is limited is one body as a
// whole, and each write to a caller that has stopped reading.
const (
	bodyTime  = 30 * time.Second
	writeTime = 30 * time.Second
)

// patiently bounds what a caller can hold open by being slow: a body that doesn't
// come, an answer that isn't taken. end is called when the handler has returned.
// A writer without deadlines (a test's recorder) has none.
func patiently(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, func()) {
	p := &patient{ResponseWriter: w, control: http.NewResponseController(w)}
	p.control.SetWriteDeadline(time.Time{}) // of the connection's request before this one
	if r.Body != nil && r.Body != http.NoBody && p.control.SetReadDeadline(time.Now().Add(bodyTime)) == nil {
		r = r.WithContext(r.Context())
		r.Body = &timely{ReadCloser: r.Body, control: p.control}
	}
	// What net/http still holds back goes out after the handler.
	return p, r, func() { p.control.SetWriteDeadline(time.Now().Add(writeTime)) }
}

// timely lifts the deadline once the body is there: it is the connection's, and
// would end a handler that goes on working.
type timely struct {
	io.ReadCloser
	control *http.ResponseController
	done    bool
}

func (t *timely) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	if err != nil && !t.done {
		t.done = true
		if err == io.EOF {
			t.control.SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// patient waits for a reader of its answer, but not for ever.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	p.control.SetWriteDeadline(time.Now().Add(writeTime))
	defer p.control.SetWriteDeadline(time.Time{})
	return p.ResponseWriter.Write(b)
}

// FlushError sends what was written.
func (p *patient) FlushError() error {
	p.control.SetWriteDeadline(time.Now().Add(writeTime))
	defer p.control.SetWriteDeadline(time.Time{})
	return p.control.Flush()
}

// Flush is FlushError for whoever asks for an http.Flusher.
func (p *patient) Flush() { p.FlushError() } // who has gone is seen by the next write

// Unwrap lets a response controller reach the writer's other abilities.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
