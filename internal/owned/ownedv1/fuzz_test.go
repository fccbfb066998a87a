package ownedv1_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"chaperone/internal/owned/ownedv1"
)

// fuzzNow is fixed, so that a corpus keeps its meaning.
var fuzzNow = time.UnixMilli(1_800_000_000_000)

// accepted checks what holds for every message that a decoder lets through:
// it is JSON to the standard library as well, and encoding it again gives a
// message that decodes and encodes to the same bytes.
func accepted(t *testing.T, text []byte, encode func() []byte, again func([]byte) ([]byte, error)) {
	t.Helper()
	if !json.Valid(text) {
		t.Fatalf("encoding/json refuses %q", text)
	}
	once := encode()
	twice, err := again(once)
	if err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%q comes back as %q, %v", once, twice, err)
	}
}

func seed(f *testing.F, file, verb string) {
	for _, x := range vectors(f, file, fuzzNow) {
		if x.Verb == verb && len(x.Text) < 4096 {
			f.Add([]byte(x.Text))
		}
	}
}

func FuzzDescriptor(f *testing.F) {
	seed(f, "descriptors.json", "")
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := ownedv1.DecodeDescriptor(text, fuzzNow); err == nil {
			accepted(t, text, d.Encode, func(b []byte) ([]byte, error) {
				d, err := ownedv1.DecodeDescriptor(b, fuzzNow)
				return d.Encode(), err
			})
		}
	})
}

func FuzzHandshakeRequest(f *testing.F) {
	seed(f, "requests.json", "handshake")
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := ownedv1.DecodeHandshakeRequest(text); err == nil {
			accepted(t, text, r.Encode, func(b []byte) ([]byte, error) {
				r, err := ownedv1.DecodeHandshakeRequest(b)
				return r.Encode(), err
			})
		}
	})
}

func FuzzActionRequest(f *testing.F) {
	seed(f, "requests.json", "action")
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := ownedv1.DecodeActionRequest(text, fuzzNow); err == nil {
			accepted(t, text, r.Encode, func(b []byte) ([]byte, error) {
				r, err := ownedv1.DecodeActionRequest(b, fuzzNow)
				return r.Encode(), err
			})
			if (r.Params == nil) == (r.ParamsErr == nil) {
				t.Fatalf("params %v and %v", r.Params, r.ParamsErr)
			}
		}
	})
}

func FuzzCancelRequest(f *testing.F) {
	seed(f, "requests.json", "cancel")
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := ownedv1.DecodeCancelRequest(text); err == nil {
			accepted(t, text, r.Encode, func(b []byte) ([]byte, error) {
				r, err := ownedv1.DecodeCancelRequest(b)
				return r.Encode(), err
			})
		}
	})
}

func FuzzHandshakeResponse(f *testing.F) {
	seed(f, "answers.json", "handshake")
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := ownedv1.DecodeHandshakeResponse(text); err == nil {
			accepted(t, text, r.Encode, func(b []byte) ([]byte, error) {
				r, err := ownedv1.DecodeHandshakeResponse(b)
				return r.Encode(), err
			})
		}
	})
}

func FuzzActionResponse(f *testing.F) {
	seed(f, "answers.json", "action")
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := ownedv1.DecodeActionResponse(text); err == nil {
			accepted(t, text, r.Encode, func(b []byte) ([]byte, error) {
				r, err := ownedv1.DecodeActionResponse(b)
				return r.Encode(), err
			})
			ownedv1.Failure(r.Result)
		}
	})
}

func FuzzCancelResponse(f *testing.F) {
	seed(f, "answers.json", "cancel")
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := ownedv1.DecodeCancelResponse(text); err == nil {
			accepted(t, text, r.Encode, func(b []byte) ([]byte, error) {
				r, err := ownedv1.DecodeCancelResponse(b)
				return r.Encode(), err
			})
		}
	})
}

func FuzzErrorBody(f *testing.F) {
	f.Add([]byte(`{"error":"BROWSER_TIMEOUT"}`))
	f.Add([]byte(`{"error":"a"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := ownedv1.DecodeErrorBody(text); err == nil && (e.Error == "" || !json.Valid(text)) {
			t.Fatalf("%q is accepted as %q", text, e.Error)
		}
	})
}

func FuzzParams(f *testing.F) {
	for i := range ownedv1.Actions {
		f.Add(i, []byte(`{"url":"u","selector":"s","text":"t","expression":"e","tab_id":"i","timeout_ms":5}`))
	}
	f.Add(3, []byte(`{"selector":"a","text":"\ud83d\ude00","delay_ms":-0}`))
	f.Fuzz(func(t *testing.T, action int, text []byte) {
		name := ownedv1.Actions[uint(action)%uint(len(ownedv1.Actions))]
		a, err := ownedv1.DecodeParams(name, text)
		if err != nil {
			return
		}
		raw, err := ownedv1.EncodeParams(a)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ownedv1.DecodeParams(name, raw); err != nil || again != a {
			t.Fatalf("%#v comes back as %#v, %v", a, again, err)
		}
	})
}
