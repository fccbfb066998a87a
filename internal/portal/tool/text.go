package tool

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of an item's metadata.
const (
	MaxMetadata      = 16  // members
	maxMetadataText  = 512 // bytes of one text
	maxMetadataTexts = 32  // of one list
)

func validCollection(id string) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		word := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !word && (i == 0 || c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// ValidItem tells whether text can be an item's id: 1..512 bytes of valid Unicode
// without control, bidi-control, zero-width or tag characters and without a
// segment that is . or .. between slashes.
func ValidItem(id string) bool {
	if id == "" || len(id) > 512 || !Plain(id) {
		return false
	}
	for segment := range strings.SplitSeq(id, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// Plain tells whether text shows what it holds: valid Unicode without control,
// bidi-control, zero-width, tag, variation or private characters.
func Plain(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	return strings.IndexFunc(text, hidden) < 0
}

// hidden tells a character that a person can't see or that reorders what they see.
func hidden(r rune) bool {
	switch {
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), unicode.Is(unicode.Cs, r):
		return true
	case r == '\u2028', r == '\u2029', r == '\u034F', r == '\u115F', r == '\u1160', r == '\u3164', r == '\uFFA0':
		return true
	case r >= 0xE0000 && r <= 0xE0FFF, unicode.Is(unicode.Variation_Selector, r):
		return true
	}
	return unicode.Is(unicode.Noncharacter_Code_Point, r)
}

// validMetadata judges item_write's metadata: at most 16 members named
// [a-z][a-z0-9_]{0,31}, each a boolean, an integer, a plain text or a list of them.
func validMetadata(m map[string]any) (name string, ok bool) {
	if len(m) > MaxMetadata {
		return "", false
	}
	for name, v := range m {
		if !validMember(name) || !validValue(v) {
			return "", false
		}
	}
	return "", true
}

func validMember(name string) bool {
	if name == "" || len(name) > 32 || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func validValue(v any) bool {
	switch v := v.(type) {
	case bool, int64:
		return true
	case string:
		return len(v) <= maxMetadataText && Plain(v)
	case []any:
		for _, t := range v {
			if s, ok := t.(string); !ok || len(s) > maxMetadataText || !Plain(s) {
				return false
			}
		}
		return len(v) <= maxMetadataTexts
	}
	return false
}
