package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// asker answers the id of a refused line, so that whoever waits for its answer
// learns of the refusal: a line may be no good message and yet tell plainly whose
// it is, such as one with half a surrogate pair in a text. nil where it doesn't: no
// JSON object, no method, no id or several, or one whose call is still under way.
func (q *queue) asker(line []byte) jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil
	}
	var id jsontext.Value
	ids, method := 0, false
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		switch key {
		case "method":
			method = true
		case "id":
			ids++
			id = bytes.Clone(value)
		}
	}
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '}' || ids != 1 || !method {
		return nil
	}
	tok, err := jsontext.NewDecoder(bytes.NewReader(id)).ReadToken()
	if err != nil {
		return nil
	}
	if id, err = identifier(tok); err != nil || q.uses(id) {
		return nil
	}
	return id
}

// uses tells that a call of that id isn't answered yet.
func (q *queue) uses(raw jsontext.Value) bool {
	id, err := readID(raw)
	if err != nil {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.calls[id] != nil
}

func readID(raw []byte) (jsonrpc.ID, error) {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return jsonrpc.ID{}, err
	}
	return jsonrpc.MakeID(value)
}
