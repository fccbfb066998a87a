package main

import (
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"chaperone/internal/owned/ownedv1"
)

// composeSchema is the schema by which Compose itself judges its files.
func composeSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile("testdata/compose-spec/compose-spec.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("compose_spec.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("compose_spec.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// valid judges a Compose file's text as Compose does.
func valid(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(doc)
}

// Both forms of an override are what the Compose specification's schema takes, for
// odd names too.
func TestLaunchComposeSchema(t *testing.T) {
	t.Parallel()
	schema := composeSchema(t)
	g := newGround(t, os.Geteuid())
	odd := g.dir + "/a $HOME: \"b\"\n- c \u00e9"
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	out := g.dir + "/override.yaml"
	for _, from := range [][]string{
		{"--browser-registrations", g.regs},
		{"--browser-registrations", odd},
		{"--browser-descriptor", published(t, g, func(*ownedv1.Descriptor) {})},
	} {
		if code, _, errs := g.compose(t, append(from, "--compose-out", out)...); code != 0 {
			t.Fatalf("%q: exit %d: %s", from, code, errs)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(t, schema, string(data)); err != nil {
			t.Errorf("%q: %v\n%s", from, err, data)
		}
		// The schema is one that tells: a key misspelt isn't taken.
		if err := valid(t, schema, strings.Replace(string(data), "read_only", "readonly", 1)); err == nil {
			t.Errorf("%q: the schema takes anything", from)
		}
	}
}
