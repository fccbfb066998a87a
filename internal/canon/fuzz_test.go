package canon_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"chaperone/internal/canon"
)

// FuzzCanonicalize: what is accepted is JSON to the standard library too, means
// the same, and is its own canonical form.
func FuzzCanonicalize(f *testing.F) {
	v := loadVectors(f)
	for _, x := range append(v.accepted(), v.refused(f)...) {
		f.Add([]byte(x.Text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := canon.Canonicalize(text)
		if err != nil {
			return
		}
		again, err := canon.Canonicalize(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%q isn't its own canonical form: %q, %v", got, again, err)
		}
		before, after := parse(t, text), parse(t, got)
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q and %q don't mean the same", text, got)
		}
		built, err := canon.Marshal(plainInts(t, after))
		if err != nil || !bytes.Equal(built, got) {
			t.Fatalf("Marshal makes %q of %q: %v", built, got, err)
		}
	})
}

func parse(t *testing.T, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", text, err)
	}
	return v
}

// plainInts replaces json.Number by int64, which every accepted number is.
func plainInts(t *testing.T, v any) any {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	case []any:
		for i := range v {
			v[i] = plainInts(t, v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainInts(t, v[k])
		}
	}
	return v
}
