package canon

import (
	"unicode/utf16"
	"unicode/utf8"
)

// plain marks the bytes that stand for themselves in a JSON string, on both
// sides: ASCII but for controls, the quote and the backslash.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// str reads a string, writes it and answers it unescaped.
func (s *scanner) str() ([]byte, error) {
	start := s.at + 1
	i := start
	for i < len(s.text) {
		c := s.text[i]
		switch {
		case plain[c]:
			i++
		case c >= utf8.RuneSelf:
			_, size := utf8.DecodeRune(s.text[i:])
			if size == 1 {
				s.at = i
				return nil, s.bad("invalid UTF-8")
			}
			i += size
		case c == '"': // no escape in it: the text is its own encoding
			s.out = append(s.out, s.text[s.at:i+1]...)
			s.at = i + 1
			return s.text[start:i], nil
		default:
			return s.escaped(start, i)
		}
	}
	s.at = i
	return nil, s.bad("a string without an end")
}

// escaped goes on with a string that has its first escape, or a raw control
// character, at i.
func (s *scanner) escaped(start, i int) ([]byte, error) {
	key := append(make([]byte, 0, 2*(i-start)+16), s.text[start:i]...)
	for i < len(s.text) {
		c := s.text[i]
		s.at = i
		switch {
		case c == '"':
			s.at = i + 1
			s.out = appendString(s.out, key)
			return key, nil
		case c < 0x20:
			return nil, s.bad("a raw control character")
		case c == '\\':
			r, size := s.escape(s.text[i:])
			if size == 0 {
				return nil, s.bad("a bad escape, or half of a surrogate pair")
			}
			key = utf8.AppendRune(key, r)
			i += size
		case c < utf8.RuneSelf:
			key = append(key, c)
			i++
		default:
			_, size := utf8.DecodeRune(s.text[i:])
			if size == 1 {
				return nil, s.bad("invalid UTF-8")
			}
			key = append(key, s.text[i:i+size]...)
			i += size
		}
	}
	s.at = i
	return nil, s.bad("a string without an end")
}

// escape reads one escape sequence, a surrogate pair as one; size 0 is none.
func (s *scanner) escape(t []byte) (r rune, size int) {
	if len(t) < 2 {
		return 0, 0
	}
	switch t[1] {
	case '"', '\\', '/':
		return rune(t[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	switch r = unit(t); {
	case r < 0:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	if r = utf16.DecodeRune(r, unit(t[6:])); r == utf8.RuneError {
		return 0, 0 // no pair makes U+FFFD
	}
	return r, 12
}

// unit reads \uXXXX; -1 is none.
func unit(t []byte) rune {
	if len(t) < 6 || t[0] != '\\' || t[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range t[2:6] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// appendString writes valid UTF-8 as a JSON string, escaping what JSON demands
// and nothing else.
func appendString[T string | []byte](out []byte, s T) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if plain[c] || c >= utf8.RuneSelf {
			continue
		}
		out = append(out, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, `\b`...)
		case '\f':
			out = append(out, `\f`...)
		case '\n':
			out = append(out, `\n`...)
		case '\r':
			out = append(out, `\r`...)
		case '\t':
			out = append(out, `\t`...)
		default:
			out = append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(out, s[from:]...), '"')
}
