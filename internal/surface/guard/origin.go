package guard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
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
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = ""
	}
	_, ours, _ := net.SplitHostPort(g.host)
	name := strings.TrimSuffix(r.Host, ":"+port)
	loopback := strings.HasPrefix(g.host, "localhost") && (name == "127.0.0.1" || name == "[::1]") && port == ours
	if loopback && (r.Method == http.MethodGet || r.Method == http.MethodHead) && !private(r.URL.Path) {
		http.Redirect(w, r, g.Origin+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		return false
	}
	refuse(w, http.StatusMisdirectedRequest, refusal.OriginDenied, nil)
	return false
}

// source judges where a request comes from. What changes something, on an owner's
// route, needs exactly one Origin that is ours; elsewhere an Origin that is there
// must be ours too. SameSite isn't enough: another port of this host is same-site.
func (g *guard) source(r *http.Request, route Route) error {
	if route.Who != Owner && route.Who != Bearer {
		return nil
	}
	origins := r.Header.Values("Origin")
	if len(origins) > 1 || len(origins) == 1 && origins[0] != g.Origin {
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

// Peer answers from which address a request came: the connection's own, or where
// that is one of our proxies' the last that it saw.
func Peer(proxies []netip.Prefix, r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // a Unix socket has none
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	for _, p := range proxies {
		if p.Contains(addr.Unmap()) {
			// The last hop that our own proxy saw; what stands before it is anybody's.
			hops := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
			if last, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1])); err == nil {
				return last.Unmap().String()
			}
		}
	}
	return addr.Unmap().String()
}
