package browser_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

const watched = `<script>window.log=[];for(const t of ['input','change','submit'])addEventListener(t,e=>log.push(t),true)</script>`

// TestCaseTypeTakes types into every kind of field and finds the text there.
func TestCaseTypeTakes(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, field, text, value string }{
		{"text", `<input id=f value=old>`, "new", `"new"`},
		{"empties", `<input id=f value=old>`, "", `""`},
		{"beyond the basic plane", `<input id=f>`, "a😀é", `"a\ud83d\ude00\u00e9"`},
		{"password", `<input id=f type=password value=x>`, "s3cret", `"s3cret"`},
		{"email", `<input id=f type=email value=a@b>`, "c@d.test", `"c@d.test"`},
		{"number", `<input id=f type=number value=3>`, "12.5", `"12.5"`},
		{"textarea", `<textarea id=f>old</textarea>`, "one\ntwo", `"one\ntwo"`},
		{"date", `<input id=f type=date>`, "2026-12-31", `"2026-12-31"`},
		{"time", `<input id=f type=time>`, "23:59", `"23:59"`},
		{"datetime-local", `<input id=f type=datetime-local>`, "2026-12-31T23:59", `"2026-12-31T23:59"`},
		{"month", `<input id=f type=month>`, "2026-12", `"2026-12"`},
		{"week", `<input id=f type=week>`, "2026-W02", `"2026-W02"`},
		{"color", `<input id=f type=color>`, "#FF0080", `"#ff0080"`},
		{"range", `<input id=f type=range min=0 max=10>`, "7", `"7"`},
		{"by its label", `<label for=g id=f>name</label><input id=g oninput="f.value=this.value">`, "x", `"x"`},
		{"a mask", `<input id=f oninput="const d=this.value.replace(/\D/g,'');this.value='('+d.slice(0,3)+') '+d.slice(3)">`, "5551234", `"(555) 1234"`},
		{"once the field is enabled", `<input id=f disabled><script>setTimeout(()=>f.disabled=false,200)</script>`, "x", `"x"`},
	}
	d := sit(t, map[string]string{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := d.with(t)
			d.pages.set("/type", watched+c.field)
			d.open("http://app.test/type")
			r := d.do(ownedv1.Type{Selector: "#f", Text: c.text}).Result
			want := ownedv1.TypeResult{TypedInto: "#f", Chars: len([]rune(c.text))}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Error(diff)
			}
			d.want("f.value", c.value)
			d.want(`log.includes('input') && log.filter(t=>t==='change').length`, "1")
			d.want(`log.includes('submit')`, "false")
		})
	}
}

// TestCaseTypeRich types into editable content, and only into the part asked for.
func TestCaseTypeRich(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, field, selector, text, state string }{
		{"a host", `<div>before</div><div id=f contenteditable>old <b>text</b></div><p>after</p>`, "#f", "new", `["new","before","after"]`},
		{"one paragraph of it", `<div>before</div><div contenteditable><p>keep</p><p id=f>old</p></div><p>after</p>`, "#f", "new", `["new","before","keep"]`},
		{"lines", `<div>before</div><div id=f contenteditable style="white-space:pre-wrap">old</div><p>after</p>`, "#f", "a\nb", `["a\nb","before","after"]`},
		{"the second of two", `<div contenteditable>first</div><div id=f contenteditable></div><p>after</p>`, "#f", "new", `["new","first","after"]`},
		{"empties", `<div>before</div><div id=f contenteditable>old</div><p>after</p>`, "#f", "", `["","before","after"]`},
	}
	d := sit(t, map[string]string{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := d.with(t)
			d.pages.set("/rich", watched+c.field)
			d.open("http://app.test/rich")
			d.typ(c.selector, c.text)
			d.want(`[f.innerText.trim(), document.querySelector('div').innerText, document.querySelector('p:not(#f)').innerText]`, c.state)
			d.want(`log.includes('input')`, "true")
		})
	}
}

// TestCaseTypeRefuses says so when a field doesn't hold the text afterwards.
func TestCaseTypeRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, field, text, detail string
		reason                    refusal.Code
		sent                      bool
	}{
		{"letters for a number", `<input id=f type=number>`, "twelve", "doesn't take", refusal.Failed, true},
		{"another way to write a date", `<input id=f type=date>`, "12/31/2026", "2026-12-31", refusal.Failed, false},
		{"a range over its end", `<input id=f type=range min=0 max=10>`, "70", "limits", refusal.Failed, false},
		{"a colour by name", `<input id=f type=color>`, "red", "#rrggbb", refusal.Failed, false},
		{"maxlength", `<input id=f maxlength=3>`, "abcdef", "maxlength", refusal.Failed, true},
		{"a field that drops everything", `<input id=f oninput="this.value=''">`, "abc", "doesn't take", refusal.Failed, true},
		{"a field that writes something else", `<input id=f oninput="this.value='hm'">`, "abc", "something else", refusal.Failed, true},
		{"a file input", `<input id=f type=file>`, "abc", "upload", refusal.Failed, false},
		{"a checkbox", `<input id=f type=checkbox>`, "abc", "kind", refusal.Failed, false},
		{"a plain element", `<div id=f>x</div>`, "abc", "kind", refusal.Failed, false},
		{"disabled", `<input id=f disabled>`, "abc", "disabled", refusal.TimedOut, false},
		{"hidden", `<input id=f hidden>`, "abc", "not visible", refusal.TimedOut, false},
		{"a focus thief", `<input id=f onfocus="g.focus()"><input id=g>`, "abc", "keyboard", refusal.Failed, false},
	}
	d := sit(t, map[string]string{"/ro": `<input id=f readonly value=x>`})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := d.with(t)
			d.pages.set("/no", c.field)
			d.open("http://app.test/no")
			f := d.fail(5*time.Second, ownedv1.Type{Selector: "#f", Text: c.text, TimeoutMS: 400}, c.reason)
			if !strings.Contains(f.Detail, c.detail) || strings.Contains(f.Detail, c.text) || f.Sent != c.sent {
				t.Errorf("detail %q, sent %v; want %q, %v", f.Detail, f.Sent, c.detail, c.sent)
			}
		})
	}
	d.open("http://app.test/ro")
	d.fail(10*time.Second, ownedv1.Type{Selector: "#f", Text: "abc", TimeoutMS: 9000}, refusal.Failed)
	d.want("f.value", `"x"`)
}

// TestCaseEnter presses Enter for a newline in a field of one line.
func TestCaseEnter(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/":       `<form onsubmit="window.n=(window.n||0)+1;return false"><input id=f onkeydown="window.k=event.key"></form>`,
		"/chat":   `<input id=f onkeydown="if(event.key==='Enter'){out.textContent+=this.value+';';this.value=''}"><p id=out></p>`,
		"/go":     `<form action="/done"><input id=f name=q></form>`,
		"/done":   `<h1>done</h1>`,
		"/frames": `<script>onmessage=e=>window.told=e.data</script><iframe src="/near"></iframe><iframe src="http://www.app.test/far"></iframe>`,
		"/near":   `<input id=near>`, "/far": `<form onsubmit="parent.postMessage(far.value,'*');return false"><input id=far></form>`,
		"/form": `<form onsubmit="return false"><input id=a><input id=b onfocus="window.b=1"></form>`,
	})
	d.open("http://app.test/")
	d.typ("#f", "abc\n")
	d.want("[n, k, f.value]", `[1,"Enter","abc"]`)
	d.open("http://app.test/chat")
	d.typ("#f", "one\ntwo\r\n")
	d.want("out.textContent", `"one;two;"`)
	d.open("http://app.test/go")
	d.typ("#f", "abc\n")
	d.want("location.search", `"?q=abc"`)
	d.open("http://app.test/frames")
	d.typ("#near", "in a frame")
	d.typ("#far", "in another origin\n")
	d.want("frames[0].document.querySelector('input').value", `"in a frame"`)
	d.wantSoon("window.told", `"in another origin"`)

	d.open("http://app.test/form")
	d.do(browser.Press{Key: "x", Selector: "#a"})
	d.do(browser.Press{Key: "Shift+y"})
	d.do(browser.Press{Key: "Control+A"})
	d.do(browser.Press{Key: "Z"})
	d.want("a.value", `"Z"`)
	d.do(browser.Press{Key: "Tab"})
	d.want("[window.b, document.activeElement.id]", `[1,"b"]`)
	d.fail(time.Second, browser.Press{Key: "Control+Nothing"}, refusal.Failed)
}

// TestCaseDelay waits delay_ms after typing.
func TestCaseDelay(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<input id=f>`})
	d.open("http://app.test/")
	began := time.Now()
	d.do(ownedv1.Type{Selector: "#f", Text: "a", DelayMS: 250})
	if took := time.Since(began); took < 250*time.Millisecond {
		t.Errorf("came back after %v", took)
	}
}
