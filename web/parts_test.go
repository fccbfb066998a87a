package web_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/evanw/esbuild/pkg/api"

	"chaperone/internal/portal/tool"
)

// node runs a script that imports the page's own sources, and reads the JSON that
// it prints.
func node(t *testing.T, script string, into any) {
	t.Helper()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	built := api.Build(api.BuildOptions{
		Stdin:  &api.StdinOptions{Contents: script, ResolveDir: filepath.Join(root, "src"), Loader: api.LoaderTS},
		Bundle: true, Format: api.FormatIIFE, Target: api.ES2022, Charset: api.CharsetUTF8, LogLevel: api.LogLevelSilent,
	})
	if len(built.Errors) > 0 {
		t.Fatalf("%s", built.Errors[0].Text)
	}
	cmd := exec.Command("node", "-")
	cmd.Stdin = bytes.NewReader(built.OutputFiles[0].Contents)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node (apt-get install nodejs): %v\n%s", err, said.Bytes())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatal(err)
	}
}

// What the server calls hidden in a name, the page marks in any text, and nothing
// that shows itself.
func TestMarksWhatIsHidden(t *testing.T) {
	var marked []rune
	node(t, `import { plain } from "./ui/marked.js";
		const out: number[] = [];
		for (let c = 0; c <= 0x10ffff; c++) {
			if (c >= 0xd800 && c <= 0xdfff) continue;
			const s = String.fromCodePoint(c);
			if (plain(s) !== s) out.push(c);
		}
		console.log(JSON.stringify(out));`, &marked)
	is := map[rune]bool{}
	for _, r := range marked {
		is[r] = true
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xD800 && r <= 0xDFFF {
			continue
		}
		hidden := !tool.Plain(string(r))
		if hidden && !is[r] {
			t.Errorf("%U is refused in names and isn't marked", r)
		}
		// A character that one of the two doesn't know yet may be taken either way.
		if !hidden && is[r] && unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z) {
			t.Errorf("%U shows itself and is marked", r)
		}
	}
	if len(marked) < 130_000 { // the private planes alone
		t.Errorf("only %d are marked", len(marked))
	}
}

// A comparison holds both texts whole, in order, whatever they are.
func TestComparisonHoldsBothTexts(t *testing.T) {
	var got []struct {
		Before, After []string
		Lines         []struct{ Kind, Text string }
	}
	node(t, `import { compare } from "./adapter/compare.js";
		let seed = 7;
		const next = (n: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
		const text = (): string[] => Array.from({ length: next(12) }, () => "line " + next(4));
		const big = (word: string): string[] => Array.from({ length: 2500 }, (_, i) => word + i);
		const all = Array.from({ length: 500 }, () => [text(), text()] as const);
		all.push([big("a"), big("b")]);
		console.log(JSON.stringify(all.map(([before, after]) => ({ before, after, lines: compare(before, after) }))));`, &got)
	for _, c := range got {
		var before, after []string
		same := 0
		for _, l := range c.Lines {
			if l.Kind != "added" {
				before = append(before, l.Text)
			}
			if l.Kind != "removed" {
				after = append(after, l.Text)
			}
			if l.Kind == "same" {
				same++
			}
		}
		if strings.Join(before, "\n") != strings.Join(c.Before, "\n") || strings.Join(after, "\n") != strings.Join(c.After, "\n") {
			t.Fatalf("%v and %v compare to %v", c.Before, c.After, c.Lines)
		}
		if len(c.Before) < 50 && same != longest(c.Before, c.After) {
			t.Errorf("%v and %v: %d lines are the same, want %d", c.Before, c.After, same, longest(c.Before, c.After))
		}
	}
	if len(got) != 501 {
		t.Errorf("%d comparisons", len(got))
	}
}

// longest is the length of a longest common subsequence.
func longest(a, b []string) int {
	row := make([]int, len(b)+1)
	for i := range a {
		diagonal := 0
		for j := range b {
			above := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}
