package proxy

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// front answers what arrives on the box's listener.
func (p *Proxy) front(w http.ResponseWriter, r *http.Request) {
	if !p.begin() {
		return
	}
	defer p.work.Done()
	if r.Method == http.MethodConnect {
		p.tunnel(w, r)
		return
	}
	// Only http in absolute form is a proxy request. A browser asks for https
	// through a tunnel, and whoever sends a bare path takes us for a server.
	t, err := scope.ParseURL(r.RequestURI)
	if err != nil || t.Scheme != "http" {
		p.refuse(w, r, scope.Target{Method: r.Method}, scope.Decision{Code: refusal.Malformed, Rule: "no rule"})
		return
	}
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		panic("proxy: a request came over no connection of ours")
	}
	p.forward(w, r, t, c.link)
}

// inside answers the requests in an opened tunnel. The tunnel's host and port
// were judged; a request for another host in it is refused.
type inside struct {
	proxy  *Proxy
	scheme string // http or https
	host   string
	port   int
	link   *link
}

// ServeHTTP judges one request of the tunnel.
func (in inside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := in.proxy
	if !p.begin() {
		return
	}
	defer p.work.Done()
	defaultPort := map[string]int{"http": 80, "https": 443}[in.scheme]
	host, port, err := scope.ParseAuthority(r.Host, defaultPort)
	t := scope.Target{Scheme: in.scheme, Host: in.host, Port: in.port, Method: r.Method}
	if err != nil || host != in.host || port != in.port {
		p.refuse(w, r, t, scope.Decision{Code: refusal.BadServerName, Rule: "no rule"})
		return
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	t.Path = "/"
	whole, err := scope.ParseURL(strings.TrimSuffix(t.String(), "/") + path)
	if err != nil || !strings.HasPrefix(path, "/") || strings.Contains(path, "#") || r.Method == http.MethodConnect {
		p.refuse(w, r, t, scope.Decision{Code: refusal.Malformed, Rule: "no rule"})
		return
	}
	p.forward(w, r, whole, in.link)
}

// forward judges a request, records the decision before anything is sent, and
// passes the request on.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, t scope.Target, l *link) {
	t.Method = r.Method
	if webSocket(r) {
		t.Scheme = map[string]string{"http": "ws", "https": "wss"}[t.Scheme]
	}
	now := time.Now()
	if d := p.config.Scope.Decide(t, now); !d.Allowed {
		p.refuse(w, r, t, d)
		return
	}
	u, ok := l.find(r.Context(), t)
	if !ok {
		p.refuse(w, r, t, scope.Decision{Code: refusal.Unresolvable})
		return
	}
	d, addr := p.judge(u, t, now)
	p.record(now, t, addr, d)
	if !d.Allowed {
		refuse(w, r, d)
		return
	}
	p.pass(w, r, t, u)
}

// refuse records a refusal and answers with it.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, t scope.Target, d scope.Decision) {
	var none scope.Record
	p.record(time.Now(), t, none.Address, d)
	refuse(w, r, d)
}

// webSocket reports whether r asks to become a WebSocket.
func webSocket(r *http.Request) bool {
	return httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") &&
		strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// methodOverrides make some servers treat a POST as another method.
var methodOverrides = []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}

// forwarded are headers that the reverse proxy drops, and that a page may send.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

var (
	silent  = log.New(io.Discard, "", 0)
	buffers = &bufferPool{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
)

// pass sends the judged request to its upstream, the path byte for byte as it
// was judged, and streams the answer back.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, t scope.Target, u *upstream) {
	proxy := httputil.ReverseProxy{
		Transport:     u.trip,
		FlushInterval: -1, // streams and server-sent events arrive when they are sent
		BufferPool:    buffers,
		ErrorLog:      silent,
		Rewrite:       func(out *httputil.ProxyRequest) { p.rewrite(out, t, u) },
		ModifyResponse: func(answer *http.Response) error {
			answer.Header.Del(refusalHeader) // only we say that
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) {
			refuse(w, r, scope.Decision{Code: refusal.Unreachable})
		},
	}
	proxy.ServeHTTP(w, r)
}

func (p *Proxy) rewrite(pr *httputil.ProxyRequest, t scope.Target, u *upstream) {
	out := pr.Out
	out.URL.Scheme = map[string]string{"ws": "http", "wss": "https"}[t.Scheme]
	if out.URL.Scheme == "" {
		out.URL.Scheme = t.Scheme
	}
	out.URL.Host = u.hostPort()
	root := t
	root.Path = ""
	_, out.Host, _ = strings.Cut(root.String(), "://")
	// Path escapes that Go would write in another way have to arrive as judged.
	if !strings.HasPrefix(t.Path, "//") {
		out.URL.Opaque = t.Path
	}
	out.URL.RawQuery = pr.In.URL.RawQuery
	for _, name := range forwarded {
		if values := pr.In.Header.Values(name); values != nil {
			out.Header[name] = values
		}
	}
	if !webSocket(pr.In) {
		out.Header.Del("Upgrade") // h2c and whatever else can't be judged afterwards
		out.Header.Del("Connection")
	}
	if p.config.Scope.LimitsMethods() {
		for _, name := range methodOverrides {
			out.Header.Del(name)
		}
	}
}

// bufferPool is httputil's interface over arrays that are never allocated twice.
type bufferPool struct{ pool sync.Pool }

// Get takes a buffer.
func (b *bufferPool) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

// Put gives it back.
func (b *bufferPool) Put(buf []byte) { b.pool.Put((*[32 << 10]byte)(buf)) }
