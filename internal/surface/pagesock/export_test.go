package pagesock

import (
	"net"
	"net/http"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/live"
	"chaperone/internal/ref"
)

// Aged answers an arm's cookie whose time ends then.
func Aged(key []byte, value string, untilMS int64) (string, error) {
	s, c, err := openArm(key, value)
	c.untilMS = untilMS
	return s.seal(armKind, c.encode()), err
}

// ArmOf answers the arm of a cookie.
func ArmOf(key []byte, value string) (ref.Attended, error) {
	_, c, err := openArm(key, value)
	return c.arm, err
}

func openArm(key []byte, value string) (s sealer, c armed, err error) {
	if s, err = newSealer(key); err != nil {
		return s, c, err
	}
	text, err := s.open(armKind, value)
	if err != nil {
		return s, c, err
	}
	c, err = decodeArmed(text)
	return s, c, err
}

// Kinds of cookies.
const (
	Recent   = string(recentKind)
	Arm      = string(armKind)
	Document = string(documentKind)
)

// Seal and Open are a sealer's, by a cookie's name.
func Seal(key []byte, name string, text []byte) (string, error) {
	s, err := newSealer(key)
	if err != nil {
		return "", err
	}
	return s.seal(kind(name), text), nil
}

func Open(key []byte, name, value string) ([]byte, error) {
	s, err := newSealer(key)
	if err != nil {
		return nil, err
	}
	return s.open(kind(name), value)
}

// Again decodes a cookie's content and encodes it again.
func Again(name string, text []byte) ([]byte, error) {
	switch kind(name) {
	case recentKind:
		c, err := decodeRecent(text)
		if err != nil {
			return nil, err
		}
		return c.encode(), nil
	case armKind:
		c, err := decodeArmed(text)
		if err != nil {
			return nil, err
		}
		return c.encode(), nil
	}
	c, err := decodeLoad(text)
	if err != nil {
		return nil, err
	}
	return c.encode(), nil
}

// Accept upgrades a request to the authority's view of a socket, and answers how
// to wait for its end.
func Accept(w http.ResponseWriter, r *http.Request) (live.Conn, net.Conn, func(), error) {
	up := &upgrade{ResponseWriter: w}
	ws, err := websocket.Accept(up, r, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	c := newConn(ws, up.conn)
	return c, up.conn, c.end, nil
}

// Offer reads a finalize's body as its route does.
func Offer(body []byte) (controlv1.Place, error) {
	var o offer
	if err := json.Unmarshal(body, &o, json.RejectUnknownMembers(true)); err != nil {
		return controlv1.Place{}, err
	}
	return o.place(load{})
}
