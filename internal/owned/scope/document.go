package scope

import (
	"bytes"
	"fmt"
	"strings"
)

// maxFile bounds a scope file. A person writes and reviews it; one that is
// larger isn't one.
const maxFile = 1 << 20

// maxDepth bounds nesting: a scope needs three levels, a roe.json a few more.
const maxDepth = 16

// maxRules bounds allow and deny each. That none stands over another is compared
// pair by pair.
const maxRules = 5000

// kind is what a node of a document is.
type kind string

const (
	aMap    kind = "a mapping"
	aList   kind = "a list"
	aString kind = "a string"
	aNumber kind = "a number"
	aBool   kind = "true or false"
	aNull   kind = "nothing"
)

// node is one value of a YAML or JSON document, with its place. It holds text
// and no decoded values: what a word means is the reader's to say.
type node struct {
	kind         kind
	line, column int
	text         string // of a scalar
	items        []*node
	fields       []field
}

// field is one entry of a mapping.
type field struct {
	key          string
	line, column int
	value        *node
}

// document reads data as JSON where it is JSON, else as YAML. JSON goes its own
// way because YAML readers take neither tabs nor every escape of it.
func document(name string, data []byte) (*node, error) {
	whole := func(msg string) error { return &Error{File: name, Msg: msg} }
	if len(data) > maxFile {
		return nil, whole(fmt.Sprintf("larger than %d bytes", maxFile))
	}
	if rest, marked := bytes.CutPrefix(data, []byte("\xef\xbb\xbf")); marked {
		data = rest // some editors begin every file with a byte order mark
	}
	if strings.HasSuffix(name, ".json") || jsonish(data) {
		return readJSON(name, data)
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, whole("holds a NUL byte; it must be UTF-8 text")
	}
	return readYAML(name, data)
}

// field answers the value under key, nil where there is none.
func (n *node) field(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}
