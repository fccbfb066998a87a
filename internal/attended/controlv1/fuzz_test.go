package controlv1_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"chaperone/internal/attended/controlv1"
)

// fuzz checks what holds for every text that a decoder lets through: it is JSON to
// the standard library as well, its encoding decodes to the same bytes, and is
// within the limit. What is refused is a *Bad that holds nothing of the text.
func fuzz(f *testing.F, way string) {
	for _, v := range vectors[frameVector](f, "attended-frames.json") {
		if v.Way == way && len(v.Text) < 4096 {
			f.Add([]byte(v.Text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := decode(way, text)
		if err != nil {
			if _, ok := err.(*controlv1.Bad); !ok {
				t.Fatalf("%q: %v is no *Bad", text, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("encoding/json refuses %q", text)
		}
		twice, err := decode(way, once)
		if err != nil || !bytes.Equal(once, twice) || len(once) > controlv1.MaxFrame {
			t.Fatalf("%q comes back as %q, %v", once, twice, err)
		}
	})
}

func FuzzPage(f *testing.F)         { fuzz(f, "page") }
func FuzzAuthority(f *testing.F)    { fuzz(f, "authority") }
func FuzzAction(f *testing.F)       { fuzz(f, "action") }
func FuzzReceipt(f *testing.F)      { fuzz(f, "receipt") }
func FuzzLeaseReceipt(f *testing.F) { fuzz(f, "lease") }
func FuzzTool(f *testing.F)         { fuzz(f, "tool") }

// FuzzOrigin: what is an origin is one in one spelling.
func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"https://a.example", "http://localhost:1", "http://[::1]:8", "null", "https://a.example:443", "http://a.example", "https://a@b", "https://a/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if o, err := controlv1.ParseOrigin(s); err == nil && o.String() != s {
			t.Fatalf("%q is %q", s, o)
		}
	})
}
