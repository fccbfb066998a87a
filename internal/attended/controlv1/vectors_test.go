package controlv1_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/leaktest"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/spec"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

// frameVector is one text and what becomes of it.
type frameVector struct {
	Way    string          `json:"way"` // page, authority, action or receipt
	Name   string          `json:"name"`
	Text   string          `json:"text"`
	Code   refusal.Code    `json:"code"`             // "" where it decodes
	Field  string          `json:"field,omitempty"`  // at fault
	Call   string          `json:"call,omitempty"`   // the call that alone is at fault
	Close  int             `json:"close,omitempty"`  // the code that closes the channel
	Encode json.RawMessage `json:"encode,omitempty"` // how it is encoded again, where that differs
}

func vectors[V any](t testing.TB, file string) (all []V) {
	t.Helper()
	data, err := spec.Files.ReadFile("vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Vectors []V `json:"vectors"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Vectors) == 0 {
		t.Fatal(file + " holds no vectors")
	}
	return doc.Vectors
}

// decode reads a text one way, and answers its encoding.
func decode(way string, text []byte) ([]byte, error) {
	switch way {
	case "page":
		f, err := controlv1.DecodePage(text)
		if err != nil {
			return nil, err
		}
		return controlv1.EncodePage(f)
	case "authority":
		f, err := controlv1.DecodeAuthority(text)
		if err != nil {
			return nil, err
		}
		return controlv1.EncodeAuthority(f)
	case "action":
		a, err := controlv1.DecodeAction(text)
		if err != nil {
			return nil, err
		}
		return controlv1.EncodeAction(a)
	case "receipt":
		r, err := controlv1.DecodeReceipt(text)
		if err != nil {
			return nil, err
		}
		return r.Encode()
	case "lease":
		r, err := controlv1.DecodeLeaseReceipt(text)
		if err != nil {
			return nil, err
		}
		return r.Encode()
	case "tool":
		t, err := controlv1.DecodeTool(text)
		if err != nil {
			return nil, err
		}
		return t.Encode()
	}
	panic(way)
}

func TestFrameVectors(t *testing.T) {
	for _, v := range vectors[frameVector](t, "attended-frames.json") {
		text, err := spec.Names{}.Expand([]byte(v.Text), time.UnixMilli(0))
		if err != nil {
			t.Fatal(err)
		}
		out, err := decode(v.Way, text)
		got := frameVector{Way: v.Way, Name: v.Name, Text: v.Text, Encode: v.Encode}
		var bad *controlv1.Bad
		if b, ok := err.(*controlv1.Bad); ok {
			bad = b
			got.Code, got.Field, got.Call, got.Close = bad.Code, bad.Field, bad.Call.String(), int(bad.Close)
		} else if err != nil {
			t.Errorf("%s, %s: %v is no *Bad", v.Way, v.Name, err)
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", v.Way, v.Name, diff)
			continue
		}
		if err == nil {
			want := string(text)
			if v.Encode != nil {
				want = string(v.Encode)
			}
			var a, b any
			if json.Unmarshal([]byte(want), &a) != nil || json.Unmarshal(out, &b) != nil || !cmp.Equal(a, b) {
				t.Errorf("%s, %s: encoded again it is\n%s\nwant\n%s", v.Way, v.Name, out, want)
			}
		}
	}
}

// digestVector is one digest over its parts.
type digestVector struct {
	Name   string            `json:"name"`
	Over   map[string]any    `json:"over"`
	Tools  []json.RawMessage `json:"tools,omitempty"`
	Digest string            `json:"digest"`
}

func TestDigestVectors(t *testing.T) {
	seen := map[string]string{}
	for _, v := range vectors[digestVector](t, "attended-digests.json") {
		got, err := compute(t, v)
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		if got != v.Digest {
			t.Errorf("%s: %s, want %s", v.Name, got, v.Digest)
		}
		if other, ok := seen[v.Digest]; ok {
			t.Errorf("%s and %s have one digest", v.Name, other)
		}
		seen[v.Digest] = v.Name
	}
}

func compute(t *testing.T, v digestVector) (string, error) {
	text := func(name string) string { s, _ := v.Over[name].(string); return s }
	raw := func(name string) []byte { b, _ := json.Marshal(v.Over[name]); return b }
	dig := func(name string) controlv1.Digest { d, _ := controlv1.ParseDigest(text(name)); return d }
	id := func(name string) controlv1.ID { i, _ := controlv1.ParseID(text(name)); return i }
	switch kind := text("kind"); kind {
	case "schema":
		in, _ := controlv1.ParseValue(raw("input_schema"), 1<<16)
		out, _ := controlv1.ParseValue(raw("output_schema"), 1<<16)
		d, err := controlv1.SchemaDigest(in, out)
		return d.String(), err
	case "catalog", "scope":
		c, err := catalogOf(v.Tools)
		if kind == "scope" {
			return c.Scope().String(), err
		}
		return c.Digest().String(), err
	case "request":
		arguments, _ := controlv1.ParseValue(raw("arguments"), controlv1.MaxArguments)
		d, err := controlv1.Request{Binding: dig("binding_digest"), Lease: id("lease_id"), ID: id("request_id"), Tool: id("tool_id"), Schemas: dig("schema_digest"), Arguments: arguments}.Digest()
		return d.String(), err
	case "confirmation":
		d, err := controlv1.ConfirmationDigest(id("policy_reference"), dig("request_digest"))
		return d.String(), err
	case "result":
		value, err := controlv1.ParseValue(raw("result"), controlv1.MaxResult)
		return controlv1.ResultDigest(value).String(), err
	case "call":
		i, err := controlv1.CallID(dig("request_digest"), text("agent"))
		return i.String(), err
	case "fence":
		return controlv1.FenceID(id("call_id")).String(), nil
	case "binding":
		return bindingOf(v.Over)
	}
	t.Fatalf("no such kind as that of %s", v.Name)
	return "", nil
}

func catalogOf(tools []json.RawMessage) (controlv1.Catalog, error) {
	var all []controlv1.Tool
	for _, raw := range tools {
		tool, err := controlv1.DecodeTool(raw)
		if err != nil {
			return controlv1.Catalog{}, err
		}
		all = append(all, tool)
	}
	return controlv1.NewCatalog(all)
}

func bindingOf(over map[string]any) (string, error) {
	text := func(name string) string { s, _ := over[name].(string); return s }
	number := func(name string) int64 { n, _ := over[name].(float64); return int64(n) }
	key, _ := ref.NewKey(make([]byte, 32))
	login, _ := ref.Parse[ref.LoginKind](text("login_ref"))
	browser, _ := ref.Parse[ref.BrowserKind](text("browser_session_ref"))
	document, _ := ref.Parse[ref.DocumentKind](text("document_ref"))
	arm, _ := ref.Parse[ref.AttendedKind](text("arm_ref"))
	version, _ := controlv1.ParseID(text("policy_version"))
	e, err := controlv1.Person{Tenant: text("tenant"), Actor: text("actor"), Login: login, Browser: browser, Issuer: text("issuer"), ACR: text("acr"),
		AuthMS: number("auth_time_ms"), CredentialUntilMS: number("access_token_expires_at_ms"), PolicyVersion: version}.Private(key)
	if err != nil {
		return "", err
	}
	origin, err := controlv1.ParseOrigin(text("origin"))
	if err != nil {
		return "", err
	}
	route, _ := controlv1.ParseID(text("route"))
	generation, _ := controlv1.NewGeneration(number("registration_generation"))
	catalog, _ := controlv1.ParseDigest(text("catalog_digest"))
	scope, _ := controlv1.ParseDigest(text("tool_scope_digest"))
	p, err := controlv1.Place{Origin: origin, Document: document, Route: route, Generation: generation, Catalog: catalog, Scope: scope}.Private(key)
	if err != nil {
		return "", err
	}
	d, err := controlv1.Binding{Evidence: e, Page: p, Arm: arm, IssuedMS: number("arm_issued_at_ms"), ExpiresMS: number("arm_expires_at_ms")}.Digest()
	return d.String(), err
}
