package browser_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
	"chaperone/internal/sitetest"
)

func TestEvalConverts(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Eval</title><a id=x class="a b" href="/y">text</a>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	for _, test := range []struct{ expression, want string }{
		{`1+1`, `2`},
		{`"a<b>&"`, `"a<b>&"`},
		{`'\ud800x'`, `"` + "\uFFFD" + `x"`},
		{`({s: '\ud800'})`, `{"s":"` + "\uFFFD" + `"}`},
		{`null`, `null`},
		{`undefined`, `null`},
		{`NaN`, `null`},
		{`-Infinity`, `null`},
		{`-0`, `0`},
		{`1e21`, `1e+21`},
		{`Symbol('x')`, `null`},
		{`10n ** 20n`, `"100000000000000000000"`},
		{`() => 7`, `7`},
		{`async () => [1]`, `[1]`},
		{`function f() { return () => 1 }`, `null`},
		{`Promise.resolve({a: 1})`, `{"a":1}`},
		{`await Promise.resolve(3)`, `3`},
		{`{a: 1, b: [undefined, () => 1, Symbol(), NaN]}`, `{"a":1,"b":[null,null,null,null]}`},
		{`let q = 1; q + 1`, `2`},
		{`let q = 2; q + 1`, `3`},
		{`new Date(0)`, `"1970-01-01T00:00:00.000Z"`},
		{`new Date(NaN)`, `null`},
		{`new Map([['a', 1], ['b', {c: 2n}]])`, `[["a",1],["b",{"c":"2"}]]`},
		{`new Set([1, 'x'])`, `[1,"x"]`},
		{`new Uint8Array([1, 255])`, `[1,255]`},
		{`new Float64Array([0.5, NaN])`, `[0.5,null]`},
		{`new BigInt64Array([1n])`, `["1"]`},
		{`new Uint8Array([1, 2]).buffer`, `[1,2]`},
		{`document.querySelector('a')`, `"<a id=\"x\" class=\"a b\" href=\"/y\">"`},
		{`document.querySelectorAll('a')`, `["<a id=\"x\" class=\"a b\" href=\"/y\">"]`},
		{`document`, `"#document"`},
		{`window`, `"[object Window]"`},
		{`new URL('http://x.test/y')`, `"http://x.test/y"`},
		{`new Error('no')`, `"Error: no"`},
		{`/x/g`, `"/x/g"`},
		{`Object.create(null)`, `{}`},
		{`[new String('s'), new Number(1), new Boolean(false)]`, `["s",1,false]`},
		{`const one = {}; [one, one]`, `[{},{}]`},
		{`[,1]`, `[null,1]`},
		{`({['__proto__']: 1})`, `{"__proto__":1}`},
	} {
		if got := eval(t, run, test.expression); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.expression, got, test.want)
		}
	}
}

func TestEvalFails(t *testing.T) {
	run := shared(t)
	for _, test := range []struct {
		expression string
		reason     refusal.Code
		detail     string
	}{
		{`(() => { const a = {}; a.a = a; return a })()`, refusal.Failed, "refers to itself"},
		{`let d = 1; for (let i = 0; i < 300; i++) d = [d]; d`, refusal.TooDeep, "nested"},
		{`'x'.repeat(9e6)`, refusal.TooLarge, "limit"},
		{`['x'.repeat(9e6)]`, refusal.TooLarge, "limit"},
		{`'x'.repeat(2.6e7)`, refusal.TooLarge, ""},
		{`new Array(5e6).fill(1)`, refusal.TooLarge, "limit"},
		{`throw new TypeError('secret')`, refusal.Failed, "TypeError"},
		{`throw 'secret'`, refusal.Failed, "a value"},
		{`class secret extends Error {}; throw new secret()`, refusal.Failed, "a value"},
		{`Promise.reject(new RangeError('secret'))`, refusal.Failed, "RangeError"},
		{`({get secret() { throw new Error('secret') }})`, refusal.Failed, "Error"},
		{`1 +`, refusal.Failed, "SyntaxError"},
	} {
		f := fails(t, run, ownedv1.EvalJS{Expression: test.expression})
		if f.Code != refusal.BrowserActionFailed || f.Reason != test.reason || !strings.Contains(f.Detail, test.detail) {
			t.Errorf("%s: got %v, want %s with %q", test.expression, f, test.reason, test.detail)
		}
		if strings.Contains(f.Error(), "secret") {
			t.Errorf("%s: the page's text got out: %v", test.expression, f)
		}
	}
	if got := eval(t, run, `1`); got != `1` {
		t.Errorf("afterwards: %s", got)
	}
}

// Deadlines and hangs: `while(true){}` poisons the browser for ever.
func TestCaseEndlessScriptEndsAtTheDeadline(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Loop</title>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	for _, loop := range []string{
		`while (true) {}`,
		`(() => { while (true) { try { while (true) {} } catch (e) {} } })()`,
		`() => { while (true) {} }`,
		`({ get a() { while (true) {} } })`,
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		start := time.Now()
		_, err := run.Do(ctx, ownedv1.EvalJS{Expression: loop})
		cancel()
		if refusal.Of(err) != refusal.BrowserTimeout {
			t.Errorf("%s: got %v", loop, err)
		}
		within(t, start, 200*time.Millisecond, 3*time.Second)
		start = time.Now()
		if got := eval(t, run, `1+1`); got != `2` {
			t.Errorf("%s: afterwards %s", loop, got)
		}
		within(t, start, 0, 2*time.Second)
		if got := eval(t, run, `document.title`); got != `"Loop"` {
			t.Errorf("%s: the page is %s", loop, got) // it was stopped without harm to its page
		}
	}
}

// Exactly once: a cancelled call keeps running. The counter stands still after
// the answer, whatever the loop waits for.
func TestCaseCancelStopsTheLoop(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Loop</title>`)
	var count atomic.Int64
	site.Handle("/count", func(http.ResponseWriter, *http.Request) { count.Add(1) })
	for _, loop := range []string{
		`for (;;) { const r = new XMLHttpRequest(); r.open('POST', '/count', false); r.send() }`,
		`(async () => { for (;;) await fetch('/count', {method: 'POST'}) })()`,
		`(async () => { for (;;) { await fetch('/count', {method: 'POST'}); await new Promise(r => setTimeout(r, 30)) } })()`,
		`new Promise(() => setInterval(() => fetch('/count'), 20))`,
	} {
		run := shared(t)
		visit(t, run, site.URL("/"))
		ctx, cancel := context.WithCancel(context.Background())
		before := count.Load()
		done := make(chan error)
		go func() {
			_, err := run.Do(ctx, ownedv1.EvalJS{Expression: loop})
			done <- err
		}()
		for end := time.Now().Add(10 * time.Second); count.Load() < before+3 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		start := time.Now()
		cancel()
		err := <-done
		within(t, start, 0, 3*time.Second)
		if f := asFailure(t, err); f.Reason != refusal.Cancelled {
			t.Errorf("%s: got %v", loop, err)
		}
		time.Sleep(50 * time.Millisecond) // what was on the wire already arrives
		stopped := count.Load()
		time.Sleep(300 * time.Millisecond)
		if now := count.Load(); now != stopped || stopped < before+3 {
			t.Errorf("%s: %d before, %d at the answer, %d later", loop, before, stopped, now)
		}
		if got := eval(t, run, `1+1`); got != `2` {
			t.Errorf("%s: afterwards %s", loop, got)
		}
	}
}
