package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
)

func TestSteps(t *testing.T) {
	long := int64(ownedv1.DefaultInputTimeoutMS)
	for arg, want := range map[string]ownedv1.Action{
		"goto=https://a.example/?q=1&r=2": ownedv1.Goto{URL: "https://a.example/?q=1&r=2"},
		"click=a[href='x=y']":             ownedv1.Click{Selector: "a[href='x=y']", TimeoutMS: long},
		"click=ref=e12":                   ownedv1.Click{Selector: "ref=e12", TimeoutMS: long},
		"type=#q=tea":                     ownedv1.Type{Selector: "#q", Text: "tea", TimeoutMS: long},
		"type=#q=":                        ownedv1.Type{Selector: "#q", TimeoutMS: long},
		"type=#q=a=b":                     ownedv1.Type{Selector: "#q", Text: "a=b", TimeoutMS: long},
		"type=input[name=q]=tea":          ownedv1.Type{Selector: "input[name=q]", Text: "tea", TimeoutMS: long},
		"type=input[name=\"]=\"]=tea":     ownedv1.Type{Selector: "input[name=\"]=\"]", Text: "tea", TimeoutMS: long},
		"type=:is(a[b=c],d)=tea":          ownedv1.Type{Selector: ":is(a[b=c],d)", Text: "tea", TimeoutMS: long},
		`type=#a\=b=tea`:                  ownedv1.Type{Selector: `#a\=b`, Text: "tea", TimeoutMS: long},
		"type=ref=e7=tea":                 ownedv1.Type{Selector: "ref=e7", Text: "tea", TimeoutMS: long},
		"scroll=0,-200":                   ownedv1.Scroll{DY: -200},
		"js=1==1":                         ownedv1.EvalJS{Expression: "1==1"},
		"screenshot":                      ownedv1.Screenshot{},
		"screenshot=a.png":                ownedv1.Screenshot{},
		"pdf=a.pdf":                       ownedv1.PDF{},
		"source":                          ownedv1.PageSource{},
		"console":                         ownedv1.ConsoleLogs{},
		"tabs":                            ownedv1.ListTabs{},
		"tab=popup-1":                     ownedv1.SwitchTab{TabID: "popup-1"},
		"wait=#done":                      browser.WaitFor{Selector: "#done"},
		"snapshot":                        browser.Snapshot{},
	} {
		got, err := parseStep(arg)
		if err != nil {
			t.Errorf("%s: %v", arg, err)
		} else if diff := cmp.Diff(want, got.action); diff != "" {
			t.Errorf("%s (-want +got)\n%s", arg, diff)
		}
	}
}

func TestWrongSteps(t *testing.T) {
	for _, arg := range []string{
		"", "fly", "goto", "goto=", "click=", "type=#q", "type==x", "type=input[name=q", "scroll=1", "scroll=1,x", "scroll=1.5,2",
		"source=x", "tabs=", "tab=", "wait", "screenshot=", "screenshot=a.jpg", "screenshot=../a.png", "screenshot=/a.png",
		"screenshot=.a.png", "screenshot=a\\b.png", "pdf=a.png",
	} {
		if got, err := parseStep(arg); err == nil {
			t.Errorf("%s: got %v, want an error", arg, got)
		}
	}
}

func TestStepsFile(t *testing.T) {
	good := `[{"action":"goto","params":{"url":"https://a.example/"}},{"action":"list_tabs"}]`
	steps, err := parseStepsFile([]byte(good))
	if err != nil || len(steps) != 2 {
		t.Fatalf("got %v, %v", steps, err)
	}
	for data, want := range map[string]string{
		"":                           "line 1",
		"[]":                         "no steps",
		`[{"action":"fly"}]`:         "step 1",
		`[{"action":"goto"}]`:        `parameter "url"`,
		"[\n{\"action\":\"goto\",}]": "line 2",
		`[{"action":"tabs","x":1}]`:  "unknown",
		`[{"action":"goto","params":{"url":"a"}},{"action":"click","params":{"selector":1}}]`: "step 2",
	} {
		if _, err := parseStepsFile([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", data, err, want)
		}
	}
}

func FuzzSplitSelector(f *testing.F) {
	for _, s := range []string{"#q=tea", "a[b='=']=c", "ref=e1=x", `a\==b`, "a(=", "']=='=", "x]=y"} {
		f.Add(s, "other=text")
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		selector, text, ok := splitSelector(s)
		if !ok {
			if !strings.Contains(s, "=") || strings.ContainsAny(s, "[('\"\\") || strings.HasPrefix(s, "ref=") {
				return
			}
			t.Fatalf("%q has a plain = and wasn't cut", s)
		}
		if selector+"="+text != s {
			t.Fatalf("%q was cut into %q and %q", s, selector, text)
		}
		// What follows the selector never changes where it ends.
		again, rest, ok := splitSelector(selector + "=" + other)
		if !ok || again != selector || rest != other {
			t.Fatalf("%q ends elsewhere before %q: %q", selector, other, again)
		}
	})
}
