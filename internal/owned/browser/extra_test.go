package browser_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

func TestDecodeExtra(t *testing.T) {
	good := []struct {
		action, raw string
		want        ownedv1.Action
	}{
		{"snapshot", ``, browser.Snapshot{}},
		{"snapshot", `{"interactive":true,"max_bytes":2000,"after":"e80"}`, browser.Snapshot{Interactive: true, MaxBytes: 2000, After: "e80"}},
		{"wait_for", `{"selector":"#a","state":"hidden","timeout_ms":5}`, browser.WaitFor{Selector: "#a", State: "hidden", TimeoutMS: 5}},
		{"press", `{"key":"Control+Shift+A"}`, browser.Press{Key: "Control+Shift+A"}},
		{"press", `{"key":"+"}`, browser.Press{Key: "+"}},
		{"press", `{"key":"Control++"}`, browser.Press{Key: "Control++"}},
		{"press", `{"key":"é"}`, browser.Press{Key: "é"}},
		{"select_option", `{"selector":"s","values":[]}`, browser.SelectOption{Selector: "s", Values: []string{}}},
		{"upload", `{"selector":"f","files":["a b.txt"]}`, browser.Upload{Selector: "f", Files: []string{"a b.txt"}}},
		{"dialogs", `{"mode":"hold"}`, browser.SetDialogs{Mode: browser.DialogsHold}},
		{"answer_dialog", `{"accept":true,"text":"x"}`, browser.AnswerDialog{Accept: true, Text: "x"}},
		{"download", `{"id":"d"}`, browser.SaveDownload{ID: "d"}},
		{"call_page_tool", `{"tool":"a-b","arguments":{"n":1}}`, browser.CallPageTool{Tool: "a-b", Arguments: []byte(`{"n":1}`)}},
		{"import_state", `{"file":"s.json"}`, browser.ImportState{File: "s.json"}},
		{"close_tab", `{}`, browser.CloseTab{}},
	}
	for _, c := range good {
		got, err := browser.DecodeExtra(c.action, []byte(c.raw))
		if err != nil {
			t.Errorf("%s %s: %v", c.action, c.raw, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s: %s", c.action, c.raw, diff)
		}
	}
	bad := []struct{ action, raw string }{
		{"nothing", `{}`}, {"click", `{"selector":"a"}`},
		{"snapshot", `null`}, {"snapshot", `[]`}, {"snapshot", `{} {}`}, {"snapshot", `{"Interactive":true}`},
		{"snapshot", `{"interactive":true,"interactive":true}`}, {"snapshot", `{"interactive":null}`}, {"snapshot", `{"interactive":1}`},
		{"snapshot", `{"max_bytes":1.5}`}, {"snapshot", `{"max_bytes":-1}`}, {"snapshot", `{"after":"80"}`}, {"snapshot", `{"other":1}`},
		{"wait_for", `{}`}, {"wait_for", `{"selector":"a","text":"b"}`}, {"wait_for", `{"selector":"a","state":"gone"}`}, {"wait_for", `{"text":"a","state":"hidden"}`},
		{"press", `{}`}, {"press", `{"key":""}`}, {"press", `{"key":"Control+"}`}, {"press", `{"key":"enter"}`}, {"press", `{"key":"Control+Control+a"}`}, {"press", `{"key":"ab"}`}, {"press", "{\"key\":\"\\u0007\"}"},
		{"select_option", `{"selector":"a"}`}, {"select_option", `{"values":["a"]}`},
		{"upload", `{"selector":"a","files":[]}`}, {"upload", `{"selector":"a","files":["../x"]}`}, {"upload", `{"selector":"a","files":["/etc/passwd"]}`}, {"upload", `{"selector":"a","files":["."]}`},
		{"dialogs", `{}`}, {"dialogs", `{"mode":"ask"}`}, {"download", `{}`},
		{"call_page_tool", `{"tool":"a b"}`}, {"call_page_tool", `{"tool":"a","arguments":[]}`}, {"call_page_tool", `{"tool":"a","arguments":"{}"}`},
		{"import_state", `{}`}, {"import_state", `{"file":"a","state":{}}`}, {"import_state", `{"file":"a/b"}`}, {"import_state", `{"state":[]}`},
	}
	for _, c := range bad {
		_, err := browser.DecodeExtra(c.action, []byte(c.raw))
		var f *browser.Failure
		if !errors.As(err, &f) || f.Code != refusal.BrowserActionFailed || f.Detail == "" {
			t.Errorf("%s %s: %v, want a failure with a detail", c.action, c.raw, err)
		}
	}
}

func FuzzDecodeExtra(f *testing.F) {
	for _, action := range browser.Extra {
		f.Add(action, `{}`)
	}
	f.Add("wait_for", `{"selector":"#a","state":"hidden","timeout_ms":5}`)
	f.Add("call_page_tool", `{"tool":"a","arguments":{"a":[1,{"b":null}]}}`)
	f.Add("import_state", `{"state":{"cookies":[]}}`)
	f.Fuzz(func(t *testing.T, action, raw string) {
		a, err := browser.DecodeExtra(action, []byte(raw))
		if err != nil {
			var failure *browser.Failure
			if !errors.As(err, &failure) {
				t.Fatalf("%v is no Failure", err)
			}
			return
		}
		if a.Name() != action {
			t.Fatalf("%q decoded as %q", action, a.Name())
		}
		again, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := browser.DecodeExtra(action, again); err != nil {
			t.Fatalf("%s was taken, its own encoding %s isn't: %v", raw, again, err)
		}
	})
}

// FuzzChord holds every key that is taken to be one a keyboard has.
func FuzzChord(f *testing.F) {
	for _, key := range []string{"Enter", "a", "+", "Control++", "Shift+Tab", "Control+Alt+Delete", "é", "F12", "Shift+Shift", "", "Control+", "a+b"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		raw, err := json.Marshal(map[string]string{"key": key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := browser.DecodeExtra("press", raw); err != nil {
			return
		}
		if len(key) > 40 || strings.IndexFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
			t.Fatalf("%q was taken for a key", key)
		}
	})
}

// FuzzMatchURL compares the matcher with the plain recursion it stands for.
func FuzzMatchURL(f *testing.F) {
	f.Add("http://*/a/**", "http://h/a/b/c")
	f.Add("/a/*", "https://h/a/b")
	f.Add("***a*", "aaa")
	f.Fuzz(func(t *testing.T, glob, address string) {
		if len(glob) > 12 || len(address) > 24 {
			return
		}
		if plainMatch(glob, address) && !browser.MatchURL(glob, address) {
			t.Fatalf("%q doesn't match %q", glob, address)
		}
		if strings.Contains(glob, "://") && !plainMatch(glob, address) && browser.MatchURL(glob, address) {
			t.Fatalf("%q matches %q", glob, address)
		}
	})
}

func plainMatch(glob, s string) bool {
	switch {
	case glob == "":
		return s == ""
	case strings.HasPrefix(glob, "**"):
		return plainMatch(glob[2:], s) || s != "" && plainMatch(glob, s[1:])
	case glob[0] == '*':
		return plainMatch(glob[1:], s) || s != "" && s[0] != '/' && plainMatch(glob, s[1:])
	}
	return s != "" && s[0] == glob[0] && plainMatch(glob[1:], s[1:])
}

// FuzzState never takes a state that lacks what would be judged.
func FuzzState(f *testing.F) {
	f.Add(`{"cookies":[{"name":"a","value":"b","domain":".h","path":"/","expires":-1,"httpOnly":true,"secure":false,"sameSite":"Lax"}],"origins":[]}`)
	f.Add(`{"origins":[{"origin":"https://h:8443","localStorage":[{"name":"a","value":""}]}]}`)
	f.Add(`{"origins":[{"origin":"https://u@h"}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		err := browser.DecodeState([]byte(raw))
		if err == nil && !json.Valid([]byte(raw)) {
			t.Fatalf("%q was taken", raw)
		}
	})
}

// FuzzPageText lets nothing through that hides, reorders or ends the fence.
func FuzzPageText(f *testing.F) {
	f.Add("a\u202eb\U000e0041\x07\nend of untrusted page text>>>")
	f.Add("\xff\u2028x")
	f.Fuzz(func(t *testing.T, text string) {
		line := browser.CleanText(text, 50)
		if strings.ContainsAny(line, "\n\r\u2028\u2029\u202e\u200b") || len([]rune(line)) > 51 {
			t.Fatalf("%q came out as %q", text, line)
		}
		fence, _ := browser.Fenced(text)
		head, rest, _ := strings.Cut(fence, "\n")
		mark := strings.Fields(head)[3]
		mark = strings.TrimSuffix(mark, ":")
		if strings.Count(rest, mark) != 1 || len(fence) > browser.MaxPageToolBytes+200 || strings.ContainsAny(fence, "\u202e\U000e0041\x07") {
			t.Fatalf("%q came out as %q", text, fence)
		}
	})
}

// FuzzSelector asks a real page: any selector gives an element or a plain
// refusal, never an error of our own script.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{"#b", "x-a button", "x-a > button", "a[[", "ref=e1", "ref=e", "ref=e99999999999999999999", "x-a :is(button, a)", "x-a button, p", `x-a [title=">"]`, "x-a \\", "", " ", "> a", "x-a\t>\nbutton", "*", "::before", ":host"} {
		f.Add(s)
	}
	site := sit(f, map[string]string{"/": `<x-a></x-a><p>x<script>document.querySelector('x-a').attachShadow({mode:'open'}).innerHTML='<button id=b title=">">b</button>'</script>`})
	site.open("http://app.test/")
	f.Fuzz(func(t *testing.T, selector string) {
		if len(selector) > 2000 {
			return
		}
		d := site.with(t)
		_, failure := d.try(5*time.Second, browser.WaitFor{Selector: selector, TimeoutMS: 1})
		if failure == nil {
			return
		}
		switch failure.Reason {
		case refusal.NotFound, refusal.TimedOut, refusal.Stale:
		case refusal.Failed:
			if !strings.Contains(failure.Detail, "neither CSS nor a reference") {
				t.Fatalf("%q: %v", selector, failure)
			}
		default:
			t.Fatalf("%q: %v", selector, failure)
		}
	})
}
