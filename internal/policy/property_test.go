package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"chaperone/internal/policy"
)

// conditions that a rule may have, some of them failing or never true.
var conditions = []string{
	"", "when { context.tainted }", "unless { context.tainted }", `when { context.confirmation == Level::"passkey" }`,
	`unless { context.confirmation == Level::"visible_click" }`, "when { principal is Agent }", `when { principal in Role::"staff" }`,
	`when { context.time < datetime("2026-12-01T12:00:00Z") }`, `when { context.arguments has n && context.arguments.n > 3 }`,
	`unless { context.arguments has n && context.arguments.n * 9007199254740991 > 3 }`, `when { context.arguments has n && context.arguments.n == 5 }`,
}

// drawRule draws one rule of a name. Permits may ask for a confirmation where
// that is taken.
func drawRule(t *rapid.T, id string, effect string) string {
	var notes []string
	action := rapid.SampledFrom([]string{"action", `action == Action::"observe"`, `action in Action::"mutate"`, `action == Action::"account-mutation"`}).Draw(t, "action")
	if effect == "permit" && strings.Contains(action, "mut") && rapid.Bool().Draw(t, "confirm") {
		notes = append(notes, fmt.Sprintf("@require_confirmation(%q)", rapid.SampledFrom([]string{"visible_click", "passkey"}).Draw(t, "level")))
	}
	principal := rapid.SampledFrom([]string{"principal", "principal is Agent", `principal in Person::"ana"`, `principal == Person::"ana"`, `principal in Role::"staff"`}).Draw(t, "principal")
	resource := rapid.SampledFrom([]string{"resource", "resource is Tool", "resource is PageTool", `resource == PageTool::"https://shop.example#pay"`, `resource in Origin::"https://portal.example"`}).Draw(t, "resource")
	condition := rapid.SampledFrom(conditions).Draw(t, "condition")
	if strings.Contains(condition, "arguments") {
		notes = append(notes, `@arguments("n: Long")`)
	}
	return fmt.Sprintf("@id(%q) %s %s (%s, %s, %s) %s;\n", id, strings.Join(notes, " "), effect, principal, action, resource, condition)
}

func drawSet(t *rapid.T) string {
	var text strings.Builder
	for i := range rapid.IntRange(1, 6).Draw(t, "rules") {
		effect := rapid.SampledFrom([]string{"permit", "permit", "forbid"}).Draw(t, "effect")
		text.WriteString(drawRule(t, fmt.Sprintf("r%d", i), effect))
	}
	return text.String()
}

func drawRequest(tb testing.TB, t *rapid.T) policy.Request {
	r := policy.Request{
		Who:     who(tb, rapid.SampledFrom([]string{"", "planner"}).Draw(t, "agent"), rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"staff", "night"}), 0, 2, rapid.ID).Draw(t, "roles")...),
		Action:  rapid.SampledFrom([]policy.Action{policy.Observe, policy.LocalUIMutation, policy.AccountMutation}).Draw(t, "what"),
		Tainted: rapid.Bool().Draw(t, "tainted"), At: noon,
	}
	r.Resource = rapid.SampledFrom([]policy.Resource{own(tb, "item_write"), page(tb, "pay"), page(tb, "item_write")}).Draw(t, "of")
	if n := rapid.SampledFrom([]string{"", `{}`, `{"n":1}`, `{"n":5}`, `{"n":9007199254740991}`, `{"n":"5"}`, `{"m":[]}`}).Draw(t, "arguments"); n != "" {
		r.Arguments = []byte(n)
	}
	return r
}

// strength orders decisions: none, visible_click, passkey, refused.
func strength(d policy.Decision) int {
	if !d.Allow {
		return 3
	}
	return slices.Index([]policy.Level{policy.None, policy.VisibleClick, policy.Passkey}, d.Level)
}

// TestProperties: a forbid wins and only ever makes an answer stricter; without a
// permit all is refused; the order of rules decides nothing; a permit never refuses
// what was allowed, unless it fails; a read is never confirmed and a mutation always
// is; what isn't known of the arguments is never told as known.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text, request := drawSet(r), drawRequest(t, r)
		set := parse(t, text)
		d := set.Decide(request)
		if d.Allow && (request.Action == policy.Observe) != (d.Level == policy.None) {
			r.Fatalf("%s of %s is allowed at level %s", request.Action, request.Resource, d.Level)
		}
		if d.Allow == (d.Code != "") || !d.Allow && d.Level != policy.None || d.PolicyVersion != set.Version() {
			r.Fatalf("%+v", d)
		}
		if d.Allow {
			for _, rule := range set.Rules() {
				if slices.Contains(d.Rules, rule.ID) && (!rule.Permit || rule.Level != "" && !d.Level.AtLeast(rule.Level)) {
					r.Fatalf("%s allowed at %s", rule.ID, d.Level)
				}
			}
			if len(d.Rules) == 0 {
				r.Fatal("allowed by no rule")
			}
		}
		more := parse(t, text+drawRule(r, "x", "forbid")).Decide(request)
		if strength(more) < strength(d) {
			r.Fatalf("a forbid more: %+v, before %+v\n%s", more, d, text)
		}
		if all := parse(t, text+`@id("all") forbid (principal, action, resource);`).Decide(request); all.Allow {
			r.Fatal("a forbid of everything lost")
		}
		if wider := parse(t, text+drawRule(r, "y", "permit")).Decide(request); d.Allow && !wider.Allow && wider.Code == "policy_denied" {
			r.Fatalf("a permit more denies: %+v, before %+v", wider, d)
		}
		rules := strings.SplitAfter(strings.TrimSpace(text), "\n")
		slices.Reverse(rules)
		other := parse(t, strings.Join(rules, "\n"))
		if again := other.Decide(request); strength(again) != strength(d) || other.Version() != set.Version() {
			r.Fatalf("in another order: %+v, before %+v", again, d)
		}
		if o := set.Possible(request); !o.Depends && d.Code != "policy_unavailable" && o.Code != "policy_unavailable" && strength(o.Decision) != strength(d) {
			r.Fatalf("foreseen %+v, is %+v\n%s", o, d, text)
		}
		only := strings.ReplaceAll(text, " permit ", " forbid ")
		if !strings.Contains(only, "require_confirmation") && parse(t, only).Decide(request).Allow {
			r.Fatal("allowed without a permit")
		}
	})
}

// FuzzParse: no text panics or hangs the border; what is taken is printed by the
// library and read again as the same policies; and it decides.
func FuzzParse(f *testing.F) {
	f.Add(string(policy.DefaultText()))
	f.Add(tainted + amount)
	f.Add(`@id("a") @why("b") permit (principal is Agent in Person::"ana", action in [Action::"observe"], resource) unless { [1, -2].contains(3) || !context.tainted };`)
	f.Add(`@id("a") forbid (principal, action, resource) when { if true then {"a": 1}.a == 1 else principal like "*\*" };`)
	f.Add("@id(\"a\") permit (principal, action, resource) when { \"\\u{202e}\" == \"\\n\" };")
	request := policy.Request{Who: who(f, "planner", "staff"), Action: policy.AccountMutation, Resource: page(f, "pay"), Arguments: []byte(`{"amount":1}`), At: noon}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := policy.Parse("p", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "p") {
				t.Errorf("no place: %v", err)
			}
			return
		}
		set.Lint()
		set.Possible(request)
		if d := set.Decide(request); d.PolicyVersion == "" || d.Allow != (d.Err() == nil) {
			t.Errorf("%+v", d)
		}
		again, err := policy.Parse("p", set.Text())
		if err != nil || again.Version() != set.Version() {
			t.Errorf("printed as\n%s\nand that is %v", set.Text(), err)
		}
	})
}

// FuzzCases: no text panics the border of cases.
func FuzzCases(f *testing.F) {
	f.Add("cases:\n  - {person: ana, action: observe, tool: item_read, expect: allow}\n")
	f.Add("cases:\n  - person: ana\n    arguments: {a: [1, x], b: {c: null}}\n    <<: *x\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := policy.ParseCases("c", []byte(text))
		if err != nil {
			return
		}
		for _, c := range all {
			c.Run(policy.Default())
		}
	})
}
