package proxy

import (
	"encoding/binary"
	"errors"
	"io"
)

// hello is what a tunnel's first bytes say without being decrypted.
type hello struct {
	name      string // the server name; "" where there is none
	named     bool
	encrypted bool // by the draft of ECH, which replaced the name instead of covering it
}

const (
	recordHandshake  = 22
	maxRecord        = 1 << 14 // of a plaintext record's fragment
	maxHello         = 64 << 10
	extServerName    = 0
	extESNI          = 0xffce
	handshakeHello   = 1
	nameTypeHost     = 0
	recordHeaderSize = 5
)

var errHello = errors.New("not a TLS ClientHello")

// readHello reads a ClientHello, which may come in several records, and answers
// its bytes as well: they still have to reach the server.
func readHello(r io.Reader) (h hello, raw []byte, err error) {
	var message []byte
	for {
		raw = append(raw, make([]byte, recordHeaderSize)...)
		header := raw[len(raw)-recordHeaderSize:]
		if _, err := io.ReadFull(r, header); err != nil {
			return hello{}, nil, err
		}
		size := int(binary.BigEndian.Uint16(header[3:]))
		if header[0] != recordHandshake || header[1] != 3 || size == 0 || size > maxRecord || len(message)+size > maxHello {
			return hello{}, nil, errHello
		}
		raw = append(raw, make([]byte, size)...)
		fragment := raw[len(raw)-size:]
		if _, err := io.ReadFull(r, fragment); err != nil {
			return hello{}, nil, err
		}
		message = append(message, fragment...)
		if len(message) < 4 {
			continue
		}
		length := int(message[1])<<16 | int(message[2])<<8 | int(message[3])
		switch {
		case message[0] != handshakeHello || length > maxHello || len(message) > 4+length:
			return hello{}, nil, errHello // also where another message shares the record
		case len(message) == 4+length:
			h, ok := parseHello(message[4:])
			if !ok {
				return hello{}, nil, errHello
			}
			return h, raw, nil
		}
	}
}

// wire takes length-prefixed fields off the front of a message.
type wire []byte

func (w *wire) take(n int) (wire, bool) {
	if n > len(*w) {
		return nil, false
	}
	field := (*w)[:n]
	*w = (*w)[n:]
	return field, true
}

// vector takes a field whose length stands before it in size bytes.
func (w *wire) vector(size int) (wire, bool) {
	prefix, ok := w.take(size)
	if !ok {
		return nil, false
	}
	n := 0
	for _, b := range prefix {
		n = n<<8 | int(b)
	}
	return w.take(n)
}

func (w *wire) uint16() (int, bool) {
	field, ok := w.take(2)
	if !ok {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(field)), true
}

// An encrypted_client_hello extension isn't looked at. Chromium sends one with
// every ClientHello, filled with noise (GREASE), which nothing on the way can
// tell from a real one, and no switch turns it off. A real one needs a key from
// the DNS, which the box hasn't got, and its outer name is another host's, which
// the comparison with the tunnel's host refuses.

// parseHello reads the body of a ClientHello (RFC 8446, 4.1.2). Two extensions
// of one kind are refused: which of them counts is the server's guess.
func parseHello(body []byte) (h hello, ok bool) {
	w := wire(body)
	if _, ok := w.take(2 + 32); !ok { // version, random
		return h, false
	}
	for _, size := range []int{1, 2, 1} { // session id, cipher suites, compression
		if _, ok := w.vector(size); !ok {
			return h, false
		}
	}
	if len(w) == 0 {
		return h, true // no extensions at all, and so no name
	}
	extensions, ok := w.vector(2)
	if !ok || len(w) != 0 {
		return h, false
	}
	seen := map[int]bool{}
	for len(extensions) > 0 {
		kind, ok := extensions.uint16()
		if !ok || seen[kind] {
			return h, false
		}
		seen[kind] = true
		data, ok := extensions.vector(2)
		if !ok {
			return h, false
		}
		switch kind {
		case extESNI:
			h.encrypted = true
		case extServerName:
			if h.name, ok = serverName(data); !ok {
				return h, false
			}
			h.named = true
		}
	}
	return h, true
}

// serverName reads a list of exactly one host name (RFC 6066, section 3).
func serverName(data wire) (string, bool) {
	list, ok := data.vector(2)
	if !ok || len(data) != 0 {
		return "", false
	}
	kind, ok := list.take(1)
	if !ok || kind[0] != nameTypeHost {
		return "", false
	}
	name, ok := list.vector(2)
	if !ok || len(list) != 0 || len(name) == 0 {
		return "", false
	}
	return string(name), true
}
