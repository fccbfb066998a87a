package browser

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// protocolError is the engine's own refusal of a call.
type protocolError struct {
	Method  string
	Code    int
	Message string
}

func (e *protocolError) Error() string {
	return fmt.Sprintf("%s: %s (%d)", e.Method, e.Message, e.Code)
}

// message is one frame in either direction. An answer has an ID, an event a
// Method.
type message struct {
	ID      int64          `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Session string         `json:"sessionId,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error,omitzero"`
}

// lenientText lets lone surrogates of page text pass as U+FFFD: a page may hold
// any, and none may end the run.
var lenientText = jsontext.AllowInvalidUTF8(true)

// eventName reads the method that leads an event as the engine writes it; "" says
// that the frame has to be decoded to know.
func eventName(frame []byte) string {
	rest, event := bytes.CutPrefix(frame, []byte(`{"method":"`))
	name, _, ended := bytes.Cut(rest[:min(len(rest), 100)], []byte(`"`))
	if !event || !ended {
		return ""
	}
	return string(name)
}

// decodeMessage reads one frame: an answer or an event, nothing else.
func decodeMessage(frame []byte) (message, error) {
	var m message
	if err := json.Unmarshal(frame, &m, lenientText); err != nil {
		// The decoder's own words would quote page text.
		return m, fmt.Errorf("a frame that isn't the protocol: %w", refusal.Malformed)
	}
	if m.ID < 0 || (m.ID == 0) == (m.Method == "") {
		return m, fmt.Errorf("a frame that is no answer and no event: %w", refusal.Malformed)
	}
	return m, nil
}

// tailSession reads the session that ends an event.
func tailSession(rest []byte) string {
	const key = `"sessionId":"`
	at := bytes.LastIndex(rest, []byte(key))
	id, ends := strings.CutSuffix(string(rest[max(0, at):]), `"}`)
	if at < 0 || !ends {
		return ""
	}
	return id[len(key):]
}

// scanHead reads the id or the method that leads a cut message.
func scanHead(head []byte) (m message) {
	d := jsontext.NewDecoder(&cut{head}, lenientText)
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return m
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return m
		}
		switch name.String() {
		case "id":
			tok, err := d.ReadToken()
			if err != nil || tok.Kind() != '0' {
				return m
			}
			if m.ID, err = tok.Int(); err != nil {
				return m
			}
		case "method":
			tok, err := d.ReadToken()
			if err != nil || tok.Kind() != '"' {
				return m
			}
			m.Method = tok.String()
		default:
			return m // params or result: the rest was cut off
		}
	}
}

// cut reads a message's head and then says that there would be more.
type cut struct{ rest []byte }

func (r *cut) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func encode(id int64, session, method string, params any) ([]byte, error) {
	return json.Marshal(struct {
		ID      int64  `json:"id"`
		Method  string `json:"method"`
		Session string `json:"sessionId,omitzero"`
		Params  any    `json:"params,omitzero"`
	}{id, method, session, params}, lenientText)
}
