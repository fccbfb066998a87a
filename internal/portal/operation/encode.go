package operation

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"chaperone/internal/canon"
	"chaperone/internal/portal/tool"
)

// encode answers a result's canonical bytes. What is outside the subset came from
// a source that lied.
func encode(result any) ([]byte, error) {
	data, err := json.Marshal(result)
	if err != nil {
		return nil, lied("a result that doesn't encode")
	}
	if data, err = canon.Canonicalize(data); err != nil {
		return nil, lied("a result outside the subset")
	}
	return data, nil
}

// plain tells whether bytes of a content are told as text, and how many of them:
// where more follows, the last character may be cut, and stays for the next part.
func plain(content []byte, more bool) (int, bool) {
	n := len(content)
	if more {
		n = whole8(content)
	}
	if n == 0 && len(content) > 0 || !utf8.Valid(content[:n]) {
		return len(content), false
	}
	return n, true
}

// whole8 answers the length of content without the beginning of a character at
// its end.
func whole8(content []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(content); back++ {
		b := content[len(content)-back]
		if !utf8.RuneStart(b) {
			continue
		}
		if !utf8.FullRune(content[len(content)-back:]) {
			return len(content) - back
		}
		break
	}
	return len(content)
}

// fits answers how many bytes of a text have an encoding of at most budget bytes,
// at a character's boundary. It counts what canonical JSON escapes.
func fits(text []byte, budget int) int {
	used := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		cost := size
		switch {
		case r == '"' || r == '\\' || r == '\b' || r == '\f' || r == '\n' || r == '\r' || r == '\t':
			cost = 2
		case r < 0x20:
			cost = 6
		}
		if used += cost; used > budget {
			return i
		}
		i += size
	}
	return len(text)
}

// small tells whether a result is within its bound.
func small(data []byte) bool { return len(data) <= tool.MaxResult }
