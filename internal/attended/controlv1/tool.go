package controlv1

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/canon"
	"chaperone/internal/schema"
)

// Class is what a tool can change.
type Class string

// Classes of tools. A read needs no confirmation; both others need one of the
// exact request.
const (
	Read            Class = "read"
	LocalUIMutation Class = "local-ui-mutation"
	AccountMutation Class = "account-mutation"
)

// Confirmation is whether a call of a tool is shown to the person first.
type Confirmation string

// Confirmation policies.
const (
	NoConfirmation Confirmation = "none"
	ExactRequest   Confirmation = "exact-request"
)

// Confirmation answers the one policy that goes with the class.
func (c Class) Confirmation() Confirmation {
	if c == Read {
		return NoConfirmation
	}
	return ExactRequest
}

// Mutates tells whether a call of it needs a confirmation.
func (c Class) Mutates() bool { return c != Read }

// Facts is what a tool says of itself; NewTool checks them.
type Facts struct {
	ID, Version    string
	Input, Output  []byte // JSON Schema 2020-12
	Class          Class
	Confirmation   Confirmation
	Roles          []string
	SourceRef      string
	ClaimedSchemas string // the schema digest that its sender claims; "" claims none
}

// Tool is one tool's descriptor (section 2). The zero Tool is none.
type Tool struct {
	id, version   string
	input, output Value
	in, out       *schema.Schema
	digest        Digest
	class         Class
	roles         []string
	source        string
}

// NewTool makes a descriptor. Its error is a *Bad that names the field.
func NewTool(f Facts) (Tool, error) {
	t := Tool{id: f.ID, version: f.Version, class: f.Class, roles: slices.Clone(f.Roles), source: f.SourceRef}
	switch {
	case !isID(f.ID, 128):
		return Tool{}, invalid("tool_id", "isn't an id of this protocol")
	case !isID(f.Version, MaxVersion):
		return Tool{}, invalid("version", "isn't an id of at most 64 bytes")
	case f.Class != Read && f.Class != LocalUIMutation && f.Class != AccountMutation:
		return Tool{}, invalid("mutation_class", "isn't a class")
	case f.Confirmation != f.Class.Confirmation():
		return Tool{}, invalid("confirmation_policy", "isn't the one that goes with the class")
	case !plain(f.SourceRef, MaxSource):
		return Tool{}, invalid("source_ref", "isn't 1 to 256 bytes of plain text")
	}
	if len(f.Roles) > MaxRoles {
		return Tool{}, invalid("required_roles", "has too many items")
	}
	for i, r := range f.Roles {
		if !plain(r, MaxRole) || slices.Contains(f.Roles[:i], r) {
			return Tool{}, invalid("required_roles", "has an invalid role or one twice")
		}
	}
	var err error
	if t.input, t.in, err = compile(f.Input); err != nil {
		return Tool{}, under("input_schema", err)
	}
	if t.output, t.out, err = compile(f.Output); err != nil {
		return Tool{}, under("output_schema", err)
	}
	if t.digest, err = SchemaDigest(t.input, t.output); err != nil {
		return Tool{}, under("schema_digest", err)
	}
	if f.ClaimedSchemas != "" && f.ClaimedSchemas != t.digest.text {
		return Tool{}, invalid("schema_digest", "isn't the digest of the two schemas")
	}
	return t, nil
}

// compile reads a schema under its budgets.
func compile(text []byte) (Value, *schema.Schema, error) {
	v, err := ParseValue(text, schema.MaxBytes)
	if err != nil {
		return Value{}, nil, err
	}
	if !v.IsObject() {
		return Value{}, nil, invalid("", "isn't an object")
	}
	if deceives(v) {
		return Value{}, nil, invalid("", "holds a hidden character in a name, a title or a choice")
	}
	s, err := schema.Compile(v.Bytes())
	return v, s, err
}

// deceives tells whether a schema hides something from whoever reads it: a hidden
// character in a member's name, a title or a choice, which are shown as names are, and
// the TAG block, which only a machine reads, anywhere at all.
func deceives(schema Value) bool {
	d := jsontext.NewDecoder(strings.NewReader(schema.canonical))
	var at []string // the names on the way here, "" within an array
	for {
		t, err := d.ReadToken()
		if err != nil {
			return false // its end: the text is canonical
		}
		depth := d.StackDepth()
		at = append(at, make([]string, max(0, depth+1-len(at)))...)[:depth+1]
		if t.Kind() != '"' {
			continue
		}
		kind, n := d.StackIndex(depth)
		s := t.String()
		named := kind == '{' && n%2 == 1
		if named {
			at[depth] = s
		}
		shown := named || at[depth] == "title" || slices.Contains(at, "enum") || slices.Contains(at, "const")
		if strings.ContainsFunc(s, tag) || shown && strings.ContainsFunc(s, Hidden) {
			return true
		}
	}
}

// plain tells 1 to most bytes of text that shows as what it is.
func plain(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || Hidden(r) })
}

// Fold answers the form in which two ids of one catalog may not be alike: without
// case, and with - for _.
func Fold(id string) string { return strings.ReplaceAll(strings.ToLower(id), "_", "-") }

// ID answers the tool's id.
func (t Tool) ID() ID { return ID{t.id} }

// Version answers the tool's version.
func (t Tool) Version() string { return t.version }

// Class answers what it can change.
func (t Tool) Class() Class { return t.class }

// Roles answers the roles that a caller must have, in the page's order.
func (t Tool) Roles() []string { return slices.Clone(t.roles) }

// SourceRef answers where the page says that the tool comes from.
func (t Tool) SourceRef() string { return t.source }

// Schemas answers the digest of its two schemas.
func (t Tool) Schemas() Digest { return t.digest }

// Input and Output answer its schemas.
func (t Tool) Input() Value { return t.input }

// Output answers the schema of its result.
func (t Tool) Output() Value { return t.output }

// IsZero tells whether t is no tool.
func (t Tool) IsZero() bool { return t.id == "" }

// ValidInput judges a call's arguments. Its error is a *Bad with the code
// arguments_invalid or too_large.
func (t Tool) ValidInput(v Value) error { return judge(t.in, v, argumentsInvalid) }

// ValidOutput judges a result. Its error is a *Bad with the code result_invalid.
func (t Tool) ValidOutput(v Value) error { return judge(t.out, v, resultInvalid) }

// bare answers the descriptor without its schemas, as the catalog's digest has it.
func (t Tool) bare() map[string]any {
	roles := t.roles
	if roles == nil {
		roles = []string{}
	}
	return map[string]any{
		"tool_id": t.id, "version": t.version, "schema_digest": t.digest.text, "mutation_class": string(t.class),
		"confirmation_policy": string(t.class.Confirmation()), "required_roles": roles, "source_ref": t.source,
	}
}

// full answers it with them, as it travels.
func (t Tool) full() map[string]any {
	m := t.bare()
	m["input_schema"], m["output_schema"] = canon.Text(t.input.canonical), canon.Text(t.output.canonical)
	return m
}

// Encode answers the descriptor's canonical bytes.
func (t Tool) Encode() ([]byte, error) {
	if t.IsZero() {
		return nil, invalid("tool_id", "is missing")
	}
	return canon.Marshal(t.full())
}

// DecodeTool reads a descriptor, with every rule of section 2.
func DecodeTool(data []byte) (Tool, error) {
	var f Facts
	free := func(string) bool { return true } // judged by NewTool
	class, policy := "", ""
	raw := func(name string, into *[]byte) member {
		return member{name: name, read: func(v jsontext.Value) error { *into = v.Clone(); return nil }}
	}
	err := decode(data, MaxFrame,
		str("tool_id", &f.ID, free), str("version", &f.Version, free), raw("input_schema", &f.Input), raw("output_schema", &f.Output),
		of("schema_digest", &f.ClaimedSchemas, func(s string) (string, error) { d, err := ParseDigest(s); return d.text, err }),
		str("mutation_class", &class, free), str("confirmation_policy", &policy, free),
		list("required_roles", 0, MaxRoles, func(v jsontext.Value) error {
			s, err := text(v)
			f.Roles = append(f.Roles, s)
			return err
		}),
		str("source_ref", &f.SourceRef, free))
	if err != nil {
		return Tool{}, err
	}
	f.Class, f.Confirmation = Class(class), Confirmation(policy)
	return NewTool(f)
}
