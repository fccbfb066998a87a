package spec_test

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/spec"
)

var names = spec.Names{
	"engagement_id": "acme", "run_id": "run-1", "epoch": strings.Repeat("e", 64),
	"bootstrap_token": strings.Repeat("b", 64), "host_commit": strings.Repeat("c", 40), "authority": "127.0.0.1:1",
}

// Every transcript parses, and every placeholder in it is a known one.
func TestTranscripts(t *testing.T) {
	files, err := fs.Glob(spec.Files, "transcripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := spec.Files.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tr, err := spec.ParseTranscript(data)
			if err != nil {
				t.Fatal(err)
			}
			known := spec.Names{"session_token": strings.Repeat("5", 64)}
			for k, v := range names {
				known[k] = v
			}
			for _, s := range tr.Steps {
				texts := [][]byte{[]byte(s.Path)}
				for _, h := range s.Header {
					texts = append(texts, []byte(h[1]))
				}
				if s.Send {
					texts = append(texts, s.Body)
				} else if s.Body != nil {
					// Nothing matches null but an {{any}}; a file's own fault is told apart.
					if err := known.Match(s.Body, []byte("null"), time.Now()); err == nil || strings.Contains(err.Error(), "transcript") || strings.Contains(err.Error(), "unknown") {
						t.Errorf("answer %d: %v", s.N, err)
					}
				}
				for _, text := range texts {
					if _, err := known.Expand(text, time.Now()); err != nil {
						t.Errorf("request %d: %v", s.N, err)
					}
				}
			}
		})
	}
}

func TestParseTranscriptRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no title":        "-- 1 > GET / --\n-- 1 < 200 --\n",
		"no steps":        "title\n",
		"unanswered":      "title\n-- 1 > GET / --\n",
		"unsent":          "title\n-- 1 > GET / --\n-- 2 < 200 --\n",
		"answered twice":  "title\n-- 1 > GET / --\n-- 1 < 200 --\n-- 1 < 200 --\n",
		"numbered from 2": "title\n-- 2 > GET / --\n-- 2 < 200 --\n",
		"no status":       "title\n-- 1 > GET / --\n-- 1 < ok --\n",
		"no header":       "title\n-- 1 > GET / --\nbody\n-- 1 < 200 --\n",
		"other section":   "title\n-- 1 > GET / --\n-- 1 < 200 --\n-- notes --\n",
		"no pause":        "title\n-- pause long --\n-- 1 > GET / --\n-- 1 < 200 --\n",
	} {
		if _, err := spec.ParseTranscript([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestExpand(t *testing.T) {
	now := time.UnixMilli(1000)
	n := spec.Names{"epoch": "e1"}
	for text, want := range map[string]string{
		"{{{epoch}}}":        "{e1}",
		"{{now+30000}}":      "31000",
		"{{now-1}}":          "999",
		"{{repeat 3 ab}}":    "ababab",
		"{{bytes ff00}}":     "\xff\x00",
		"{}{ {epoch} } {{a:": "{}{ {epoch} } {{a:",
	} {
		got, err := n.Expand([]byte(text), now)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"{{nobody}}", "{{hex64 x}}", "{{new hex9 x}}", "{{repeat x y}}", "{{bytes f}}", "{{identity}}"} {
		if _, err := n.Expand([]byte(text), now); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	got, err := n.Expand([]byte("{{new hex32 id}}"), now)
	if err != nil || len(got) != 32 || n["id"] != string(got) {
		t.Errorf("new: got %q, %v; bound %q", got, err, n["id"])
	}
}

func TestMatch(t *testing.T) {
	now := time.UnixMilli(1000)
	hex64 := strings.Repeat("a", 64)
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{`{"a":1}`, ` { "a" : 1 } `, true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1}`, `{"a":1.0}`, false},
		{`{"a":1}`, `{"b":1}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`"{{hex64 t}}"`, `"` + hex64 + `"`, true},
		{`"{{hex64 t}}"`, `"` + strings.ToUpper(hex64) + `"`, false},
		{`"{{hex32 t}}"`, `"` + hex64 + `"`, false},
		{`"{{within 500}}"`, `1500`, true},
		{`"{{within 500}}"`, `1501`, false},
		{`"{{within 500}}"`, `1000`, false},
		{`"{{within 500}}"`, `"1400"`, false},
		{`"{{integer}}"`, `7`, true},
		{`"{{integer}}"`, `7.0`, false},
		{`"{{string}}"`, `"7"`, true},
		{`"{{any}}"`, `null`, true},
		{`"{{capabilities}}"`, `["close"]`, false},
		{`"x"`, `"x" 1`, false},
		{`"{{nobody}}"`, `"x"`, false},
	} {
		if err := (spec.Names{}).Match([]byte(c.want), []byte(c.got), now); (err == nil) != c.ok {
			t.Errorf("%s against %s: %v", c.want, c.got, err)
		}
	}
	n := spec.Names{}
	if err := n.Match([]byte(`{"t":"{{hex64 token}}"}`), []byte(`{"t":"`+hex64+`"}`), now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec.Names{"token": hex64}, n); diff != "" {
		t.Error(diff)
	}
}

// FuzzParseTranscript: whatever parses keeps its order, and neither reading nor
// matching panics.
func FuzzParseTranscript(f *testing.F) {
	files, err := fs.Glob(spec.Files, "transcripts/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := spec.Files.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 4000 {
			f.Add(data)
		}
	}
	f.Add([]byte("t\n-- 1 > GET / --\n\n{{repeat 9 x}}\n-- pause 1 --\n-- 1 < 200|204 --\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "repeat") {
			return // a count of any length is the file's own to write
		}
		tr, err := spec.ParseTranscript(data)
		if err != nil {
			return
		}
		sent := 0
		for _, s := range tr.Steps {
			if s.Send {
				if sent++; s.N != sent {
					t.Fatalf("request %d is number %d", sent, s.N)
				}
			}
			spec.Names{}.Match(s.Body, []byte(`{"a":[1,"x",null]}`), time.UnixMilli(0))
		}
	})
}
