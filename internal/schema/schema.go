// Package schema is JSON Schema 2020-12 for schemas that nobody here wrote: it
// compiles a page's schema under budgets and validates values against it
// (spec/attended-control.md, section 2).
//
// Contents: [Compile] makes a [Schema], [Schema.Validate] judges a value, and
// [Invalid] names the place and the keyword of the first fault in a fixed order.
//
// A schema is first rewritten into a closed dialect: the keywords that assert
// something are kept, annotations and unknown keywords are dropped, so that the
// validator underneath sees nothing that wasn't counted. Refused are references
// other than to the schema's own #/$defs/NAME, references in a circle, anchors,
// ids, dynamic references and other dialects. The budgets bound the size, the
// nesting, the references, the patterns, and the work that one place of a value
// can cost when every reference is followed, which is what a schema that doubles
// itself at every level runs out of.
//
// The package loads nothing, from anywhere, and its errors never repeat a value.
//
// Floor: wire contract.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
)

// Budgets. A schema over one of them is refused with the code too_large, and
// one nested too deep with too_deep.
const (
	MaxBytes   = 16_384 // of the canonical schema
	MaxDepth   = 32     // subschemas within subschemas
	MaxRefs    = 64     // $ref keywords
	MaxPattern = 256    // bytes of one regular expression
	MaxWork    = 1000   // what one place of a value can cost, see cost
	MaxValue   = 65_536 // canonical bytes of a value to validate
)

// Error says why a schema was refused.
type Error struct {
	Code    refusal.Code // bad_document, too_large or too_deep
	Pointer string       // JSON pointer into the schema
	Why     string
}

func (e *Error) Error() string { return fmt.Sprintf("schema at %q: %s", e.Pointer, e.Why) }

// Unwrap lets errors.Is and refusal.Of find the code.
func (e *Error) Unwrap() error { return e.Code }

// Invalid says where a value doesn't fit its schema. Its code is bad_document.
type Invalid struct {
	Pointer string // JSON pointer into the value
	Keyword string // the schema's keyword that isn't met
}

func (e *Invalid) Error() string {
	return fmt.Sprintf("the value at %q doesn't meet %q of its schema", e.Pointer, e.Keyword)
}

// Unwrap lets errors.Is and refusal.Of find the code.
func (e *Invalid) Unwrap() error { return refusal.BadDocument }

// Schema is a compiled schema. It may be used concurrently.
type Schema struct{ compiled *jsonschema.Schema }

// refuse is a loader that loads nothing.
type refuse struct{}

func (refuse) Load(string) (any, error) { return nil, errors.New("schemas load nothing") }

// Compile compiles a schema, which is a JSON object in the closed subset of
// package canon. Its error is an *Error or a *canon.Error.
func Compile(text []byte) (*Schema, error) {
	canonical, err := canon.Within(text, MaxBytes)
	if err != nil {
		return nil, err
	}
	doc, err := decode(canonical)
	if err != nil {
		return nil, err
	}
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, &Error{refusal.BadDocument, "", "a schema is an object"}
	}
	clean, err := restrict(root)
	if err != nil {
		return nil, err
	}
	const place = "urn:chaperone:schema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refuse{})
	if err := c.AddResource(place, clean); err != nil {
		return nil, &Error{refusal.BadDocument, "", "it isn't a JSON Schema of 2020-12"}
	}
	compiled, err := c.Compile(place)
	if err != nil {
		return nil, &Error{refusal.BadDocument, culprit(err), "it isn't a JSON Schema of 2020-12"}
	}
	return &Schema{compiled}, nil
}

// culprit names the place in the schema that the metaschema didn't accept.
func culprit(err error) string {
	var s *jsonschema.SchemaValidationError
	var v *jsonschema.ValidationError
	if errors.As(err, &s) && errors.As(s.Err, &v) {
		return first(v).Pointer
	}
	return ""
}

// Validate judges a value of the closed subset. Its error is an *Invalid, or a
// *canon.Error for what isn't in the subset or is over MaxValue.
func (s *Schema) Validate(value []byte) error {
	canonical, err := canon.Within(value, MaxValue)
	if err != nil {
		return err
	}
	doc, err := decode(canonical)
	if err != nil {
		return err
	}
	err = s.compiled.Validate(doc)
	var v *jsonschema.ValidationError
	if errors.As(err, &v) {
		return first(v)
	}
	return err
}

func decode(canonical []byte) (any, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(canonical))
	if err != nil {
		return nil, fmt.Errorf("canonical text that doesn't parse: %w", refusal.BadDocument)
	}
	return doc, nil
}

// first picks the fault to tell: of all that caused others, the first by place
// and keyword, since the validator's own order follows a Go map's.
func first(v *jsonschema.ValidationError) *Invalid {
	var all []*Invalid
	var walk func(*jsonschema.ValidationError)
	walk = func(v *jsonschema.ValidationError) {
		if len(v.Causes) == 0 {
			path := v.ErrorKind.KeywordPath()
			keyword := "false" // the schema that nothing meets has no keyword
			if len(path) > 0 {
				keyword = path[0]
			}
			all = append(all, &Invalid{pointer(v.InstanceLocation), keyword})
		}
		for _, c := range v.Causes {
			walk(c)
		}
	}
	walk(v)
	return slices.MinFunc(all, func(a, b *Invalid) int {
		return strings.Compare(a.Pointer+"\x00"+a.Keyword, b.Pointer+"\x00"+b.Keyword)
	})
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + escape(t))
	}
	return b.String()
}

func escape(token string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(token) }
