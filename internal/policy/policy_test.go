package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/identity"
	"chaperone/internal/leaktest"
	"chaperone/internal/policy"
	"chaperone/internal/refusal"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	ours = "https://portal.example"
	shop = "https://shop.example"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// who is ana, or planner who acts for her.
func who(t testing.TB, agent string, roles ...string) identity.Principal {
	t.Helper()
	return must[identity.Principal](t)(identity.New(identity.Claims{Tenant: "local", Actor: "ana", Agent: agent, Roles: roles}))
}

func own(t testing.TB, tool string) policy.Resource {
	t.Helper()
	return must[policy.Resource](t)(policy.OwnTool(tool, ours, "shell"))
}

func page(t testing.TB, tool string) policy.Resource {
	t.Helper()
	return must[policy.Resource](t)(policy.PageTool(tool, shop, "cart"))
}

func engagement(t testing.TB, name string) policy.Resource {
	t.Helper()
	return must[policy.Resource](t)(policy.Engagement(name))
}

func parse(t testing.TB, text string) *policy.Set {
	t.Helper()
	return must[*policy.Set](t)(policy.Parse("p.cedar", []byte(text)))
}

// told is a decision in one line.
func told(d policy.Decision) string {
	word := string(d.Code)
	if d.Allow {
		word = string(d.Level)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s", word, strings.Join(d.Rules, " ")))
}

// TestDefault is the last lines of spec/attended-control.md, section 7: reads
// allowed; own portal writes need visible_click; item_delete and every mutation of
// a page that isn't ours need passkey; all else denied.
func TestDefault(t *testing.T) {
	s := policy.Default()
	for _, c := range []struct {
		action   policy.Action
		resource policy.Resource
		want     string
	}{
		{policy.Observe, own(t, "item_read"), "none reads"},
		{policy.Observe, own(t, "item_delete"), "none reads"},
		{policy.Observe, page(t, "prices"), "none reads"},
		{policy.AccountMutation, own(t, "item_write"), "visible_click own-writes"},
		{policy.LocalUIMutation, own(t, "item_write"), "visible_click own-writes"},
		{policy.AccountMutation, own(t, "item_delete"), "passkey own-writes own-deletes"},
		{policy.LocalUIMutation, own(t, "item_delete"), "passkey own-writes own-deletes"},
		{policy.AccountMutation, page(t, "pay"), "passkey other-pages"},
		{policy.LocalUIMutation, page(t, "sort"), "passkey other-pages"},
		{policy.AccountMutation, page(t, "item_write"), "passkey other-pages"},
		{policy.Launch, engagement(t, "acme"), "policy_denied"},
		{"fly", own(t, "item_write"), "policy_denied"},
		{"mutate", own(t, "item_write"), "policy_denied"},
		{policy.Launch, own(t, "item_write"), "policy_denied"},
		{policy.Observe, engagement(t, "acme"), "policy_denied"},
		{policy.Observe, policy.Resource{}, "policy_denied"},
	} {
		for _, agent := range []string{"", "planner"} {
			for _, tainted := range []bool{false, true} {
				d := s.Decide(policy.Request{Who: who(t, agent), Action: c.action, Resource: c.resource, Tainted: tainted})
				if diff := cmp.Diff(c.want, told(d)); diff != "" {
					t.Errorf("%s %s by %q (-want +got):\n%s", c.action, c.resource, agent, diff)
				}
				if d.PolicyVersion != s.Version() {
					t.Errorf("version %s", d.PolicyVersion)
				}
				if (d.Err() == nil) != d.Allow {
					t.Errorf("Err is %v, Allow %v", d.Err(), d.Allow)
				}
			}
		}
	}
	if d := s.Decide(policy.Request{Action: policy.Observe, Resource: own(t, "item_read")}); told(d) != "policy_denied" {
		t.Errorf("nobody: %s", told(d))
	}
}

// What can't be judged is refused, and there is no switch for it.
func TestUnavailable(t *testing.T) {
	r := policy.Request{Who: who(t, ""), Action: policy.Observe, Resource: own(t, "item_read")}
	var none *policy.Set
	for name, d := range map[string]policy.Decision{
		"no set": none.Decide(r), "an empty set": new(policy.Set).Decide(r), "nothing": {},
	} {
		if d.Allow || refusal.Of(d.Err()) != refusal.PolicyUnavailable {
			t.Errorf("%s: %+v", name, d)
		}
	}
	// A forbid that fails must not be one that isn't there.
	s := parse(t, `@id("all") permit (principal, action, resource);
		@id("sum") @arguments("a: Long") forbid (principal, action == Action::"observe", resource)
			when { context.arguments has a && context.arguments.a * 9007199254740991 > 3 };`)
	for args, want := range map[string]string{
		``: "none all", `{}`: "none all", `{"a":0}`: "none all", `{"a":1}`: "policy_denied sum", `{"a":4503599627370496}`: "policy_unavailable sum",
		`{"a":"1"}`: "policy_unavailable sum", `{"a":null}`: "policy_unavailable sum", `{"a":{}}`: "policy_unavailable sum", `{"a":[1]}`: "policy_unavailable sum",
		`{"b":{}}`: "none all", `[]`: "policy_unavailable", `{"a":1,"a":0}`: "policy_unavailable", `{"a":1.0}`: "policy_unavailable", `x`: "policy_unavailable",
		`{"A":1}`: "none all",
	} {
		r.Arguments = nil
		if args != "" {
			r.Arguments = []byte(args)
		}
		if got := told(s.Decide(r)); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// TestRules walks what a rule can look at.
func TestRules(t *testing.T) {
	const permit = `@id("all") permit (principal, action, resource);` + "\n"
	base := policy.Request{Who: who(t, "planner", "staff", "night"), Action: policy.AccountMutation, Resource: own(t, "item_write"), At: noon}
	change := func(f func(*policy.Request)) policy.Request { r := base; f(&r); return r }
	same := change(func(*policy.Request) {})
	for name, c := range map[string]struct {
		text    string
		request policy.Request
		want    string
	}{
		"a mutation without annotation": {permit, same, "visible_click all"},
		"a launch without annotation":   {permit, change(func(r *policy.Request) { r.Action, r.Resource = policy.Launch, engagement(t, "acme") }), "none all"},
		"forbid wins":                   {permit + `@id("f") forbid (principal, action, resource);`, same, "policy_denied f"},
		"an agent is its person":        {`@id("p") permit (principal in Person::"ana", action, resource);`, same, "visible_click p"},
		"an agent has her roles":        {`@id("p") permit (principal in Role::"staff", action, resource);`, same, "visible_click p"},
		"and no others":                 {`@id("p") permit (principal in Role::"admin", action, resource);`, same, "policy_denied"},
		"== Person isn't the agent":     {`@id("p") permit (principal == Person::"ana", action, resource);`, same, "policy_denied"},
		"the agent by name":             {permit + `@id("f") forbid (principal == Agent::"planner", action, resource);`, same, "policy_denied f"},
		"people alone":                  {`@id("p") permit (principal is Person, action, resource);`, same, "policy_denied"},
		"agent for whom":                {`@id("p") permit (principal is Agent, action, resource) when { principal.person == Person::"ana" };`, same, "visible_click p"},
		"tenant":                        {`@id("p") permit (principal, action, resource) when { principal.tenant == "other" };`, same, "policy_denied"},
		"origin":                        {`@id("p") permit (principal, action, resource in Origin::"https://portal.example");`, same, "visible_click p"},
		"another origin":                {`@id("p") permit (principal, action, resource in Origin::"https://shop.example");`, same, "policy_denied"},
		"route":                         {`@id("p") permit (principal, action != Action::"x", resource);`, same, "error"},
		"route of a tool":               {`@id("p") permit (principal, action in Action::"mutate", resource) when { resource.route == "shell" };`, same, "visible_click p"},
		"a page's tool of that name": {`@id("p") permit (principal, action, resource == Tool::"item_write");`,
			change(func(r *policy.Request) { r.Resource = page(t, "item_write") }), "policy_denied"},
		"a page's tool": {`@id("p") permit (principal, action, resource == PageTool::"https://shop.example#pay");`,
			change(func(r *policy.Request) { r.Resource = page(t, "pay") }), "visible_click p"},
		"before":                {permit + `@id("f") forbid (principal, action, resource) when { context.time > datetime("2026-12-01T12:00:00Z") };`, same, "visible_click all"},
		"after":                 {permit + `@id("f") forbid (principal, action, resource) when { context.time >= datetime("2026-12-01T12:00:00Z") };`, same, "policy_denied f"},
		"not tainted":           {permit + tainted, same, "visible_click all"},
		"tainted":               {permit + tainted, change(func(r *policy.Request) { r.Tainted = true }), "passkey all"},
		"a tainted read":        {permit + tainted, change(func(r *policy.Request) { r.Tainted, r.Action = true, policy.Observe }), "none all"},
		"strictest permit":      {permit + `@id("k") @require_confirmation("passkey") permit (principal, action in Action::"mutate", resource);`, same, "passkey all k"},
		"permit with a passkey": {`@id("k") permit (principal, action, resource) when { context.confirmation == Level::"passkey" };`, same, "passkey k"},
		"a read with a passkey": {`@id("k") permit (principal, action, resource) when { context.confirmation == Level::"passkey" };`,
			change(func(r *policy.Request) { r.Action = policy.Observe }), "policy_denied"},
		// Stronger never loses what weaker has: such a rule allows nothing.
		"weaker only":           {permit + `@id("f") forbid (principal, action, resource) when { context.confirmation == Level::"passkey" };`, same, "policy_denied f"},
		"argument":              {amount, change(func(r *policy.Request) { r.Resource, r.Arguments = page(t, "pay"), []byte(`{"amount":50}`) }), "visible_click small"},
		"too much":              {amount, change(func(r *policy.Request) { r.Resource, r.Arguments = page(t, "pay"), []byte(`{"amount":51}`) }), "policy_denied"},
		"no amount":             {amount, change(func(r *policy.Request) { r.Resource, r.Arguments = page(t, "pay"), []byte(`{}`) }), "policy_denied"},
		"another tool's amount": {amount, change(func(r *policy.Request) { r.Resource, r.Arguments = page(t, "show"), []byte(`{"amount":"x"}`) }), "policy_denied"},
		"a set": {`@id("s") @arguments("to: Set<String>") permit (principal, action, resource) when { context.arguments has to && ["a","b"].containsAll(context.arguments.to) };`,
			change(func(r *policy.Request) { r.Arguments = []byte(`{"to":["b","a","b"]}`) }), "visible_click s"},
		"a set of more": {`@id("s") @arguments("to: Set<String>") permit (principal, action, resource) when { context.arguments has to && ["a","b"].containsAll(context.arguments.to) };`,
			change(func(r *policy.Request) { r.Arguments = []byte(`{"to":["b","null"]}`) }), "policy_denied"},
	} {
		s, err := policy.Parse("p.cedar", []byte(c.text))
		got := "error"
		if err == nil {
			got = told(s.Decide(c.request))
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, c.want, err)
		}
	}
}

const (
	tainted = `@id("taint") forbid (principal, action in Action::"mutate", resource) when { context.tainted } unless { context.confirmation == Level::"passkey" };`
	amount  = `@id("small") @arguments("amount: Long") permit (principal, action == Action::"account-mutation", resource == PageTool::"https://shop.example#pay")
		when { context.arguments has amount && context.arguments.amount <= 50 };`
)
