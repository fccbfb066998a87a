package policy_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/docs"
	"chaperone/internal/policy"
)

func TestLint(t *testing.T) {
	const all = `@id("all") permit (principal, action, resource);` + "\n"
	for text, want := range map[string]string{
		string(policy.DefaultText()): "",
		all:                          "",
		all + `@id("b") permit (principal, action, resource) when { context.tainted };`:                                                                               "2:1 b adds nothing: all permits all of it already",
		all + `@id("b") permit (principal, action == Action::"observe", resource);`:                                                                                   "2:1 b adds nothing: all permits all of it already",
		all + `@id("b") @require_confirmation("passkey") permit (principal, action == Action::"launch", resource);`:                                                   "",
		all + `@id("b") forbid (principal, action, resource) when { false };`:                                                                                         "2:1 b can never match",
		all + `@id("b") forbid (principal, action, resource) unless { 1 < 2 };`:                                                                                       "2:1 b can never match",
		`@id("b") permit (principal, action == Action::"observe", resource) when { context.confirmation == Level::"passkey" };`:                                       "1:1 b can never match",
		`@id("b") @require_confirmation("passkey") permit (principal, action in Action::"mutate", resource) when { context.confirmation == Level::"visible_click" };`: "1:1 b can never match",
		`@id("b") forbid (principal, action in Action::"mutate", resource) when { context.confirmation == Level::"none" };`:                                           "1:1 b can never match",
		all + `@id("f") forbid (principal, action, resource in Origin::"https://shop.example");` + "\n" +
			`@id("p") permit (principal, action in Action::"mutate", resource is PageTool in Origin::"https://shop.example");`: "3:1 p can never allow anything: f forbids all of it",
		all + `@id("f") forbid (principal in Person::"ana", action, resource);` + "\n" +
			`@id("p") forbid (principal == Person::"ana", action == Action::"launch", resource) when { context.tainted };`: "3:1 p forbids the person and not an agent that acts for them; write principal in Person::\"ana\"; 3:1 p adds nothing: f forbids all of it already",
		all + `@id("x") forbid (principal, action, resource) when { context.tainted };` + "\n" +
			`@id("y") forbid (principal, action, resource) when { context.tainted };`: "3:1 y says what x says",
		`@id("x") permit (principal is Agent, action, resource);` + "\n" + `@id("y") permit (principal is Agent, action, resource);`: "2:1 y says what x says",
	} {
		var got []string
		for _, w := range parse(t, text).Lint() {
			got = append(got, fmt.Sprintf("%d:%d %s %s", w.Line, w.Column, w.Rule, w.Msg))
		}
		if diff := cmp.Diff(want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", text, diff)
		}
	}
}

func TestCases(t *testing.T) {
	const good = `cases:
  - name: an agent writes
    person: ana
    agent: planner
    action: account-mutation
    tool: item_write
    arguments: {collection: notes, item: a.txt, list: [1, 2]}
    expect: visible_click
    rules: [own-writes]
  - person: ana
    action: observe
    tool: item_read
    expect: allow
  - {person: ana, action: account-mutation, page: "https://shop.example", tool: pay, expect: passkey}
  - {person: ana, action: launch, engagement: acme, expect: deny, rules: []}
  - {person: ana, action: observe, tool: item_read, expect: deny}
`
	var got []string
	for _, c := range must[[]policy.Case](t)(policy.ParseCases("cases.yaml", []byte(good))) {
		d, met := c.Run(policy.Default())
		got = append(got, fmt.Sprintf("%d %s %v %s", c.Line, c.Name, met, told(d)))
	}
	want := []string{"2 an agent writes true visible_click own-writes", "10 case 2 true none reads", "14 case 3 true passkey other-pages",
		"15 case 4 true policy_denied", "16 case 5 false none reads"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"":                       "c.yaml:1:1: want `cases:`",
		"cases: 1":               "c.yaml:1:1: want a list",
		"cases: []":              "c.yaml:1:1: want a list",
		"rules: []\ncases: []":   "c.yaml:1:1: the file's one key is `cases`",
		"cases:\n  - prson: ana": "c.yaml:2:5: unknown field \"prson\"",
		"cases:\n  - person: ana\n    person: bo":                                                                                           "c.yaml:3:5: mapping key \"person\" already defined",
		"cases:\n  - person: [ana]":                                                                                                         "c.yaml:2:",
		"cases:\n  - {person: ana, action: observe, tool: item_read, expect: yes}":                                                          "expect is one of deny, unavailable, allow, visible_click and passkey",
		"cases:\n  - {person: ana, action: fly, tool: item_read, expect: deny}":                                                             "no such action",
		"cases:\n  - {person: ana, action: observe, tool: 'a b', expect: deny}":                                                             "no tool can have that id",
		"cases:\n  - {person: ana, action: observe, page: shop.example, tool: a, expect: deny}":                                             "no document can have that origin",
		"cases:\n  - {person: ana, action: launch, tool: item_read, expect: deny}":                                                          "the action isn't for that kind of resource",
		"cases:\n  - {action: observe, tool: item_read, expect: deny}":                                                                      "person, agent, roles or tenant: the claim actor isn't valid",
		"cases:\n  - {person: ana, action: observe, tool: item_read, time: noon, expect: deny}":                                             "time is a date and time",
		"cases:\n  - {person: ana, action: observe, tool: item_read, arguments: {a: 1.5}, expect: deny}":                                    "arguments: ",
		"cases:\n  - {person: ana, action: launch, engagement: a, tool: b, expect: deny}":                                                   "about an engagement or about a tool",
		"cases:\n  - {person: ana, action: observe, tool: item_read, page: 'https://a.example', origin: 'https://b.example', expect: deny}": "page is the origin",
		"cases: [":             "c.yaml:1:",
		"---\na: 1\n---\nb: 2": "a second document",
	} {
		_, err := policy.ParseCases("c.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "c.yaml:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestPossible: before the arguments are known, a lease is refused only where none
// would be allowed.
func TestPossible(t *testing.T) {
	const pay = `@id("small") @arguments("amount: Long") permit (principal, action in Action::"mutate", resource == PageTool::"https://shop.example#pay")
		when { context.arguments has amount && context.arguments.amount < 50 };` + "\n"
	for name, c := range map[string]struct{ text, tool, want string }{
		"settled":          {pay, "other", "policy_denied"},
		"depends":          {pay, "pay", "depends"},
		"forbidden anyway": {pay + `@id("f") forbid (principal, action, resource) unless { context.tainted };`, "pay", "policy_denied f"},
		"allowed anyway":   {pay + `@id("all") permit (principal, action, resource);`, "pay", "visible_click all"},
		"level depends": {`@id("all") permit (principal, action, resource); @id("big") @require_confirmation("passkey") @arguments("amount: Long")
			permit (principal, action in Action::"mutate", resource) when { context.arguments has amount && context.arguments.amount > 50 };`, "pay", "depends"},
		"strictest anyway": {`@id("k") @require_confirmation("passkey") permit (principal, action in Action::"mutate", resource); @id("any") @arguments("amount: Long")
			permit (principal, action in Action::"mutate", resource) when { context.arguments has amount && context.arguments.amount > 50 };`, "pay", "passkey k"},
		"may be forbidden": {`@id("all") permit (principal, action, resource); @id("f") @arguments("to: String")
			forbid (principal, action, resource) when { context.arguments has to && context.arguments.to != "me" };`, "pay", "depends"},
	} {
		o := parse(t, c.text).Possible(policy.Request{Who: who(t, ""), Action: policy.AccountMutation, Resource: page(t, c.tool)})
		got := told(o.Decision)
		if o.Depends {
			got = "depends"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	var none *policy.Set
	if o := none.Possible(policy.Request{}); o.Depends || told(o.Decision) != "policy_unavailable" {
		t.Errorf("no set: %+v", o)
	}
}

// Every example of docs/policy.md means what the page says, and the default that it
// shows is the one that decides.
func TestDocumentedExamples(t *testing.T) {
	text := string(must[[]byte](t)(docs.Pages.ReadFile("policy.md")))
	var set *policy.Set
	var failure error
	counts := map[string]int{}
	var kinds []string
	blocks := strings.Split(text, "```")
	for i := 1; i < len(blocks); i += 2 {
		kind, body, _ := strings.Cut(blocks[i], "\n")
		counts[kind]++
		kinds = append(kinds, kind)
		switch kind {
		case "cedar", "cedar wrong", "cedar default":
			set, failure = policy.Parse("policy.cedar", []byte(body))
			if kind != "cedar wrong" && failure != nil {
				t.Fatalf("%v\n%s", failure, body)
			}
			if kind == "cedar default" && body != string(policy.DefaultText()) {
				t.Error("the default on the page isn't the one that decides")
			}
			if kind == "cedar" {
				for _, w := range set.Lint() {
					t.Errorf("%s: %s\n%s", w.Rule, w.Msg, body)
				}
			}
		case "warning":
			got := ""
			for _, w := range set.Lint() {
				got += fmt.Sprintf("policy.cedar:%d:%d: %s: %s\n", w.Line, w.Column, w.Rule, w.Msg)
			}
			if got != body {
				t.Errorf("warnings %s, the page says %s", got, body)
			}
		case "error":
			if failure == nil || failure.Error() != strings.TrimSpace(body) {
				t.Errorf("got %v, the page says %s", failure, body)
			}
		case "yaml":
			for _, c := range must[[]policy.Case](t)(policy.ParseCases("cases.yaml", []byte(body))) {
				if d, met := c.Run(set); !met {
					t.Errorf("%s is %s", c.Name, told(d))
				}
			}
		case "schema":
			if body != policy.SchemaText() {
				t.Error("the schema on the page isn't the one that policies are held to")
			}
		}
	}
	if counts["cedar"] < 3 || counts["error"] < 3 || counts["yaml"] < 4 || counts["cedar default"] != 1 || counts["schema"] != 1 {
		t.Errorf("%v", counts)
	}
	if !slices.Contains(kinds, "warning") {
		t.Error("no warning")
	}
}

// The page of states has a row for each move, and no other.
func TestStatesOnPage(t *testing.T) {
	page := string(must[[]byte](t)(os.ReadFile("../../docs/policy.md")))
	for _, row := range []string{"| allowed | absent | allowed |", "| denied | absent | denied |", "| used | allowed | used |", "| dropped | allowed | dropped |", "| expired | allowed | expired |"} {
		if !strings.Contains(page, row) {
			t.Errorf("docs/policy.md lacks %s", row)
		}
	}
}
