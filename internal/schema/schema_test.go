package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"chaperone/internal/refusal"
	"chaperone/internal/schema"
)

func compile(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(text))
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return s
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		schema, value    string
		pointer, keyword string // "" is valid
	}{
		{`{}`, `[1,{"a":null}]`, "", ""},
		{`{"type":"object","additionalProperties":false}`, `{}`, "", ""},
		{`{"type":"object","additionalProperties":false}`, `{"a":1}`, "", "additionalProperties"},
		{`{"type":"object","properties":{"a":{"type":"integer","maximum":3}},"required":["a"]}`, `{"a":4}`, "/a", "maximum"},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"b":4}`, "", "required"},
		{`{"properties":{"a/b~c":{"type":"string"}}}`, `{"a/b~c":1}`, "/a~1b~0c", "type"},
		{`{"items":{"minLength":2}}`, `["ab","c"]`, "/1", "minLength"},
		{`{"prefixItems":[{"const":1},{"const":2}],"items":false}`, `[1,2]`, "", ""},
		{`{"prefixItems":[{"const":1}],"items":false}`, `[1,2]`, "/1", "false"},
		{`{"$defs":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, `{"a":"x"}`, "/a", "type"},
		{`{"allOf":[{"type":"object"},{"minProperties":1}]}`, `{}`, "", "minProperties"},
		{`{"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]}}`, `{"a":1}`, "", "required"},
		{`{"unevaluatedProperties":false,"properties":{"a":true}}`, `{"a":1,"b":2}`, "/b", "false"},
		{`{"pattern":"^[a-z]+$"}`, `"A"`, "", "pattern"},
		{`{"patternProperties":{"^x":{"type":"null"}}}`, `{"xa":1}`, "/xa", "type"},
		{`{"enum":["a",1,null]}`, `"b"`, "", "enum"},
		{`{"uniqueItems":true}`, `[{"a":1,"b":2},{"b":2,"a":1}]`, "", "uniqueItems"},
		{`{"title":"T","format":"email","x-own":{"$ref":"http://a/"},"default":{"$id":"x"}}`, `"no mail"`, "", ""},
		{`{"enum":[{"$ref":"http://a/"}]}`, `{"$ref":"http://a/"}`, "", ""},
		{`{"properties":{"$ref":{"type":"string"}}}`, `{"$ref":1}`, "/$ref", "type"},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"null"}`, `null`, "", ""},
	} {
		err := compile(t, c.schema).Validate([]byte(c.value))
		if c.pointer == "" && c.keyword == "" {
			if err != nil {
				t.Errorf("%s: %s: %v", c.schema, c.value, err)
			}
			continue
		}
		var bad *schema.Invalid
		if !errors.As(err, &bad) || bad.Pointer != c.pointer || c.keyword != "" && bad.Keyword != c.keyword || refusal.Of(err) != refusal.BadDocument {
			t.Errorf("%s: %s: got %v, want %s at %q", c.schema, c.value, err, c.keyword, c.pointer)
		}
	}
}

// The fault that is told doesn't depend on the order of a map.
func TestFirstFaultIsFixed(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["z"]}`)
	for range 50 {
		var bad *schema.Invalid
		if err := s.Validate([]byte(`{"c":1,"b":1,"a":1}`)); !errors.As(err, &bad) || bad.Pointer != "" || bad.Keyword != "required" {
			t.Fatal(err)
		}
	}
}

func TestErrorsKeepTheValue(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"enum":["x"],"pattern":"^y","type":"integer","const":1}}}`)
	if err := s.Validate([]byte(`{"a":"s3cret"}`)); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
	_, err := schema.Compile([]byte(`{"type":"s3cret"}`))
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

func TestValidateRefusesOtherValues(t *testing.T) {
	s := compile(t, `{}`)
	for text, want := range map[string]refusal.Code{
		`1.0`: refusal.BadDocument, `{"a":1,"a":2}`: refusal.BadDocument, ``: refusal.BadDocument, "\"\xff\"": refusal.BadDocument,
		`"` + strings.Repeat("x", schema.MaxValue) + `"`:        refusal.TooLarge,
		strings.Repeat("[", 65) + "1" + strings.Repeat("]", 65): refusal.TooDeep,
	} {
		if err := s.Validate([]byte(text)); refusal.Of(err) != want {
			t.Errorf("%.40q: got %v, want %s", text, err, want)
		}
	}
}

func nest(n int, open, inner, end string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

// doubling is a schema whose definitions each refer twice to the next one.
func doubling(levels int) string {
	var defs []string
	for i := range levels {
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	return fmt.Sprintf(`{"$defs":{%s,"d%d":{"type":"integer"}},"$ref":"#/$defs/d0"}`, strings.Join(defs, ","), levels)
}

func TestCompileRefuses(t *testing.T) {
	many := func(n int, f string) string {
		var s []string
		for i := range n {
			s = append(s, fmt.Sprintf(f, i))
		}
		return strings.Join(s, ",")
	}
	for name, c := range map[string]struct {
		schema, pointer string
		code            refusal.Code
	}{
		"no object":                {`true`, "", refusal.BadDocument},
		"a float":                  {`{"maximum":1.5}`, "", refusal.BadDocument},
		"duplicate keys":           {`{"type":"null","type":"null"}`, "", refusal.BadDocument},
		"a remote reference":       {`{"$ref":"http://example.com/s"}`, "/$ref", refusal.BadDocument},
		"a file":                   {`{"items":{"$ref":"file:///etc/passwd"}}`, "/items/$ref", refusal.BadDocument},
		"the metaschema":           {`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, "/$ref", refusal.BadDocument},
		"itself":                   {`{"$ref":"#"}`, "/$ref", refusal.BadDocument},
		"a place that is no def":   {`{"properties":{"a":{}},"$ref":"#/properties/a"}`, "/$ref", refusal.BadDocument},
		"an escaped name":          {`{"$defs":{"a/b":{}},"$ref":"#/$defs/a~1b"}`, "/$ref", refusal.BadDocument},
		"deeper in a def":          {`{"$defs":{"a":{"not":{}}},"$ref":"#/$defs/a/not"}`, "/$ref", refusal.BadDocument},
		"nothing there":            {`{"$ref":"#/$defs/a"}`, "/$ref", refusal.BadDocument},
		"an empty name":            {`{"$defs":{"":{}},"$ref":"#/$defs/"}`, "/$ref", refusal.BadDocument},
		"a number":                 {`{"$ref":1}`, "/$ref", refusal.BadDocument},
		"a circle of one":          {`{"$defs":{"a":{"items":{"$ref":"#/$defs/a"}}}}`, "/$defs/a/items/$ref", refusal.BadDocument},
		"a circle of two":          {`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}`, "", refusal.BadDocument},
		"inner definitions":        {`{"not":{"$defs":{}}}`, "/not/$defs", refusal.BadDocument},
		"an id":                    {`{"$id":"http://a/"}`, "/$id", refusal.BadDocument},
		"an anchor":                {`{"items":{"$anchor":"a"}}`, "/items/$anchor", refusal.BadDocument},
		"a dynamic reference":      {`{"$dynamicRef":"#a"}`, "/$dynamicRef", refusal.BadDocument},
		"a vocabulary":             {`{"$vocabulary":{}}`, "/$vocabulary", refusal.BadDocument},
		"draft 7":                  {`{"$schema":"http://json-schema.org/draft-07/schema#"}`, "/$schema", refusal.BadDocument},
		"a type that isn't one":    {`{"type":"text"}`, "/type", refusal.BadDocument},
		"required that is no list": {`{"required":true}`, "/required", refusal.BadDocument},
		"allOf that is no list":    {`{"allOf":{}}`, "/allOf", refusal.BadDocument},
		"an empty anyOf":           {`{"anyOf":[]}`, "/anyOf", refusal.BadDocument},
		"a schema that is none":    {`{"not":1}`, "/not", refusal.BadDocument},
		"items of draft 7":         {`{"items":[{}]}`, "/items", refusal.BadDocument},
		"lookahead":                {`{"pattern":"(?=a)"}`, "/pattern", refusal.BadDocument},
		"a backreference":          {`{"pattern":"(a)\\1"}`, "/pattern", refusal.BadDocument},
		"a pattern that is none":   {`{"patternProperties":{"(":{}}}`, "/patternProperties/(", refusal.BadDocument},
		"a long pattern":           {`{"pattern":"` + strings.Repeat("a", 257) + `"}`, "/pattern", refusal.TooLarge},
		"heavy patterns":           {`{"allOf":[` + many(4, `{"minimum":%d,"pattern":"(([a-z]{10}){10}[0-9]{9}x?){10}"}`) + `]}`, "", refusal.TooLarge},
		"too many bytes":           {`{"title":"` + strings.Repeat("a", schema.MaxBytes) + `"}`, "", refusal.TooLarge},
		"too deep":                 {nest(33, `{"not":`, `{}`, `}`), "", refusal.TooDeep},
		"too many references":      {`{"$defs":{"a":true},"allOf":[` + many(65, `{"$ref":"#/$defs/a","minimum":%d}`) + `]}`, "", refusal.TooLarge},
		"doubling":                 {doubling(22), "", refusal.TooLarge},
		"doubling, a little":       {doubling(9), "", refusal.TooLarge},
	} {
		begin := time.Now()
		s, err := schema.Compile([]byte(c.schema))
		if s != nil || refusal.Of(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
		var e *schema.Error
		if c.pointer != "" && (!errors.As(err, &e) || e.Pointer != c.pointer) {
			t.Errorf("%s: got %v, want it at %s", name, err, c.pointer)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s: took %s to refuse", name, took)
		}
	}
}

// What is just within the budgets compiles, and costs little even for the value
// that is worst for it.
func TestWithinBudgets(t *testing.T) {
	for name, c := range map[string]struct{ schema, value string }{
		"depth":     {nest(32, `{"not":`, `{}`, `}`), `1`},
		"doubling":  {doubling(6), `1`},
		"pattern":   {`{"pattern":"^((a?){30}){10}$"}`, `"` + strings.Repeat("a", 60_000) + `"`},
		"backtrack": {`{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 60_000) + `!"`},
		"unique":    {`{"items":{"items":{"uniqueItems":true}},"uniqueItems":true}`, `[` + strings.Repeat("[0],", 15_000) + `[1]]`},
		"contains":  {`{"items":{"anyOf":[{"contains":{"const":1}},{"contains":{"const":2}}]}}`, `[` + strings.Repeat("[3],", 15_000) + `[1]]`},
		"many":      {`{"enum":[` + strings.Repeat(`"aaaa",`, 1500) + `"b"]}`, `"c"`},
	} {
		begin := time.Now()
		s, err := schema.Compile([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := s.Validate([]byte(c.value)); err != nil && refusal.Of(err) != refusal.BadDocument {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{`{}`, `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"type":["null","string"]}},"$ref":"#/$defs/a"}`, doubling(5), doubling(22),
		`{"properties":{"a":{"pattern":"^x{1,9}$"}},"required":["a"],"if":true,"then":false}`, `{"minLength":9007199254740991,"maxItems":-1}`, `{"multipleOf":0}`} {
		f.Add([]byte(s), []byte(`{"a":["xxx",1,null,{"b":[]}]}`))
	}
	f.Fuzz(func(t *testing.T, text, value []byte) {
		s, err := schema.Compile(text)
		if err != nil {
			if refusal.Of(err) == "" {
				t.Fatalf("a refusal without a code: %v", err)
			}
			return
		}
		begin := time.Now()
		if err := s.Validate(value); err != nil && refusal.Of(err) == "" {
			t.Fatalf("a refusal without a code: %v", err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Fatalf("%q took %s for %q", text, took, value)
		}
	})
}

func FuzzValidate(f *testing.F) {
	s := compile(f, `{"type":"object","properties":{"item":{"type":"string","minLength":1,"maxLength":8,"pattern":"^[a-zé]*$"},"count":{"type":"integer","minimum":1},"tags":{"type":"array","uniqueItems":true,"items":{"enum":["a","b",null]}}},"required":["item"],"additionalProperties":false}`)
	for _, v := range []string{`{"item":"a"}`, `{"item":"A","count":0}`, `{"item":"é","tags":["a","a"]}`, `{"item":"a","tags":[null,"b"],"count":9007199254740991}`, `[]`, `{"Item":"a"}`} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		first, second := s.Validate(value), s.Validate(value)
		if fmt.Sprint(first) != fmt.Sprint(second) {
			t.Fatalf("%q: %v, then %v", value, first, second)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	s := compile(b, `{"type":"object","properties":{"item":{"type":"string"},"count":{"type":"integer"}},"required":["item"],"additionalProperties":false}`)
	for b.Loop() {
		if err := s.Validate([]byte(`{"item":"a","count":3}`)); err != nil {
			b.Fatal(err)
		}
	}
}
