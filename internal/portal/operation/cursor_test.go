package operation

import (
	"testing"

	"chaperone/internal/refusal"
)

// FuzzCursor: a cursor that is read is one that was made, and nothing panics.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "YzE6ZmlsZXM", "YzE6", "YzI6ZmlsZXM", "!!!", cursor("a-b_c")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		after, err := parseCursor(text)
		switch {
		case err != nil && refusal.Of(err) != "invalid_input":
			t.Errorf("%q: %v", text, err)
		case err == nil && text != "" && cursor(after) != text:
			t.Errorf("%q was read as %q, which is %q", text, after, cursor(after))
		}
	})
}

// FuzzFits: what is kept of a text is whole characters, and fits.
func FuzzFits(f *testing.F) {
	f.Add([]byte("a\"\\\n\x01é😀"), 7)
	f.Fuzz(func(t *testing.T, text []byte, budget int) {
		n, ok := plain(text, false)
		if !ok || n != len(text) {
			return
		}
		kept := text[:fits(text, budget)]
		if _, ok := plain(kept, false); !ok {
			t.Errorf("%q is cut within a character", kept)
		}
		data, err := encode(string(kept))
		if err != nil || len(kept) > 0 && len(data)-2 > budget {
			t.Errorf("%q is %d bytes of JSON, over %d (%v)", kept, len(data)-2, budget, err)
		}
	})
}
