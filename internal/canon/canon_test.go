package canon_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
	"chaperone/spec"
)

// vectors is spec/vectors/canonical.json.
type vectors struct {
	Accept          []vector `json:"accept"`
	SchemaDigest    []vector `json:"schema_digest"`
	CatalogDigest   []vector `json:"catalog_digest"`
	ToolScopeDigest []vector `json:"tool_scope_digest"`
	AcceptText      []vector `json:"accept_text"`
	Reject          []vector `json:"reject"`
	RejectHex       []vector `json:"reject_hex"`
}

type vector struct {
	Name      string          `json:"name"`
	Why       string          `json:"why"`
	Input     json.RawMessage `json:"input"`
	Text      string          `json:"json_text"`
	UTF8Hex   string          `json:"utf8_hex"`
	Canonical string          `json:"canonical"`
	Bytes     int             `json:"canonical_bytes"`
	SHA256    string          `json:"sha256"`
}

func loadVectors(t testing.TB) vectors {
	t.Helper()
	data, err := spec.Files.ReadFile("vectors/canonical.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// accepted lists the texts of every vector that has a canonical form.
func (v vectors) accepted() (out []vector) {
	for _, list := range [][]vector{v.Accept, v.SchemaDigest, v.CatalogDigest, v.ToolScopeDigest} {
		for _, x := range list {
			x.Text = string(x.Input)
			if x.Input == nil {
				x.Text = "null"
			}
			out = append(out, x)
		}
	}
	return append(out, v.AcceptText...)
}

// refused lists the texts of every vector that is outside the subset.
func (v vectors) refused(t testing.TB) (out []vector) {
	for _, x := range append(v.Reject, v.RejectHex...) {
		if x.UTF8Hex != "" {
			raw, err := hex.DecodeString(x.UTF8Hex)
			if err != nil {
				t.Fatal(err)
			}
			x.Text = string(raw)
		}
		out = append(out, x)
	}
	return out
}

func TestVectors(t *testing.T) {
	v := loadVectors(t)
	for _, x := range v.accepted() {
		got, err := canon.Canonicalize([]byte(x.Text))
		if err != nil {
			t.Errorf("%s %s: %v", x.Name, x.Why, err)
			continue
		}
		if diff := cmp.Diff(x.Canonical, string(got)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", x.Name, x.Why, diff)
		}
		if digest := canon.Digest(got); digest != x.SHA256 {
			t.Errorf("%s %s: digest %s, want %s", x.Name, x.Why, digest, x.SHA256)
		}
		if x.Bytes != 0 && x.Bytes != len(got) {
			t.Errorf("%s: %d bytes, want %d", x.Name, len(got), x.Bytes)
		}
	}
	for _, x := range v.refused(t) {
		_, err := canon.Canonicalize([]byte(x.Text))
		want := refusal.BadDocument
		if strings.HasPrefix(x.Why, "depth 65") {
			want = refusal.TooDeep
		}
		if refusal.Of(err) != want {
			t.Errorf("%.60q (%s): got %v, want %s", x.Text, x.Why, err, want)
		}
	}
}

// The text is the caller's: it isn't changed, and the answer doesn't share it.
func TestCanonicalizeLeavesTheTextAlone(t *testing.T) {
	text := []byte(`{"b":[2,{"d":1,"c":"x\n"}],"a":1}`)
	before := bytes.Clone(text)
	got, err := canon.Canonicalize(text)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, before) {
		t.Errorf("the text became %s", text)
	}
	clear(text)
	if want := `{"a":1,"b":[2,{"c":"x\n","d":1}]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Errors name the place and never what stands there.
func TestErrorsKeepTheTextToThemselves(t *testing.T) {
	for text, want := range map[string]canon.Error{
		`{"token":"s3cret","token":1}`: {Code: refusal.BadDocument, Offset: 27},
		`["s3cret",1.5]`:               {Code: refusal.BadDocument, Offset: 10},
		`"s3cret`:                      {Code: refusal.BadDocument, Offset: 7},
		`"s3cret" s3cret`:              {Code: refusal.BadDocument, Offset: 9},
	} {
		_, err := canon.Canonicalize([]byte(text))
		var e *canon.Error
		if !errors.As(err, &e) || e.Code != want.Code || e.Offset != want.Offset {
			t.Errorf("%s: got %v, want %s at %d", text, err, want.Code, want.Offset)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error repeats it: %v", text, err)
		}
	}
}

func TestWithin(t *testing.T) {
	if _, err := canon.Within([]byte(` [ 1 ] `), 3); err != nil {
		t.Errorf("3 canonical bytes of 3: %v", err)
	}
	if _, err := canon.Within([]byte(`[1]`), 2); refusal.Of(err) != refusal.TooLarge {
		t.Errorf("3 canonical bytes of 2: %v", err)
	}
	if _, err := canon.Within([]byte(`[`), 2); refusal.Of(err) != refusal.BadDocument {
		t.Errorf("no JSON: %v", err)
	}
}

type word string

func TestMarshal(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string // "" is an error
	}{
		{nil, `null`},
		{true, `true`},
		{"a\"\\\x00\x1f</\u2028é", `"a\"\\\u0000\u001f</` + "\u2028é\""},
		{word("w"), `"w"`},
		{int32(-7), `-7`},
		{uint8(7), `7`},
		{int64(1<<53 - 1), `9007199254740991`},
		{int64(1 << 53), ``},
		{-int64(1 << 53), ``},
		{^uint64(0), ``},
		{1.0, ``},
		{"\xff", ``},
		{[]byte("x"), ``},
		{struct{ A int }{1}, ``},
		{map[int]string{1: "a"}, ``},
		{json.Number("1"), `"1"`}, // a named string: nobody decodes into one here
		{[]any{}, `[]`},
		{[]string(nil), `[]`},
		{map[string]any{}, `{}`},
		{map[string]any{"10": 1, "9": []string{"x", "y"}, "": map[string]string{"b": "1", "a": "2"}}, `{"":{"a":"2","b":"1"},"10":1,"9":["x","y"]}`},
		{map[string]any{"\uffff": 1, "😀": 2}, `{"😀":2,"` + "\uffff" + `":1}`},
		{map[string]any{"a": map[string]any{"\xff": 1}}, ``},
		{map[string]any{"arguments": canon.Text(` {"b":1, "a":2} `)}, `{"arguments":{"a":2,"b":1}}`},
		{[]any{canon.Text(`1 2`)}, ``},
		{[]any{canon.Text(``)}, ``},
	} {
		got, err := canon.Marshal(c.value)
		if (err == nil) != (c.want != "") || string(got) != c.want {
			t.Errorf("%#v: got %s, %v; want %s", c.value, got, err, c.want)
		}
	}
}

// Depth counts across a Text that stands inside a value.
func TestMarshalDepth(t *testing.T) {
	nest := func(n int, v any) any {
		for range n {
			v = []any{v}
		}
		return v
	}
	text := func(n int) canon.Text {
		return canon.Text(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	for _, c := range []struct {
		value any
		ok    bool
	}{
		{nest(64, 1), true}, {nest(65, 1), false}, {nest(64, map[string]any{}), false},
		{nest(60, text(4)), true}, {nest(60, text(5)), false},
	} {
		if _, err := canon.Marshal(c.value); (err == nil) != c.ok || err != nil && refusal.Of(err) != refusal.TooDeep {
			t.Errorf("got %v, want ok=%v", err, c.ok)
		}
	}
}

// document makes a realistic text of about 15 KB whose keys are out of order.
func document() []byte {
	var b bytes.Buffer
	b.WriteString(`{"tools":[`)
	for i := range 40 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"version":"1.0.0","tool_id":"shop.cart-`)
		b.WriteString(strings.Repeat("x", i%7))
		b.WriteString(`","input_schema":{"type":"object","required":["item","count"],"properties":{"item":{"type":"string","maxLength":64,"description":"Der Name, \"wörtlich\" – 雪 😀"},"count":{"type":"integer","minimum":1,"maximum":9007199254740991}},"additionalProperties":false},"mutation_class":"read","confirmation_policy":"none","required_roles":["reader"]}`)
	}
	b.WriteString(`],"authority":"browser-local"}`)
	return b.Bytes()
}

func BenchmarkCanonicalize(b *testing.B) {
	text := document()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canon.Canonicalize(text); err != nil {
			b.Fatal(err)
		}
	}
}
