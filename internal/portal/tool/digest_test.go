package tool_test

import (
	"testing"

	"chaperone/internal/portal/tool"
)

// What a receipt binds is all of it: a change of any one thing that alters the
// effect, down to how a letter is composed, is another digest; how the JSON was
// written isn't.
func TestDigestBindsEverything(t *testing.T) {
	const whole = `{"collection":"files","item":"a.txt","request_id":"` + id + `","content":"caf\u00e9","encoding":"utf-8","media_type":"text/plain","metadata":{"seen":true,"label":"x"},"if_version":"v1"}`
	seen := map[string]string{}
	for name, c := range map[string]struct{ tool, arguments string }{
		"as it is":           {"item_write", whole},
		"another tool":       {"item_delete", whole},
		"another collection": {"item_write", `{"collection":"file","item":"a.txt","request_id":"` + id + `","content":"caf\u00e9","encoding":"utf-8","media_type":"text/plain","metadata":{"seen":true,"label":"x"},"if_version":"v1"}`},
		"another item":       {"item_write", `{"collection":"files","item":"b.txt","request_id":"` + id + `","content":"caf\u00e9","encoding":"utf-8","media_type":"text/plain","metadata":{"seen":true,"label":"x"},"if_version":"v1"}`},
		"another request":    {"item_write", `{"collection":"files","item":"a.txt","request_id":"0` + id[1:] + `","content":"caf\u00e9","encoding":"utf-8","media_type":"text/plain","metadata":{"seen":true,"label":"x"},"if_version":"v1"}`},
		"composed otherwise": {"item_write", `{"collection":"files","item":"a.txt","request_id":"` + id + `","content":"cafe\u0301","encoding":"utf-8","media_type":"text/plain","metadata":{"seen":true,"label":"x"},"if_version":"v1"}`},
		"another encoding":   {"item_write", `{"collection":"files","item":"a.txt","request_id":"` + id + `","content":"caf\u00e9","encoding":"base64","media_type":"text/plain","metadata":{"seen":true,"label":"x"},"if_version":"v1"}`},
		"no encoding":        {"item_write", `{"collection":"files","item":"a.txt","request_id":"` + id + `","content":"caf\u00e9","media_type":"text/plain","metadata":{"seen":true,"label":"x"},"if_version":"v1"}`},
		"another type":       {"item_write", `{"collection":"files","item":"a.txt","request_id":"` + id + `","content":"caf\u00e9","encoding":"utf-8","media_type":"text/html","metadata":{"seen":true,"label":"x"},"if_version":"v1"}`},
		"another metadata":   {"item_write", `{"collection":"files","item":"a.txt","request_id":"` + id + `","content":"caf\u00e9","encoding":"utf-8","media_type":"text/plain","metadata":{"seen":false,"label":"x"},"if_version":"v1"}`},
		"less metadata":      {"item_write", `{"collection":"files","item":"a.txt","request_id":"` + id + `","content":"caf\u00e9","encoding":"utf-8","media_type":"text/plain","metadata":{"seen":true},"if_version":"v1"}`},
		"another version":    {"item_write", `{"collection":"files","item":"a.txt","request_id":"` + id + `","content":"caf\u00e9","encoding":"utf-8","media_type":"text/plain","metadata":{"seen":true,"label":"x"},"if_version":"v2"}`},
		"if it isn't there":  {"item_write", `{"collection":"files","item":"a.txt","request_id":"` + id + `","content":"caf\u00e9","encoding":"utf-8","media_type":"text/plain","metadata":{"seen":true,"label":"x"},"if_absent":true}`},
		"a member more":      {"item_write", whole[:len(whole)-1] + `,"confirmed":true}`},
	} {
		digest, err := tool.Digest(c.tool, []byte(c.arguments))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if other, same := seen[digest]; same {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[digest] = name
	}
	rewritten := `{ "if_version" : "v1", "metadata":{"label":"x","seen":true}, "media_type":"text\/plain", "encoding":"utf-8",
		"content":"café", "request_id":"` + id + `", "item":"a.txt", "collection":"files" }`
	digest, err := tool.Digest("item_write", []byte(rewritten))
	if err != nil || seen[digest] != "as it is" {
		t.Errorf("the same, written otherwise, is %q (%v)", seen[digest], err)
	}
}
