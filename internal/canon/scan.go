package canon

import (
	"slices"

	"chaperone/internal/refusal"
)

// scanner reads text and writes out in one pass. Only an object whose keys come
// in another order is copied a second time.
type scanner struct {
	text    []byte
	at      int
	out     []byte
	members []span // of the objects that are open, innermost last
	scratch []byte // reused by sort
}

// span is one member of an object: its bytes in out, and its unescaped key.
type span struct {
	key        []byte
	start, end int
}

func (s *scanner) bad(why string) error { return &Error{refusal.BadDocument, s.at, why} }

// document reads one value and nothing after it.
func (s *scanner) document() error {
	if err := s.value(0); err != nil {
		return err
	}
	s.space()
	if s.at < len(s.text) {
		return s.bad("data after the value")
	}
	return nil
}

// space skips JSON's four kinds of white space.
func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// next skips white space and answers the byte there, 0 at the end: a NUL never
// begins a token, so the two needn't be told apart.
func (s *scanner) next() byte {
	s.space()
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// value reads one value that stands inside depth arrays and objects.
func (s *scanner) value(depth int) error {
	switch c := s.next(); {
	case c == '"':
		_, err := s.str()
		return err
	case c == '{' || c == '[':
		if depth == MaxDepth {
			return &Error{refusal.TooDeep, s.at, "nested over 64 deep"}
		}
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return s.bad("no value")
}

func (s *scanner) literal(word string) error {
	end := s.at + len(word)
	if end > len(s.text) || string(s.text[s.at:end]) != word {
		return s.bad("no value")
	}
	s.at = end
	s.out = append(s.out, word...)
	return nil
}

// number reads an integer in its one spelling.
func (s *scanner) number() error {
	start, i := s.at, s.at
	if s.text[i] == '-' {
		i++
	}
	first, n := i, uint64(0)
	for i < len(s.text) && '0' <= s.text[i] && s.text[i] <= '9' {
		if n <= MaxInt { // beyond, it only has to stay beyond
			n = 10*n + uint64(s.text[i]-'0')
		}
		i++
	}
	switch {
	case i == first:
		return s.bad("a sign without a number")
	case s.text[first] == '0' && i > first+1:
		return s.bad("a leading zero")
	case i < len(s.text) && (s.text[i] == '.' || s.text[i]|0x20 == 'e'):
		return s.bad("a float")
	case n == 0 && first > start:
		return s.bad("a negative zero")
	case n > MaxInt:
		return s.bad("an integer beyond 2^53-1")
	}
	s.at = i
	s.out = append(s.out, s.text[start:i]...)
	return nil
}

func (s *scanner) array(depth int) error {
	s.at++
	s.out = append(s.out, '[')
	if s.next() == ']' {
		return s.close(']')
	}
	for {
		if err := s.value(depth); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.at++
			s.out = append(s.out, ',')
		case ']':
			return s.close(']')
		default:
			return s.bad("no , or ] after an element")
		}
	}
}

func (s *scanner) close(c byte) error {
	s.at++
	s.out = append(s.out, c)
	return nil
}

func (s *scanner) object(depth int) error {
	s.at++
	s.out = append(s.out, '{')
	if s.next() == '}' {
		return s.close('}')
	}
	base := len(s.members)
	for {
		if s.next() != '"' {
			return s.bad("no key")
		}
		start := len(s.out)
		key, err := s.str()
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.bad("no : after a key")
		}
		s.at++
		s.out = append(s.out, ':')
		if err := s.value(depth); err != nil {
			return err
		}
		s.members = append(s.members, span{key, start, len(s.out)})
		switch s.next() {
		case ',':
			s.at++
			s.out = append(s.out, ',')
		case '}':
			err := s.sort(s.members[base:])
			s.members = s.members[:base]
			if err != nil {
				return err
			}
			return s.close('}')
		default:
			return s.bad("no , or } after a member")
		}
	}
}

// sort puts the members of one object, the last thing in out, into the order of
// their keys.
func (s *scanner) sort(members []span) error {
	ordered := true
	for i := 1; i < len(members) && ordered; i++ {
		ordered = compare(members[i-1].key, members[i].key) < 0
	}
	if ordered {
		return nil
	}
	first := members[0].start
	slices.SortFunc(members, func(a, b span) int { return compare(a.key, b.key) })
	s.scratch = s.scratch[:0]
	for i, m := range members {
		if i > 0 {
			if compare(members[i-1].key, m.key) == 0 {
				return s.bad("a duplicate key in the object that ends here")
			}
			s.scratch = append(s.scratch, ',')
		}
		s.scratch = append(s.scratch, s.out[m.start:m.end]...)
	}
	s.out = append(s.out[:first], s.scratch...)
	return nil
}

// compare orders valid UTF-8 by UTF-16 code units. The two orders differ in one
// place: a surrogate pair (lead bytes F0 to F4) stands before U+E000 to U+FFFF
// (lead bytes EE and EF). Both bytes are lead bytes there, since no continuation
// byte is as high.
func compare[T string | []byte](a, b T) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			x, y = y, x
		}
		return int(x) - int(y)
	}
	return len(a) - len(b)
}
