package proxy

import "io"

// ReadHello is the ClientHello reader, for its fuzz test: the server name,
// whether there is one, and the bytes that were read.
func ReadHello(r io.Reader) (name string, named bool, raw []byte, err error) {
	h, raw, err := readHello(r)
	return h.name, h.named, raw, err
}
