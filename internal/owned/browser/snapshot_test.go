package browser_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// TestCaseSnapshot writes what a person would find on the page.
func TestCaseSnapshot(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, page, want string }{
		{"a form", `<h1>Sign <i>in</i></h1><form><label>Name <input value=Ann></label><label for=p>Secret</label><input id=p type=password value=hunter2 required>
			<label><input type=checkbox checked> remember</label><input type=radio aria-label=yes><button disabled>Send</button><input type=submit></form>`, `
heading "Sign in" [level=1]
textbox "Name" [ref=e1] [value="Ann"]
textbox "Secret" [ref=e2] [required] [value="(hidden)"]
checkbox "remember" [ref=e3] [checked]
radio "yes" [ref=e4]
button "Send" [ref=e5] [disabled]
button "Submit" [ref=e6]`},
		{"names", `<span id=a>by another</span><button aria-labelledby=a>x</button><button aria-label="by label">x</button><a href=#><img alt="by image"></a>
			<input placeholder="by placeholder"><button title="by title"></button><input type=button value="by value">`, `
text "by another"
button "by another" [ref=e1]
button "by label" [ref=e2]
link "by image" [ref=e3]
textbox "by placeholder" [ref=e4]
button "by title" [ref=e5]
button "by value" [ref=e6]`},
		{"wrappers", `<div><div><span>one</span> <b>two</b></div><div>three</div></div><ul><li>four<li><a href=#>five</a></ul><p>a <a href=#>b</a> | <em>c</em></p>`, `
text "one two"
text "three"
list
 listitem "four"
 listitem
  link "five" [ref=e1]
text "a"
link "b" [ref=e2]
text "| c"`},
		{"hidden things", `<div hidden>a</div><div style="display:none"><button>b</button></div><div aria-hidden=true>c</div><div inert><button>d</button></div>
			<div style="visibility:hidden">e<button style="visibility:visible">f</button></div><div style="display:contents"><button>g</button></div><details><summary>more</summary><button>h</button></details>`, `
button "f" [ref=e1]
button "g" [ref=e2]
group
 button "more" [ref=e3] [collapsed]`},
		{"choices", `<select aria-label=City><option>Rome<option selected>Oslo</select><div role=tab aria-selected=true tabindex=0>T</div><div role=switch aria-checked=true>S</div><input type=range aria-label=R min=0 max=9 value=4>`, `
combobox "City" [ref=e1] [value="Oslo"]
 option "Rome"
 option "Oslo" [selected]
tab "T" [ref=e2] [selected]
switch "S" [ref=e3] [checked]
slider "R" [ref=e4] [value="4"]`},
		{"a table", `<table><tr><th>name<th>age<tr><td>Ann<td>42<tr><td>Bob<td><button>x</button></table>`, `
table
 row "name | age"
 row "Ann | 42"
 row
  cell "Bob"
  cell
   button "x" [ref=e1]`},
		{"soup", `<div onclick="x()">click me</div><div style="cursor:pointer"><span>me too</span></div><div style="cursor:pointer"><button>real</button></div><div contenteditable>note</div>`, `
clickable "click me" [ref=e1]
clickable "me too" [ref=e2]
button "real" [ref=e3]
textbox [ref=e4] [value="note"]`},
		{"a shadow root with a slot", `<x-a><b>light</b></x-a><script>document.querySelector('x-a').attachShadow({mode:'open'}).innerHTML='<button>deep <slot></slot></button>'</script>`, `
button "deep light" [ref=e1]`},
		{"frames", `<iframe src="/in" title=near></iframe><iframe src="http://www.app.test/in"></iframe>`, `
iframe "near"
 button "inside" [ref=e1]
iframe
frame "http://www.app.test"
 button "inside" [ref=e2]`},
		{"text that lies", "<button>pay \u202e001\u202c \U000e0041\u200b now</button><p>a\"b\\c [ref=x9]\nline</p>", `
button "pay 001 now" [ref=e1]
text "a\"b\\c [ref=x9] line"`},
		{"a drawn checkbox", `<label><input type=checkbox checked style="display:none"><i>box</i> agree</label>`, `
checkbox "box agree" [ref=e1] [checked]`},
		{"deep nesting", strings.Repeat("<div>", 400) + `<button>down</button>`, `
button "down" [ref=e1]`},
		{"clobbered properties", `<form><input name=parentNode><input name=childNodes><input name=getAttribute><input name=localName><input name=tagName><input name=nodeType></form><img name=body><img name=documentElement><button>ok</button>`, `
textbox [ref=e1]
textbox [ref=e2]
textbox [ref=e3]
textbox [ref=e4]
textbox [ref=e5]
textbox [ref=e6]
button "ok" [ref=e7]`},
	}
	d := sit(t, map[string]string{"/in": `<button>inside</button>`})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := d.with(t)
			d.pages.set("/", c.page)
			d.open("http://app.test/")
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), fromOne(d.snapshot(browser.Snapshot{}))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var reference = regexp.MustCompile(`\[ref=e\d+\]`)

// fromOne numbers the references of a snapshot from e1: in a run no number comes
// twice.
func fromOne(text string) string {
	seen := map[string]string{}
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		if seen[ref] == "" {
			seen[ref] = fmt.Sprintf("[ref=e%d]", len(seen)+1)
		}
		return seen[ref]
	})
}

var refLine = regexp.MustCompile(`(?m)^ *(link|button) "([^"]*)" \[ref=(e\d+)\]`)

func nodesPage() string {
	var b strings.Builder
	b.WriteString(`<h1>Two thousand nodes</h1><script>window.hits=[]</script><ul>`)
	for i := range 500 {
		fmt.Fprintf(&b, `<li><span>Row %d</span> <a href="#r%d" onclick="hits.push('open %d')">open</a> <button onclick="hits.push(this.textContent)">act %d</button></li>`, i, i, i, i)
	}
	return b.String() + `</ul>`
}

// TestCaseSnapshotSize keeps 2,000 nodes small, quick and whole.
func TestCaseSnapshotSize(t *testing.T) {
	d := sit(t, map[string]string{"/": nodesPage()})
	d.open("http://app.test/")
	text, quickest := "", time.Hour
	for range 6 {
		began := time.Now()
		text = d.snapshot(browser.Snapshot{})
		quickest = min(quickest, time.Since(began))
	}
	if quickest > 75*time.Millisecond {
		t.Errorf("a snapshot took %v at best; 10 ms is usual", quickest)
	}
	escaped, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(escaped) > 45_000 {
		t.Errorf("%d bytes of JSON, want at most 45000", len(escaped))
	}
	found := refLine.FindAllStringSubmatch(text, -1)
	if len(found) != 1000 {
		t.Fatalf("%d links and buttons, want 1000", len(found))
	}
	for range 10 {
		i := rand.IntN(1000)
		want := fmt.Sprintf("open %d", i/2)
		if i%2 == 1 {
			want = fmt.Sprintf("act %d", i/2)
		}
		d.do(browser.ClickRef(found[i][3]))
		d.want("hits.at(-1)", `"`+want+`"`)
	}
	only := d.snapshot(browser.Snapshot{Interactive: true})
	if n := strings.Count(only, "\n") + 1; n != 1000 || strings.Contains(only, "Row") {
		t.Errorf("interactive mode has %d lines, want the 1000 that act", n)
	}
	t.Logf("%d bytes, %d as JSON, %v", len(text), len(escaped), quickest)
}

var moreLine = regexp.MustCompile(`\n(\d+) more, pass after=(e\d+)$`)

// TestCaseSnapshotPages goes on where max_bytes has cut, and misses nothing.
func TestCaseSnapshotPages(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/": nodesPage(), "/text": `<p>` + strings.Repeat("<p>some words here</p>", 300) + `<iframe src="http://www.app.test/in"></iframe>`,
		"/in": `<button>last</button>`,
	})
	for _, path := range []string{"/", "/text"} {
		d.open("http://app.test" + path)
		whole := d.snapshot(browser.Snapshot{MaxBytes: 1 << 20})
		var lines []string
		after := ""
		for range 200 {
			r := d.do(browser.Snapshot{MaxBytes: 2000, After: after}).Result.(browser.SnapshotResult)
			if len(r.Text) > 2100 {
				t.Fatalf("%d bytes of a page of 2000", len(r.Text))
			}
			m := moreLine.FindStringSubmatch(r.Text)
			lines = append(lines, strings.Split(moreLine.ReplaceAllString(r.Text, ""), "\n")...)
			if after = r.After; m == nil {
				break
			}
			if m[2] != after || m[1] != fmt.Sprint(r.More) {
				t.Fatalf("last line %q, but after %s and %d more", m[0], after, r.More)
			}
		}
		// A cut gives the last line a reference if it had none.
		refs := regexp.MustCompile(` \[ref=e\d+\]`)
		got, want := refs.ReplaceAllString(strings.Join(lines, "\n"), ""), refs.ReplaceAllString(whole, "")
		if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	d.fail(5*time.Second, browser.Snapshot{After: "e99999"}, refusal.Stale)
}

// TestCaseSnapshotHuge never moves a page's hidden or endless text.
func TestCaseSnapshotHuge(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<button>ok</button><p id=p></p><div hidden id=h></div><script>p.textContent='word '.repeat(1e6);h.textContent='x'.repeat(4e7)</script>`})
	d.open("http://app.test/")
	text := d.snapshot(browser.Snapshot{})
	if len(text) > 400 || !strings.HasPrefix(text, "button \"ok\" [ref=e1]\ntext \"word word") {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
}

// TestCaseReferences live as long as their node and document do.
func TestCaseReferences(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/text":    `<button id=b onclick="window.n=(window.n||0)+1">0</button><script>let i=0;setInterval(()=>b.textContent=++i,20)</script>`,
		"/rebuild": `<div id=l></div><script>const make=()=>{l.innerHTML='<button onclick="window.n=(window.n||0)+1">go</button>'};make();setInterval(make,100)</script>`,
		"/move":    `<div id=a><button onclick="window.n=(window.n||0)+1">go</button></div><div id=z></div>`,
		"/frame":   `<iframe src="/text"></iframe>`,
	})
	ref := func(text string) string {
		t.Helper()
		m := regexp.MustCompile(`\[ref=(e\d+)\]`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no reference in %q", text)
		}
		return m[1]
	}
	d.open("http://app.test/text")
	first := ref(d.snapshot(browser.Snapshot{}))
	for range 3 {
		d.do(browser.ClickRef(first))
	}
	if again := ref(d.snapshot(browser.Snapshot{})); again != first {
		t.Errorf("the same button is %s and then %s", first, again)
	}
	d.want("n", "3")

	d.open("http://app.test/rebuild")
	gone := ref(d.snapshot(browser.Snapshot{}))
	if gone == first {
		t.Errorf("%s names a button of another document", gone)
	}
	time.Sleep(150 * time.Millisecond)
	for _, r := range []string{gone, first} {
		f := d.fail(3*time.Second, browser.ClickRef(r), refusal.Stale)
		if !strings.Contains(f.Detail, "snapshot") || f.Sent {
			t.Errorf("detail %q, sent %v; want the step to take", f.Detail, f.Sent)
		}
	}
	d.want("window.n ?? 0", "0")

	d.open("http://app.test/move")
	moved := ref(d.snapshot(browser.Snapshot{}))
	d.js(`z.append(a.firstChild)`)
	d.do(browser.ClickRef(moved))
	d.want("n", "1")

	d.open("http://app.test/frame")
	framed := ref(d.snapshot(browser.Snapshot{}))
	d.do(browser.ClickRef(framed))
	d.want("frames[0].n", "1")
	d.js(`document.querySelector('iframe').remove()`)
	d.fail(3*time.Second, browser.ClickRef(framed), refusal.Stale)
	d.fail(3*time.Second, ownedv1.Type{Selector: "ref=" + framed, Text: "x"}, refusal.Stale)
}
