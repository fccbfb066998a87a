package policy_test

import (
	"errors"
	"strings"
	"testing"

	"chaperone/internal/policy"
	"chaperone/internal/refusal"
)

// TestWrongFiles: each fault is refused with its place.
func TestWrongFiles(t *testing.T) {
	const head = `@id("a") permit (principal, action, resource)`
	for text, want := range map[string]string{
		``:                                      `1:1: no rule`,
		"// nothing\n":                          `1:1: no rule`,
		`permit (principal, action, resource);`: `1:1: a rule needs a name`,
		`@id permit (principal, action, resource);`:      `1:2: an @id is made of`,
		`@id("A") permit (principal, action, resource);`: `1:2: an @id is made of`,
		head + ";\n\n" + head + ";":                      `3:2: a: a rule of that @id stands above`,
		`@id("a") permt (principal, action, resource);`:  `1:10: not a policy: unexpected effect: permt`,
		`@id("a") permit (principal, action resource);`:  `1:36: not a policy: resource where , is wanted`,
		head:            `1:46: not a policy: it ends where ; is wanted`,
		head + `; more`: `1:48: not a policy`,
		`@id("a") @id("b") permit (principal, action, resource);`:                                                         `1:`,
		"@id(\"a\")\n  permit (principal, action == Action::\"fly\", resource);":                                          `2:40: a: no such action`,
		`@id("a") permit (principal, action == Action::"observe", resource) when { context.colour == 1 };`:                `1:83: a: unknown attribute of context; known: confirmation, time, tainted and arguments`,
		head + ` when { resource.route == 1 };`:                                                                           `1:1: a: the types Long and String are not compatible`,
		head + ` when { principal.person == Person::"x" };`:                                                               "1:64: a: attribute `person`",
		head + ` when { principal.name == "x" };`:                                                                         `1:64: a: unknown attribute of who asks`,
		head + ` when { principal has name };`:                                                                            `1:68: a: unknown attribute of who asks`,
		head + ` when { context.confirmation == Level::"pass" };`:                                                         `1:85: a: no such level`,
		head + ` when { context.confirmation == "passkey" };`:                                                             `1:1: a: the types`,
		`@id("a") permit (principal is Robot, action, resource);`:                                                         "1:31: a: unrecognized entity type `Robot`",
		head + ` when { principal is Robot };`:                                                                            `1:67: a: unknown type`,
		head + ` when { principal == Robot::"x" };`:                                                                       `1:74: a: unknown type`,
		`@id("a") permit (principal == Tool::"item_read", action, resource);`:                                             `1:1: a: unable to find an applicable action`,
		`@id("a") permit (principal, action == Action::"launch", resource is Tool);`:                                      `1:1: a: unable to find an applicable action`,
		`@id("a") @require_confirmations("passkey") permit (principal, action, resource);`:                                `1:11: a: unknown annotation @require_confirmations`,
		`@id("a") @require_confirmation("none") permit (principal, action == Action::"launch", resource);`:                `1:32: a: @require_confirmation takes`,
		`@id("a") @require_confirmation permit (principal, action == Action::"launch", resource);`:                        `a: @require_confirmation takes`,
		`@id("a") @require_confirmation("passkey") permit (principal, action, resource);`:                                 `1:11: a: observe is never confirmed`,
		`@id("a") @require_confirmation("passkey") forbid (principal, action == Action::"launch", resource);`:             `1:11: a: a forbid takes no`,
		`@id("a") @arguments("amount") permit (principal, action, resource);`:                                             `1:11: a: @arguments: amount: its type is one of`,
		`@id("a") @arguments("a: Long, a: Bool") permit (principal, action, resource);`:                                   `1:11: a: @arguments: a stands twice`,
		`@id("a") @arguments("") permit (principal, action, resource);`:                                                   `1:11: a: @arguments: want`,
		`@id("a") @arguments("a-b: Long") permit (principal, action, resource);`:                                          `1:11: a: @arguments: want`,
		`@id("a") @arguments("amount: Long") permit (principal, action, resource == Tool::"item_delete");`:                `1:11: a: @arguments: item_delete has no amount`,
		`@id("a") @arguments("item: Long") permit (principal, action, resource == Tool::"item_delete");`:                  `1:11: a: @arguments: item of item_delete is a String`,
		`@id("a") @arguments("metadata: String") permit (principal, action, resource == Tool::"item_write");`:             `1:11: a: @arguments: metadata of item_write is of a type`,
		`@id("a") @arguments("amount: Long") permit (principal, action, resource) when { context.arguments.amount < 3 };`: `1:99: a: unable to guarantee safety`,
		head + ` when { context.arguments has amount && context.arguments.amount < 3 };`:                                  `1:76: a: an argument that this rule doesn't declare; write @arguments("amount: TYPE")`,
		head + ` when { false && context.foo };`:                                                                          `1:71: a: unknown attribute of context`,
		head + ` when { context.time > datetime("yesterday") };`:                                                          `1:78: a: error during extension`,
		head + ` when { 1 };`:                                                                     `1:1: a: unexpected type: expected Bool but saw Long`,
		head + ` when { "x };`:                                                                    `1:54: not a policy: literal not terminated`,
		head + ` when { 99999999999999999999 > 1};`:                                               `1:54: a number beyond 2^53-1`,
		head + ` when { 9007199254740992 > 1};`:                                                   `1:54: a number beyond 2^53-1`,
		`@id("a") permit (principal == ?principal, action, resource);`:                            `not a policy`,
		`@id("a") permit (principal, action, resource == Tool::"item_delte");`:                    `1:55: a: no own tool is called so`,
		`@id("a") permit (principal, action, resource == PageTool::"pay");`:                       `1:59: a: a page's tool is`,
		`@id("a") permit (principal, action, resource == PageTool::"https://shop.example/#pay");`: `a: a page's tool is`,
		`@id("a") permit (principal, action, resource in Origin::"https://shop.example/");`:       `1:57: a: an origin is`,
		`@id("a") permit (principal, action, resource in Origin::"https://Shop.example");`:        `1:57: a: an origin is`,
		`@id("a") permit (principal, action, resource in Origin::"https://shop.example:443");`:    `1:57: a: an origin is`,
		`@id("a") permit (principal, action, resource in Origin::"http://shop.example");`:         `1:57: a: an origin is`,
		`@id("a") permit (principal, action, resource in Origin::"https://*.example");`:           `1:57: a: an origin is`,
		`@id("a") permit (principal in Role::"", action, resource);`:                              `a: a name is`,
		"/* x */ " + head + ";":                `1:1: comments begin with //`,
		"// \u202e\n" + head + ";":             `1:4: the invisible character U+202E`,
		head + " when { \"\u200b\" == \"\" };": `1:55: the invisible character U+200B`,
		head + ";\x00":                         `1:47: the invisible character U+0000`,
		head + ";\xff":                         `1:47: not UTF-8`,
		"\ufeff" + head + ";":                  `1:1: the invisible character U+FEFF`,
		head + " when { " + strings.Repeat("(", 40) + "true" + strings.Repeat(")", 40) + " };": `nested too deep`,
		head + " when { " + strings.Repeat("!", 400) + "true };":                               `nested too deep`,
		head + " when { " + strings.Repeat("true && ", 1000) + "true };":                       `over 2000 words`,
		strings.Repeat(" ", policy.MaxFile) + head + ";":                                       `over 262144 bytes`,
	} {
		_, err := policy.Parse("p.cedar", []byte(text))
		var e *policy.Error
		if !errors.As(err, &e) || refusal.Of(err) != refusal.BadDocument || !strings.HasPrefix(err.Error(), "p.cedar:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s\n got %v\nwant %s", text, err, want)
		}
	}
}

// The version is that of what decides: layout, comments and order don't, names,
// annotations and conditions do.
func TestVersion(t *testing.T) {
	const one, two = `@id("a") permit (principal, action, resource);`, `@id("b") forbid (principal, action == Action::"launch", resource);`
	version := func(text string) string { return parse(t, text).Version() }
	want := version(one + two)
	for _, same := range []string{two + one, "// a comment\n" + one + "\n\n" + two, strings.ReplaceAll(one+two, " ", "  ")} {
		if got := version(same); got != want {
			t.Errorf("%s\nis %s, want %s", same, got, want)
		}
	}
	seen := map[string]string{want: one + two}
	for _, other := range []string{one, two, strings.Replace(one, `"a"`, `"c"`, 1) + two, strings.Replace(one, "permit", "forbid", 1) + two,
		one + strings.Replace(two, "launch", "observe", 1), one + `@require_confirmation("passkey")` + strings.Replace(two, "forbid", "permit", 1),
		`@why("x")` + one + two} {
		v := version(other)
		if seen[v] != "" {
			t.Errorf("%s\nand %s\nare both %s", other, seen[v], v)
		}
		seen[v] = other
	}
}
