package guard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"chaperone/internal/refusal"
)

// hostOf answers what stands in a Host header for the origin.
func hostOf(origin string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// hostAllowed serves exactly the configured name. The loopback address that a
// person typed is sent to the name, since passkeys and cookies belong to it.
func (g *guard) hostAllowed(w http.ResponseWriter, r *http.Request) bool {
	if strings.EqualFold(r.Host, g.host) {
		return true
	}
	if g.embedding(r) != "" && embedded(r.URL.Path) {
		return true
	}
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = ""
	}
	_, ours, _ := net.SplitHostPort(g.host)
	name := strings.TrimSuffix(r.Host, ":"+port)
	loopback := strings.HasPrefix(g.host, "localhost") && (name == "127.0.0.1" || name == "[::1]") && port == ours
	if loopback && strings.HasPrefix(r.URL.Path, "/") && r.URL.Opaque == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && !private(r.URL.Path) {
		http.Redirect(w, r, g.Origin+target(r.URL), http.StatusTemporaryRedirect)
		return false
	}
	refuse(w, http.StatusMisdirectedRequest, refusal.OriginDenied, nil)
	return false
}

// embedding answers the other site's origin that a request came to, "" for this
// server's own.
func (g *guard) embedding(r *http.Request) string {
	for _, o := range g.Embedding {
		if strings.EqualFold(r.Host, hostOf(o)) {
			return o
		}
	}
	return ""
}

// embedded tells the paths that another site routes through its own origin
// (spec/attended-control.md, section 4).
func embedded(name string) bool {
	return slices.Contains([]string{"/attended.js", "/ws/browser-control", "/api/session"}, name) ||
		strings.HasPrefix(name, "/api/browser-control/") || strings.HasPrefix(name, "/auth/") && name != "/auth/backchannel-logout"
}

// target is the path and query of a URL, never its authority or an opaque part,
// which would stand right behind our own name.
func target(u *url.URL) string {
	if u.RawQuery == "" {
		return u.EscapedPath()
	}
	return u.EscapedPath() + "?" + u.RawQuery
}

// source judges where a request comes from. What changes something, on an owner's
// route, needs exactly one Origin that is ours; elsewhere an Origin that is there
// must be ours too. SameSite isn't enough: another port of this host is same-site.
func (g *guard) source(r *http.Request, route Route) error {
	if route.Who != Owner && route.Who != Bearer {
		return nil
	}
	origins, own := r.Header.Values("Origin"), g.Origin
	if other := g.embedding(r); other != "" {
		own = other
	}
	if len(origins) > 1 || len(origins) == 1 && origins[0] != own {
		return refusal.OriginDenied
	}
	if route.Who == Bearer {
		return nil
	}
	if route.Mutates && len(origins) != 1 {
		return refusal.OriginDenied
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return refusal.OriginDenied
	}
	return nil
}

// peer answers whose rate a request counts against.
func (g *guard) peer(r *http.Request) string { return Peer(g.Proxies, r) }

// Peer answers from where a request came: the connection's own address, or where
// that is one of our proxies' the last that it saw. Of IPv6 that is a /64, which is
// what one customer has.
func Peer(proxies []netip.Prefix, r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // a Unix socket has none
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		// The last hop that our own proxy saw; what stands before it is anybody's, also
		// where it stands in a header line of its own.
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if last, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1])); err == nil {
			addr = last.Unmap().WithZone("")
		}
	}
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
	return addr.String()
}
