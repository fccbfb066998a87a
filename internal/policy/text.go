package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
)

// Limits of a policy file.
const (
	MaxFile   = 256 << 10 // bytes
	MaxRules  = 500
	maxTokens = 2000 // of one rule
	maxDepth  = 32   // brackets, and `if`, `!` and `-` before one value
)

// Error says what is wrong with a file, and where. Its code is bad_document.
type Error struct {
	File         string
	Line, Column int    // from 1, Column in characters; 0 where there is no place
	Rule         string // the @id of the rule, "" where it isn't one's
	Msg          string
}

// Error is FILE:LINE:COLUMN: RULE: what is wrong.
func (e *Error) Error() string {
	out := e.File
	if e.Line > 0 {
		out += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Rule != "" {
		out += ": " + e.Rule
	}
	return out + ": " + e.Msg
}

// Unwrap lets errors.Is and refusal.Of find the code.
func (e *Error) Unwrap() error { return refusal.BadDocument }

// token is one word of a file: an identifier, a number, a string with its quotes,
// or one character of anything else.
type token struct {
	text         string
	offset       int // bytes
	line, column int
}

// number tells whether t begins as numbers do.
func (t token) number() bool { return t.text[0] >= '0' && t.text[0] <= '9' }

// tooLarge tells whether digits are beyond what canonical JSON can hold.
func tooLarge(digits string) bool {
	n, err := strconv.ParseInt(digits, 10, 64)
	return errors.Is(err, strconv.ErrRange) || n > canon.MaxInt
}

// scan cuts a file into tokens, and refuses text that says something else than a
// reviewer reads, or that is nested so deep that reading it would cost too much.
// What it passes is still for the parser to judge.
func scan(file string, data []byte) ([]token, error) {
	if len(data) > MaxFile {
		return nil, &Error{File: file, Msg: fmt.Sprintf("over %d bytes", MaxFile)}
	}
	c := cursor{file: file, text: string(data), line: 1, column: 1}
	var all []token
	for {
		t, err := c.next()
		if err != nil || t.text == "" {
			return all, err
		}
		all = append(all, t)
		if err := c.weigh(t); err != nil {
			return nil, err
		}
	}
}

// cursor goes through a file.
type cursor struct {
	file, text   string
	at           int
	line, column int
	tokens       int // of this rule
	depth        int // of brackets
	run          int // of prefixes before a value
}

func (c *cursor) fault(msg string) error {
	return &Error{File: c.file, Line: c.line, Column: c.column, Msg: msg}
}

// step takes the next character. 0 is the end.
func (c *cursor) step() (rune, error) {
	if c.at >= len(c.text) {
		return 0, nil
	}
	r, size := utf8.DecodeRuneInString(c.text[c.at:])
	switch {
	case r == utf8.RuneError && size == 1:
		return 0, c.fault("not UTF-8")
	case r != '\n' && r != '\t' && r != '\r' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)):
		return 0, c.fault(fmt.Sprintf("the invisible character U+%04X; in a string write \\u{%x}", r, r))
	}
	c.at += size
	c.column++
	if r == '\n' {
		c.line, c.column = c.line+1, 1
	}
	return r, nil
}

// next answers the next token, "" at the end. Comments and space are passed over.
func (c *cursor) next() (token, error) {
	if err := c.space(); err != nil {
		return token{}, err
	}
	t := token{offset: c.at, line: c.line, column: c.column}
	first, err := c.step()
	switch {
	case err != nil || first == 0:
		return token{}, err
	case first == '"':
		err = c.quoted()
	case isWordRune(first):
		for err == nil && c.at < len(c.text) && isWordRune(rune(c.text[c.at])) {
			_, err = c.step()
		}
	}
	t.text = c.text[t.offset:c.at]
	return t, err
}

func isWordRune(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// quoted takes the rest of a string. A line break or the end in it is the parser's
// to refuse.
func (c *cursor) quoted() error {
	for {
		r, err := c.step()
		if err != nil || r == '"' || r == 0 || r == '\n' {
			return err
		}
		if r == '\\' {
			if _, err := c.step(); err != nil {
				return err
			}
		}
	}
}

// space passes over white space and line comments.
func (c *cursor) space() error {
	for c.at < len(c.text) {
		comment := strings.HasPrefix(c.text[c.at:], "//")
		if strings.HasPrefix(c.text[c.at:], "/*") {
			return c.fault("comments begin with // and end with their line")
		}
		if !comment && !strings.ContainsRune(" \t\r\n", rune(c.text[c.at])) {
			return nil
		}
		for {
			r, err := c.step()
			if err != nil {
				return err
			}
			if !comment || r == '\n' || r == 0 {
				break
			}
		}
	}
	return nil
}

// weigh counts what t adds to its rule's size and depth.
func (c *cursor) weigh(t token) error {
	at := &Error{File: c.file, Line: t.line, Column: t.column}
	c.tokens++
	switch t.text {
	case ";":
		c.tokens, c.depth, c.run = 0, 0, 0
	case "(", "[", "{":
		c.depth++
	case ")", "]", "}":
		c.depth = max(0, c.depth-1)
	}
	switch t.text {
	case "!", "-", "if", "then", "else":
		c.run++
	case ";", "when", "unless":
		c.run = 0
	}
	switch {
	case t.number() && tooLarge(t.text):
		at.Msg = "a number beyond 2^53-1"
	case c.tokens > maxTokens:
		at.Msg = fmt.Sprintf("a rule of over %d words and signs; make several of it", maxTokens)
	case c.depth > maxDepth || c.run > 4*maxDepth:
		at.Msg = "nested too deep"
	default:
		return nil
	}
	return at
}
