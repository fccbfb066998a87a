package proxy

import (
	"io"
	"time"
)

// ReadHello is the ClientHello reader, for its fuzz test: the server name,
// whether there is one, and the bytes that were read.
func ReadHello(r io.Reader) (name string, named bool, raw []byte, err error) {
	h, raw, err := readHello(r)
	return h.name, h.named, raw, err
}

// NewHasty is New with another time in which a header has to come.
func NewHasty(c Config, patience time.Duration) (*Proxy, error) { return newProxy(c, patience) }
