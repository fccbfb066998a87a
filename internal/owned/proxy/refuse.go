package proxy

import (
	"fmt"
	"html"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// refusalHeader tells a refusal of ours from an answer of the site.
const refusalHeader = "X-Chaperone-Refusal"

// status is 502 where the scope allowed the request and the world didn't answer.
func status(code refusal.Code) int {
	switch code {
	case refusal.Unresolvable, refusal.Unreachable:
		return http.StatusBadGateway
	case refusal.TooMany:
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden
}

// refuse answers a request with what a person needs to widen the scope: the
// code, the rule, and the line to change. Nothing of the request is repeated.
func refuse(w http.ResponseWriter, r *http.Request, d scope.Decision) {
	what := "The scope of this run doesn't allow this request."
	switch d.Code {
	case refusal.Unresolvable:
		what = "The scope of this run allows this request, but the name has no address."
	case refusal.Unreachable:
		what = "The scope of this run allows this request, but nothing answered there."
	}
	facts := [][2]string{{"Reason", string(d.Code)}, {"Rule", d.Rule}, {"To change that", d.Fix}}
	var text, page strings.Builder
	text.WriteString(what + "\n")
	page.WriteString("<!doctype html><meta charset=utf-8><title>Refused by Chaperone</title>" +
		"<body style=\"font:16px/1.5 system-ui;max-width:40em;margin:4em auto\"><h1 style=\"font-size:1.3em\">" + html.EscapeString(what) + "</h1><dl>")
	for _, f := range facts {
		if f[1] != "" {
			fmt.Fprintf(&text, "%s: %s\n", f[0], f[1])
			fmt.Fprintf(&page, "<dt><b>%s</b><dd><code>%s</code>", f[0], html.EscapeString(f[1]))
		}
	}
	page.WriteString("</dl>\n")
	body, kind := text.String(), "text/plain; charset=utf-8"
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		body, kind = page.String(), "text/html; charset=utf-8"
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set(refusalHeader, string(d.Code))
	if r.ProtoMajor == 1 {
		h.Set("Connection", "close") // what was refused may have a body that nobody should read
	}
	w.WriteHeader(status(d.Code))
	if r.Method != http.MethodHead {
		fmt.Fprint(w, body)
	}
}

// record tells the host of one decision, once, when it is made.
func (p *Proxy) record(at time.Time, t scope.Target, addr netip.Addr, d scope.Decision) {
	p.config.Record(scope.Record{
		At: at, Layer: "proxy", Host: t.Host, Port: t.Port, Scheme: t.Scheme, Method: t.Method, Address: addr, Decision: d,
	})
}
