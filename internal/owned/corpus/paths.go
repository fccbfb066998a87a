package corpus

// Paths is the corpus of requests that a scope with paths and methods must stop
// on a host that is itself in scope. Only /open/** and the site's own helpers
// are allowed there, by GET, HEAD and POST; what reaches /closed is a leak.
var Paths = number(1000, pathPages, pathRaw)

var pathPages = []Vector{
	{Name: "path-fetch", Group: "path", Script: `fetch(HIT)`},
	{Name: "path-img", Group: "path", Script: `new Image().src = HIT`},
	{Name: "path-frame", Group: "path", Script: addHead + `add("iframe", {src: HIT})`},
	{Name: "path-form", Group: "path", Script: addHead + `add("form", {action: HIT, method: "post"}).submit()`},
	{Name: "path-redirect", Group: "path", Script: `fetch(redir(HIT, 302))`},
	{Name: "path-worker", Group: "path", Script: "new Worker(echo('text/javascript', `fetch('${HIT}')`))"},
	{Name: "path-shared-worker", Group: "path", Script: "new SharedWorker(echo('text/javascript', `fetch('${HIT}')`))"},
	{Name: "path-service-worker", Group: "path", Script: "navigator.serviceWorker.register(echo('text/javascript', `oninstall = e => e.waitUntil(fetch('${HIT}').catch(() => {}))`), {scope: '/path-sw/'})"},
	{Name: "path-ws", Group: "path", Script: `new WebSocket("wss://in.test" + HIT)`},
	{Name: "path-ws-plain", Group: "path", Plain: true, Script: `new WebSocket("ws://in.test" + HIT)`},
	{Name: "path-ws-worker", Group: "path", Script: "new Worker(echo('text/javascript', `new WebSocket('wss://in.test${HIT}')`))"},
	{Name: "path-ws-service-worker", Group: "path", Script: "navigator.serviceWorker.register(echo('text/javascript', `new WebSocket('wss://in.test${HIT}')`), {scope: '/path-ws-sw/'})"},
	{Name: "path-plain", Group: "path", Plain: true, Script: `fetch(HIT)`},
	{Name: "path-goto", Group: "path", Goto: "https://in.test{{HIT}}"},
	{Name: "path-goto-plain", Group: "path", Goto: "http://in.test{{HIT}}"},
	{Name: "path-dots", Group: "path", Script: `fetch("/open/.." + HIT)`},
	{Name: "path-dots-encoded", Group: "path", Script: `fetch("/open/%2e%2e" + HIT)`},
	{Name: "path-slash-encoded", Group: "path", Script: `fetch("/open/..%2f" + HIT.slice(1))`},
	{Name: "path-double-encoded", Group: "path", Script: `fetch("/open/%252e%252e" + HIT)`},
	{Name: "path-backslash", Group: "path", Script: `fetch("/open/..%5c" + HIT.slice(1))`},
	{Name: "path-nul", Group: "path", Script: `fetch("/open/%00" + HIT)`},
	{Name: "path-semicolon", Group: "path", Script: `fetch("/open/..;" + HIT)`},
	{Name: "path-double-slash", Group: "path", Script: `fetch("https://in.test/" + HIT)`},
	{Name: "path-case", Group: "path", Script: `fetch("/OPEN" + HIT)`},
	{Name: "method-delete", Group: "path", Script: `fetch("/open/hit/" + NAME, {method: "DELETE"})`},
	{Name: "method-put", Group: "path", Script: `fetch("/open/hit/" + NAME, {method: "PUT", body: "x"})`},
	{Name: "method-override", Group: "path", Script: `fetch("/open/hit/" + NAME, {method: "POST", headers: {"X-HTTP-Method-Override": "DELETE"}})`},
}

var pathRaw = []Vector{
	{Name: "path-raw", Group: "path", Control: Open, Raw: rawPath("{{HIT}}")},
	{Name: "path-raw-dots", Group: "path", Control: Open, Raw: rawPath("/open/..{{HIT}}")},
	{Name: "path-raw-dots-encoded", Group: "path", Control: Open, Raw: rawPath("/open/%2e%2e{{HIT}}")},
	{Name: "path-raw-mixed", Group: "path", Control: Open, Raw: rawPath("/open/.%2e{{HIT}}")},
	{Name: "path-raw-slash", Group: "path", Control: Open, Raw: rawPath("/open/..%2F{{HIT}}")},
	{Name: "path-raw-backslash", Group: "path", Control: Open, Raw: rawPath(`/open/..%5C{{HIT}}`)},
	{Name: "path-raw-query", Group: "path", Control: Open, Raw: rawPath("{{HIT}}?/open/x")},
	{Name: "path-raw-absolute", Group: "path", Control: Open, Raw: rawPath("https://in.test{{HIT}}")},
	{Name: "path-raw-plain", Group: "path", Control: Open, Raw: plain("", "GET http://in.test{{HIT}} HTTP/1.1\r\nHost: in.test\r\n\r\n")},
	{Name: "path-raw-host", Group: "path", Control: Open, Raw: tunnelHost("in.test:443", "in.test", "{{NAME}}.out.test")},
}

// rawPath requests target as it stands, through a tunnel to the in-scope host.
func rawPath(target string) func(dialer, Vector) error {
	return func(dial dialer, v Vector) error {
		return requestIn(dial, "in.test:443", "in.test", "GET "+v.fill(target)+" HTTP/1.1\r\nHost: in.test\r\nConnection: close\r\n\r\n")
	}
}
