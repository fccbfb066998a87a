package scope

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// FromHosts makes a scope of --allow arguments, HOST[:PORT] each (spec
// product.md). PORT may be *; an IPv6 address with a port stands in brackets;
// HOST may be *.name. All four schemes are allowed, and a literal address or
// localhost permits that address.
func FromHosts(engagement string, hosts ...string) (*Scope, error) {
	const name = "--allow"
	if !engagementName.MatchString(engagement) {
		return nil, &Error{File: "--engagement", Msg: "must be 1 to 128 letters, digits, _ or -"}
	}
	s := &Scope{engagement: engagement, argued: true}
	for _, text := range hosts {
		r, err := hostRule(text)
		if err != nil {
			return nil, &Error{File: name, Key: strings.Trim(strconv.QuoteToGraphic(text[:min(len(text), maxHost)]), `"`), Msg: err.Error()}
		}
		r.index = len(s.allow)
		// The same host twice is no mistake on a command line.
		if !slices.ContainsFunc(s.allow, func(earlier rule) bool { return earlier.covers(&r) }) {
			s.allow = append(s.allow, r)
		}
	}
	return s.sealed(), nil
}

func hostRule(text string) (rule, error) {
	r := rule{list: "allow", schemes: allSchemes}
	if strings.Contains(text, "://") {
		return r, fmt.Errorf("give HOST or HOST:PORT, not a URL")
	}
	if strings.Contains(text, "/") {
		return r, fmt.Errorf("give HOST or HOST:PORT; networks and paths need a scope file (--scope FILE)")
	}
	host := text
	// A bare IPv6 address has colons and no port.
	if _, err := netip.ParseAddr(text); err != nil {
		if colon := strings.LastIndexByte(text, ':'); colon > strings.LastIndexByte(text, ']') {
			var port string
			host, port = text[:colon], text[colon+1:]
			s, ok := parseSpan(port)
			if !ok || strings.Contains(port, "-") {
				return r, fmt.Errorf("the port must be a number from 1 to 65535, or * for every port")
			}
			r.ports = []span{s}
		}
	}
	var err error
	r.host, err = parseHost(host)
	return r, err
}
