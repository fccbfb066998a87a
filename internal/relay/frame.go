package relay

import (
	"crypto/rand"
	"errors"
	"regexp"

	"chaperone/internal/refusal"
)

// kind is what a frame is.
type kind byte

const (
	ask    kind = 1 // a question: id, topic, body
	still  kind = 2 // its sender is there, and so is its interest in the question id
	stop   kind = 3 // who asked gives the question id up
	answer kind = 4 // to the question id: body
	refuse kind = 5 // to the question id: a code, or none, as body
	hint   kind = 6 // topic, body
	away   kind = 7 // to the question id: nobody works at it here
)

// ticket names one question among those of its asker. A hint's is zero.
type ticket [16]byte

func newTicket() (t ticket) {
	rand.Read(t[:])
	return t
}

// frame is one message between nodes: kind, ticket, the topic's length and the
// topic, and the body, which is the rest.
type frame struct {
	kind  kind
	id    ticket
	topic string
	body  []byte
}

const (
	maxTopic  = 32
	frameHead = 1 + len(ticket{}) + 1
)

// errFrame is a message that isn't one of ours. It tells nothing of the content.
var errFrame = errors.New("no message of a node's")

var (
	topicForm = regexp.MustCompile(`^[a-z][a-z_]{0,31}$`)
	codeForm  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
)

func (f frame) encode() ([]byte, error) {
	if !f.valid() {
		return nil, errFrame
	}
	out := make([]byte, 0, frameHead+len(f.topic)+len(f.body))
	out = append(out, byte(f.kind))
	out = append(out, f.id[:]...)
	out = append(out, byte(len(f.topic)))
	out = append(out, f.topic...)
	return append(out, f.body...), nil
}

// decode reads a frame whole, or refuses it.
func decode(data []byte) (frame, error) {
	if len(data) < frameHead {
		return frame{}, errFrame
	}
	f := frame{kind: kind(data[0]), id: ticket(data[1 : frameHead-1])}
	n, rest := int(data[frameHead-1]), data[frameHead:]
	if n > len(rest) {
		return frame{}, errFrame
	}
	f.topic, f.body = string(rest[:n]), rest[n:]
	if !f.valid() {
		return frame{}, errFrame
	}
	return f, nil
}

// valid tells whether a frame has what its kind has, and nothing else.
func (f frame) valid() bool {
	named, asked, full := f.topic != "", f.id != ticket{}, len(f.body) > 0
	switch f.kind {
	case ask:
		return asked && topicForm.MatchString(f.topic) && len(f.body) <= MaxBody
	case still, stop, away:
		return asked && !named && !full
	case answer:
		return asked && !named && len(f.body) <= MaxBody
	case refuse:
		return asked && !named && (!full || codeForm.Match(f.body))
	case hint:
		return !asked && topicForm.MatchString(f.topic) && len(f.body) <= MaxBody
	}
	return false
}

// refusing is an error as the other node is told of it.
func refusing(id ticket, err error) frame {
	code := []byte(refusal.Of(err))
	if !codeForm.Match(code) {
		code = nil
	}
	return frame{kind: refuse, id: id, body: code}
}

// refused is the error that a refusing frame tells.
func (f frame) refused() error {
	if len(f.body) == 0 {
		return refusal.Failed
	}
	return refusal.Code(f.body)
}
