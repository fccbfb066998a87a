package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Limits of one message.
const (
	maxMessage = 8 << 20 // bytes of a line
	maxDepth   = 64      // nested objects and arrays
	maxInteger = 1<<53 - 1
)

// envelope is what the border needs of a message before the SDK decodes it.
type envelope struct {
	id     jsontext.Value // a string or an integer; nil for a notification
	method string         // "" for a response
}

// fault is a line that isn't a message. Its text never holds what was sent.
type fault struct {
	code int64 // of JSON-RPC
	text string
	id   jsontext.Value // of the request that it was to be; nil where that isn't plain
}

func (f *fault) Error() string { return f.text }

func invalid(text string) *fault {
	return &fault{code: jsonrpc.CodeInvalidRequest, text: "invalid request: " + text}
}

// read checks one line. The SDK alone would take the last of two equal keys,
// 1.0 for 1, and 2^53+1 for 2^53, so that what a policy read and what ran could
// differ.
func read(line []byte) (envelope, *fault) {
	var e envelope
	dec := jsontext.NewDecoder(bytes.NewReader(line))
	switch dec.PeekKind() {
	case '{':
	case '[':
		return e, invalid("batches are not supported: one message a line")
	default:
		if _, err := dec.ReadToken(); err != nil {
			return e, parseFault(err)
		}
		return e, invalid("a message is an object")
	}
	var name string // of the member that is read, at the top level
	version := false
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return e, parseFault(err)
		}
		depth := dec.StackDepth()
		if depth > maxDepth {
			return e, invalid(fmt.Sprintf("nested deeper than %d", maxDepth))
		}
		kind := tok.Kind()
		if kind == '0' && !plain(tok.String()) {
			return e, invalid("an integer beyond 2^53-1")
		}
		if depth == 0 {
			break
		}
		if depth != 1 {
			if depth == 2 && (kind == '{' || kind == '[') && (name == "id" || name == "method") {
				return e, invalid(name + " has the wrong type")
			}
			continue
		}
		if _, index := dec.StackIndex(1); kind == '"' && index%2 == 1 {
			name = tok.String()
			continue
		}
		switch name {
		case "jsonrpc":
			version = kind == '"' && tok.String() == "2.0"
		case "method":
			if kind != '"' {
				return e, invalid("method is not a string")
			}
			e.method = tok.String()
		case "id":
			if e.id, err = identifier(tok); err != nil {
				return e, invalid(err.Error())
			}
		}
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return e, invalid("more than one value on a line")
	}
	if !version {
		return e, invalid(`jsonrpc is not "2.0"`)
	}
	if e.method == "" && e.id == nil {
		return e, invalid("no method and no id")
	}
	return e, nil
}

// identifier answers a request's id as it stands: MCP allows strings and
// integers, and the SDK would cut 1.5 to 1, which is another call.
func identifier(tok jsontext.Token) (jsontext.Value, error) {
	switch tok.Kind() {
	case '"':
		if len(tok.String()) > 256 {
			return nil, errors.New("id is longer than 256 bytes")
		}
		return jsontext.AppendQuote(nil, tok.String())
	case '0':
		if n, err := strconv.ParseInt(tok.String(), 10, 64); err == nil {
			return strconv.AppendInt(nil, n, 10), nil
		}
	}
	return nil, errors.New("id is not a string or an integer")
}

// plain reports whether a number survives a double: integers up to 2^53-1, and
// anything with a fraction or an exponent.
func plain(number string) bool {
	n, err := strconv.ParseInt(number, 10, 64)
	if err == nil {
		return n >= -maxInteger && n <= maxInteger
	}
	for _, c := range number {
		if c == '.' || c == 'e' || c == 'E' {
			_, err := strconv.ParseFloat(number, 64)
			return err == nil
		}
	}
	return false
}

// parseFault words a syntax error by its kind and place only: the decoder's own
// text quotes the input.
func parseFault(err error) *fault {
	kind := "not valid JSON (strings are whole Unicode: no half of a surrogate pair)"
	if errors.Is(err, jsontext.ErrDuplicateName) {
		kind = "a key stands twice"
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return &fault{code: jsonrpc.CodeParseError, text: fmt.Sprintf("parse error at byte %d: %s", syntax.ByteOffset, kind)}
	}
	return &fault{code: jsonrpc.CodeParseError, text: "parse error: " + kind}
}
