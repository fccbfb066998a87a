package proxy_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"chaperone/internal/owned/proxy"
)

// extension is one of a ClientHello that a test writes byte by byte.
type extension struct {
	kind uint16
	data []byte
}

func prefixed(size int, data []byte) []byte {
	out := make([]byte, 4, 4+len(data))
	binary.BigEndian.PutUint32(out, uint32(len(data)))
	return append(out[4-size:], data...)
}

func sni(names ...string) extension {
	var list []byte
	for _, n := range names {
		list = append(append(list, 0), prefixed(2, []byte(n))...)
	}
	return extension{0, prefixed(2, list)}
}

// record is a ClientHello of the extensions in one record.
func record(extensions ...extension) []byte {
	var list []byte
	for _, e := range extensions {
		list = append(binary.BigEndian.AppendUint16(list, e.kind), prefixed(2, e.data)...)
	}
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, prefixed(1, nil)...)
	body = append(body, prefixed(2, []byte{0x13, 1})...)
	body = append(body, prefixed(1, []byte{0})...)
	body = append(body, prefixed(2, list)...)
	message := append([]byte{1}, prefixed(3, body)...)
	return append([]byte{22, 3, 1}, prefixed(2, message)...)
}

// What could be read as another name than the server reads is no ClientHello.
func TestClientHello(t *testing.T) {
	other := extension{0x2b, []byte{2, 3, 4}}
	good := record(other, sni("a.test"))
	for name, r := range map[string]struct {
		data []byte
		want string // the name, "-" where there is none, "error"
	}{
		"one name":               {good, "a.test"},
		"no name":                {record(other), "-"},
		"no extensions":          {record(), "-"},
		"two names":              {record(sni("a.test", "b.test")), "error"},
		"the extension twice":    {record(sni("a.test"), sni("b.test")), "error"},
		"another one twice":      {record(other, sni("a.test"), other), "error"},
		"an empty list":          {record(extension{0, prefixed(2, nil)}), "error"},
		"an empty name":          {record(sni("")), "error"},
		"another type of name":   {record(extension{0, prefixed(2, append([]byte{1}, prefixed(2, []byte("a.test"))...))}), "error"},
		"something behind":       {record(extension{0, append(prefixed(2, nil), 0)}), "error"},
		"cut short":              {good[:len(good)-1], "error"},
		"another record":         {append([]byte{23}, good[1:]...), "error"},
		"another message":        {append(append(good[:5:5], 2), good[6:]...), "error"},
		"not TLS":                {[]byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), "error"},
		"SSL 2":                  {[]byte{0x80, 0x2e, 1, 3, 1}, "error"},
		"nothing":                {nil, "error"},
		"two messages, a record": {append(append([]byte{22, 3, 1}, prefixed(2, append(good[5:len(good):len(good)], 0))...), 0), "error"},
		"too much":               {record(extension{0x15, make([]byte, 17<<10)}), "error"},
	} {
		got := "error"
		if name, named, _, err := proxy.ReadHello(bytes.NewReader(r.data)); err == nil {
			if got = name; !named {
				got = "-"
			}
		}
		if got != r.want {
			t.Errorf("%s: got %s, want %s", name, got, r.want)
		}
	}
	// Records of one byte each are still one ClientHello, up to its limit.
	var drops []byte
	for _, b := range good[5:] {
		drops = append(drops, 22, 3, 1, 0, 1, b)
	}
	if name, _, raw, err := proxy.ReadHello(bytes.NewReader(drops)); err != nil || name != "a.test" || !bytes.Equal(raw, drops) {
		t.Errorf("in drops: %q %v", name, err)
	}
	endless := strings.Repeat(string(append([]byte{22, 3, 1, 0x40, 0}, bytes.Repeat([]byte{1}, 1<<14)...)), 6)
	if _, _, _, err := proxy.ReadHello(strings.NewReader(endless)); err == nil {
		t.Error("a ClientHello without end was read")
	}
}
