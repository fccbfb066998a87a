package controlv1_test

import (
	"fmt"
	"strings"
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/ref"
)

// bidi are the twelve controls that reorder what is read.
var bidi = []rune{0x061C, 0x200E, 0x200F, 0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069}

// tags are the whole block that only machines read.
func tags() (all []rune) {
	for r := rune(0xE0000); r <= 0xE007F; r++ {
		all = append(all, r)
	}
	return append(all, 0xE0100, 0xE01EF) // and what spells bytes in the same way
}

func facts() controlv1.Facts {
	return controlv1.Facts{ID: "save", Version: "1", Input: []byte(`{"type":"object"}`), Output: []byte(`{}`), Class: controlv1.AccountMutation,
		Confirmation: controlv1.ExactRequest, Roles: []string{"clerk"}, SourceRef: "webmcp"}
}

// TestHiddenInNames: what a tool is called, and what its schemas name, title and offer
// as a choice, holds no bidi control, no zero-width character and no tag; a tag stands
// nowhere in a schema. Prose may hold the joiners that some scripts are written with.
func TestHiddenInNames(t *testing.T) {
	if _, err := controlv1.NewTool(facts()); err != nil {
		t.Fatal(err)
	}
	schema := func(form string) func(*controlv1.Facts, string) {
		return func(f *controlv1.Facts, s string) { f.Input = fmt.Appendf(nil, form, s) }
	}
	places := map[string]func(*controlv1.Facts, string){
		"tool_id":    func(f *controlv1.Facts, s string) { f.ID = s },
		"version":    func(f *controlv1.Facts, s string) { f.Version = s },
		"role":       func(f *controlv1.Facts, s string) { f.Roles = []string{s} },
		"source_ref": func(f *controlv1.Facts, s string) { f.SourceRef = s },
		"property":   schema(`{"type":"object","properties":{"a":{"type":"object","properties":{%q:{}}}}}`),
		"required":   schema(`{"type":"object","properties":{%q:{}},"required":["a"]}`),
		"title":      schema(`{"type":"object","properties":{"a":{"title":%q}}}`),
		"enum":       schema(`{"type":"object","properties":{"a":{"enum":["b",%q]}}}`),
		"enum, deep": schema(`{"type":"object","properties":{"a":{"enum":[{"b":[%q]}]}}}`),
		"const":      schema(`{"type":"object","properties":{"a":{"const":%q}}}`),
		"output":     func(f *controlv1.Facts, s string) { f.Output = fmt.Appendf(nil, `{"title":%q}`, s) },
		"escaped": func(f *controlv1.Facts, s string) {
			var escaped strings.Builder
			for _, r := range s {
				if r > 0xFFFF {
					fmt.Fprintf(&escaped, `\u%04x\u%04x`, 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF)
				} else {
					fmt.Fprintf(&escaped, `\u%04x`, r)
				}
			}
			f.Input = fmt.Appendf(nil, `{"title":"%s"}`, &escaped)
		},
	}
	for place, put := range places {
		for _, r := range append(append(tags(), bidi...), 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF) {
			f := facts()
			put(&f, "a"+string(r)+"b")
			if _, err := controlv1.NewTool(f); err == nil {
				t.Errorf("%U in %s is taken", r, place)
			}
		}
	}
	for _, r := range tags() {
		f := facts()
		schema(`{"type":"object","properties":{"a":{"description":%q}}}`)(&f, "a"+string(r))
		if _, err := controlv1.NewTool(f); err == nil {
			t.Errorf("%U in a description is taken", r)
		}
	}
	f := facts()
	f.Input = []byte(`{"title":"a","type":"object","properties":{"title":{"description":"می\u200cخواهم"},"b":{"enum":["é","e\u0301"]}}}`)
	if _, err := controlv1.NewTool(f); err != nil {
		t.Errorf("prose with a joiner: %v", err)
	}
}

// TestOneFieldAtATime: whatever alters what a call does, or by whose authority, alters
// the digest that is confirmed.
func TestOneFieldAtATime(t *testing.T) {
	key, _ := ref.NewKey(make([]byte, 32))
	id := func(s string) controlv1.ID { i, err := controlv1.ParseID(s); fatal(t, err); return i }
	text := func(s string) controlv1.Value {
		v, err := controlv1.ParseValue([]byte(s), controlv1.MaxArguments)
		fatal(t, err)
		return v
	}
	tool := func(f controlv1.Facts) controlv1.Tool { x, err := controlv1.NewTool(f); fatal(t, err); return x }
	type all struct {
		who     controlv1.Person
		place   controlv1.Place
		arm     ref.Attended
		issued  int64
		expires int64
		tools   []controlv1.Facts
		request controlv1.Request
		policy  controlv1.ID
	}
	origin, err := controlv1.ParseOrigin("https://app.example")
	fatal(t, err)
	generation := func(n int64) controlv1.Generation { g, err := controlv1.NewGeneration(n); fatal(t, err); return g }
	base := all{
		who: controlv1.Person{Tenant: "local", Actor: "ann", Login: ref.Mint[ref.LoginKind](), Browser: ref.Mint[ref.BrowserKind](), Issuer: "https://idp.example", ACR: "gold",
			AuthMS: 1_000, CredentialUntilMS: 3_600_000, PolicyVersion: id("p1")},
		place:  controlv1.Place{Origin: origin, Document: ref.Mint[ref.DocumentKind](), Route: id("shell"), Generation: generation(1)},
		arm:    ref.Mint[ref.AttendedKind](),
		issued: 2_000, expires: 900_000,
		tools:   []controlv1.Facts{facts()},
		request: controlv1.Request{Lease: id("lease_1"), ID: id("r1"), Tool: id("save"), Arguments: text(`{"n":"caf\u00e9","to":["a","b"]}`)},
		policy:  id("receipt_1"),
	}
	digest := func(a all) string {
		var tools []controlv1.Tool
		for _, f := range a.tools {
			tools = append(tools, tool(f))
		}
		c, err := controlv1.NewCatalog(tools)
		fatal(t, err)
		a.place.Catalog, a.place.Scope = c.Digest(), c.Scope()
		e, err := a.who.Private(key)
		fatal(t, err)
		page, err := a.place.Private(key)
		fatal(t, err)
		a.request.Binding, err = controlv1.Binding{Evidence: e, Page: page, Arm: a.arm, IssuedMS: a.issued, ExpiresMS: a.expires}.Digest()
		fatal(t, err)
		a.request.Schemas = tools[0].Schemas()
		r, err := a.request.Digest()
		fatal(t, err)
		d, err := controlv1.ConfirmationDigest(a.policy, r)
		fatal(t, err)
		return d.String()
	}
	seen := map[string]string{digest(base): "nothing"}
	if seen[digest(base)] == "" {
		t.Fatal("the digest isn't the same twice")
	}
	for name, change := range map[string]func(*all){
		"tenant": func(a *all) { a.who.Tenant = "other" }, "actor": func(a *all) { a.who.Actor = "bob" }, "login": func(a *all) { a.who.Login = ref.Mint[ref.LoginKind]() },
		"browser": func(a *all) { a.who.Browser = ref.Mint[ref.BrowserKind]() }, "issuer": func(a *all) { a.who.Issuer += "/" }, "acr": func(a *all) { a.who.ACR = "silver" },
		"auth time": func(a *all) { a.who.AuthMS++ }, "token": func(a *all) { a.who.CredentialUntilMS++ }, "policy version": func(a *all) { a.who.PolicyVersion = id("p2") },
		"origin":   func(a *all) { a.place.Origin, err = controlv1.ParseOrigin("https://app.example:444"); fatal(t, err) },
		"document": func(a *all) { a.place.Document = ref.Mint[ref.DocumentKind]() }, "route": func(a *all) { a.place.Route = id("other") },
		"generation": func(a *all) { a.place.Generation = generation(2) }, "arm": func(a *all) { a.arm = ref.Mint[ref.AttendedKind]() },
		"arm's beginning": func(a *all) { a.issued++ }, "arm's end": func(a *all) { a.expires++ },
		"tool's version": func(a *all) { a.tools[0].Version = "2" }, "tool's class": func(a *all) { a.tools[0].Class = controlv1.LocalUIMutation },
		"tool's roles": func(a *all) { a.tools[0].Roles = nil }, "tool's source": func(a *all) { a.tools[0].SourceRef = "other" },
		"input schema":    func(a *all) { a.tools[0].Input = []byte(`{"type":"object","title":"x"}`) },
		"output schema":   func(a *all) { a.tools[0].Output = []byte(`{"title":"x"}`) },
		"a tool's rename": func(a *all) { a.tools[0].ID = "Save" },
		"another tool beside it": func(a *all) {
			more := facts()
			more.ID = "more"
			a.tools = append(a.tools, more)
		},
		"lease": func(a *all) { a.request.Lease = id("lease_2") }, "request": func(a *all) { a.request.ID = id("r2") }, "tool": func(a *all) { a.request.Tool = id("pay") },
		"receipt":        func(a *all) { a.policy = id("receipt_2") },
		"composed else":  func(a *all) { a.request.Arguments = text(`{"n":"cafe\u0301","to":["a","b"]}`) },
		"another order":  func(a *all) { a.request.Arguments = text(`{"n":"caf\u00e9","to":["b","a"]}`) },
		"a null more":    func(a *all) { a.request.Arguments = text(`{"n":"caf\u00e9","to":["a","b"],"x":null}`) },
		"text of number": func(a *all) { a.request.Arguments = text(`{"n":"caf\u00e9","to":["a",1]}`) },
		"number of text": func(a *all) { a.request.Arguments = text(`{"n":"caf\u00e9","to":["a","1"]}`) },
		"a proto":        func(a *all) { a.request.Arguments = text(`{"n":"caf\u00e9","to":["a","b"],"__proto__":{"x":1}}`) },
	} {
		changed := base
		changed.tools = append([]controlv1.Facts{}, base.tools...)
		change(&changed)
		d := digest(changed)
		if other, same := seen[d]; same {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d] = name
	}
	// How the text was written isn't the request: its canonical bytes are.
	same := base
	same.request.Arguments = text("{ \"to\":[\"a\", \"b\"], \"n\":\"caf\u00e9\" }")
	if digest(same) != digest(base) {
		t.Error("white space and order alter the digest")
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
