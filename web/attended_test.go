package web_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/canon"
	"chaperone/internal/refusal"
	"chaperone/spec"
)

// vectors reads a file of the spec's vectors.
func vectors[V any](t *testing.T, file string) []V {
	t.Helper()
	data, err := spec.Files.ReadFile("vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Vectors []V `json:"vectors"`
	}
	if err := json.Unmarshal(data, &doc); err != nil || len(doc.Vectors) == 0 {
		t.Fatalf("%s: %v", file, err)
	}
	return doc.Vectors
}

func quoted(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// judged is what one of the two decoders says of a text.
type judged struct {
	Code, Field string
	Arguments   string // of a frame that has them, in canonical form
}

// byPage decodes texts by the page's own code.
func byPage(t *testing.T, texts []string) (out []judged) {
	t.Helper()
	node(t, `import { Bad, decode } from "./attended/protocol.js";
		const all: string[] = `+quoted(t, texts)+`;
		console.log(JSON.stringify(all.map((text) => {
			try {
				const f = decode(text);
				return { Code: "", Field: "", Arguments: "arguments" in f ? f.arguments : "" };
			} catch (error) {
				if (!(error instanceof Bad)) throw error;
				return { Code: error.code, Field: error.field, Arguments: "" };
			}
		})));`, &out)
	if len(out) != len(texts) {
		t.Fatalf("%d of %d were judged", len(out), len(texts))
	}
	return out
}

func byServer(text string) judged {
	f, err := controlv1.DecodeAuthority([]byte(text))
	if err != nil {
		bad := err.(*controlv1.Bad)
		return judged{Code: string(bad.Code), Field: bad.Field}
	}
	switch f := f.(type) {
	case controlv1.ConfirmationRequest:
		return judged{Arguments: string(f.Arguments.Bytes())}
	case controlv1.Call:
		return judged{Arguments: string(f.Arguments.Bytes())}
	}
	return judged{}
}

type frameVector struct {
	Way, Name, Text string
	Code            refusal.Code
	Field           string
}

// frames are the texts of one way, with their placeholders filled in.
func frames(t *testing.T, way string) (names, texts []string) {
	t.Helper()
	for _, v := range vectors[frameVector](t, "attended-frames.json") {
		if v.Way != way {
			continue
		}
		text, err := spec.Names{}.Expand([]byte(v.Text), time.UnixMilli(0))
		if err != nil {
			t.Fatal(err)
		}
		names, texts = append(names, v.Name), append(texts, string(text))
	}
	return names, texts
}

// The page reads each frame of the vectors as the server's own codec does.
func TestPageDecodesFrames(t *testing.T) {
	names, texts := frames(t, "authority")
	accepted := 0
	for i, got := range byPage(t, texts) {
		want := byServer(texts[i])
		if want.Code == "" {
			accepted++
		}
		if got.Code != want.Code || got.Arguments != want.Arguments {
			t.Errorf("%s: the page says %+v, the server %+v", names[i], got, want)
		}
	}
	if accepted < 10 || accepted == len(texts) {
		t.Errorf("%d of %d were accepted", accepted, len(texts))
	}
}

// Changed by a few bytes, they are still judged alike.
func TestPageDecodesFramesAlike(t *testing.T) {
	_, all := frames(t, "authority")
	var base []string // those that decode: a change of any other tells little
	for _, text := range all {
		if byServer(text).Code == "" && len(text) < 4000 {
			base = append(base, text)
		}
	}
	r := rand.New(rand.NewPCG(7, 11))
	var texts []string
	for range 6000 {
		text := []byte(base[r.IntN(len(base))])
		for range 1 + r.IntN(2) {
			at := r.IntN(len(text))
			switch r.IntN(5) {
			case 0:
				text[at] = byte(' ' + r.IntN(95))
			case 1:
				text = append(text[:at:at], text[at+1:]...)
			case 2:
				text = append(text[:at+1:at+1], text[at:]...)
			case 3:
				piece := []string{`"x":null,`, `1.0`, `-0`, `9007199254740992`, `\ud800`, `\u0000`, `null`, `"`, `,`, `{}`}[r.IntN(10)]
				text = append(text[:at:at], append([]byte(piece), text[at:]...)...)
			case 4:
				text[at] = text[r.IntN(len(text))]
			}
		}
		texts = append(texts, string(text))
	}
	accepted := 0
	for i, got := range byPage(t, texts) {
		want := byServer(texts[i])
		if want.Code == "" {
			accepted++
		}
		if (got.Code == "") != (want.Code == "") || got.Arguments != want.Arguments {
			t.Errorf("%s\nthe page says %+v, the server %+v", texts[i], got, want)
		}
	}
	if accepted < len(texts)/20 || accepted > len(texts)*19/20 {
		t.Errorf("%d of %d were accepted", accepted, len(texts))
	}
}

// Each frame that the page makes decodes on the server, and says there what it
// was made of.
func TestPageEncodesFrames(t *testing.T) {
	var out []string
	node(t, `import * as p from "./attended/protocol.js";
		import { catalogDigest, scopeDigest, schemaDigest, sorted, type Descriptor } from "./attended/digests.js";
		import { canonicalize } from "./canon.js";
		const tool = async (id: string, kind: Descriptor["class"]): Promise<Descriptor> => {
			const input = canonicalize('{"type":"object","properties":{"9":{"type":"string"},"10":{"const":"é😀\\u0001"}}}');
			return { id, version: "1", input, output: "{}", schemas: await schemaDigest(input, "{}"), class: kind, roles: ["clerk", "é"], source: "portal" };
		};
		void (async () => {
			const tools = sorted([await tool("b", "read"), await tool("a.z", "account-mutation"), await tool("B-2", "local-ui-mutation"), await tool("10", "read"), await tool("9", "read")]);
			const digest = "sha256:" + "a".repeat(64);
			console.log(JSON.stringify([
				p.openFrame("0".repeat(64), "portal", 1767225600000),
				p.registerFrame("portal", 7, await catalogDigest(tools), await scopeDigest(tools), tools),
				p.confirmFrame("call_1", digest), p.confirmFrame("call_1", digest, canonicalize('{"id":"x","response":{"signature":"s"}}')),
				p.succeededFrame("call_1", "null"), p.succeededFrame("call_1", canonicalize('{"text":"' + "é".repeat(744) + '"}')),
				p.failedFrame("call_1", "not_started"), p.failedFrame("call_1", "<script>"), p.cancelledFrame("call_1", "none"), p.cancelledFrame("call_1", "unknown"),
			]));
		})();`, &out)
	for _, text := range out {
		f, err := controlv1.DecodePage([]byte(text))
		if err != nil {
			t.Errorf("%.200s: %v", text, err)
			continue
		}
		again, err := controlv1.EncodePage(f)
		if err != nil || string(again) != text {
			t.Errorf("encoded again it is\n%s\nwant\n%s (%v)", again, text, err)
		}
	}
	if len(out) != 10 || !strings.Contains(out[7], "browser_execution_failed") {
		t.Errorf("made %q", out)
	}
}

type digestVector struct {
	Name   string
	Over   map[string]any
	Tools  []json.RawMessage
	Digest string
}

// The page computes the digests of the vectors.
func TestPageDigests(t *testing.T) {
	type entry struct {
		Kind  string            `json:"kind"`
		Parts map[string]string `json:"parts"` // canonical, or a bare string
		Tools []map[string]any  `json:"tools"`
	}
	var all []digestVector
	var asked []entry
	for _, v := range vectors[digestVector](t, "attended-digests.json") {
		kind := v.Over["kind"].(string)
		if kind == "binding" || kind == "call" || kind == "fence" {
			continue // the server's own
		}
		e := entry{Kind: kind, Parts: map[string]string{}, Tools: []map[string]any{}}
		for name, value := range v.Over {
			if s, ok := value.(string); ok && name != "kind" && name != "result" {
				e.Parts[name] = s
				continue
			}
			text, err := canon.Canonicalize([]byte(quoted(t, value)))
			if err != nil {
				t.Fatal(err)
			}
			e.Parts[name] = string(text)
		}
		for _, raw := range v.Tools {
			tool := map[string]any{}
			var members map[string]json.RawMessage
			if err := json.Unmarshal(raw, &members); err != nil {
				t.Fatal(err)
			}
			for name, value := range members {
				tool[name] = value
				if strings.HasSuffix(name, "_schema") {
					text, _ := canon.Canonicalize(value)
					tool[name] = string(text)
				}
			}
			e.Tools = append(e.Tools, tool)
		}
		all, asked = append(all, v), append(asked, e)
	}
	var out []string
	node(t, `import * as d from "./attended/digests.js";
		const one = (e: any): Promise<string> => {
			const p = e.parts;
			const tools = e.tools.map((t: any) => ({ id: t.tool_id, version: t.version, input: t.input_schema, output: t.output_schema, schemas: t.schema_digest, class: t.mutation_class, roles: t.required_roles, source: t.source_ref }));
			switch (e.kind) {
				case "schema": return d.schemaDigest(p.input_schema, p.output_schema);
				case "catalog": return d.catalogDigest(tools);
				case "scope": return d.scopeDigest(tools);
				case "request": return d.requestDigest({ binding: p.binding_digest, lease: p.lease_id, request: p.request_id, tool: p.tool_id, schemas: p.schema_digest, arguments: p.arguments });
				case "confirmation": return d.confirmationDigest(p.policy_reference, p.request_digest);
				case "result": return d.resultDigest(p.result);
			}
			throw new Error(e.kind);
		};
		void Promise.all((`+quoted(t, asked)+`).map(one)).then((all) => console.log(JSON.stringify(all)));`, &out)
	kinds := map[string]bool{}
	for i, v := range all {
		kinds[asked[i].Kind] = true
		if out[i] != v.Digest {
			t.Errorf("%s: %s, want %s", v.Name, out[i], v.Digest)
		}
	}
	if len(kinds) != 6 {
		t.Errorf("only %v were compared", kinds)
	}
}

// What no vector holds: the page's digests of catalogs and requests that a
// generator makes are the server's.
func TestPageDigestsAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	var scripts, want []string
	for i := range 200 {
		arguments, _ := canon.Canonicalize(fmt.Appendf(nil, `{"%d":[%d,"é\u2028😀"],"z\u0000":null,"\ue000":{"a":%d}}`, r.IntN(20), r.Int64N(1<<53), i))
		digest := func() string { return fmt.Sprintf("sha256:%064x", r.Uint64()) }
		binding, schemas := digest(), digest()
		lease, request, tool := fmt.Sprintf("lease_%d", r.IntN(9)), fmt.Sprintf("r.%d:x", r.IntN(9)), fmt.Sprintf("Tool-%d", r.IntN(9))
		scripts = append(scripts, fmt.Sprintf(`{binding:%q,schemas:%q,lease:%q,request:%q,tool:%q,arguments:%s}`, binding, schemas, lease, request, tool, quoted(t, string(arguments))))
		d, err := canon.Marshal(map[string]any{"binding_digest": binding, "lease_id": lease, "request_id": request, "tool_id": tool, "schema_digest": schemas, "arguments": canon.Text(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, canon.Digest(d))
	}
	var out []string
	node(t, `import { requestDigest } from "./attended/digests.js";
		void Promise.all([`+strings.Join(scripts, ",")+`].map(requestDigest)).then((all) => console.log(JSON.stringify(all)));`, &out)
	for i := range want {
		if out[i] != want[i] {
			t.Errorf("%s: %s, want %s", scripts[i], out[i], want[i])
		}
	}
}
