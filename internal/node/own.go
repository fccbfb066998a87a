package node

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// own answers where this server listens. No scope of a browser reaches that: an
// agent in a box must not be a visitor of the portal that grants it things.
func (n *Node) own() []netip.AddrPort {
	out := addresses(n.config.Listen)
	if at := n.config.Sources.Inbox.LMTP; !strings.HasPrefix(at, "unix:") {
		out = append(out, addresses(at)...)
	}
	return out
}

// addresses answers what ADDRESS:PORT may mean. A name, or no host at all, is taken
// for every address: denying more is the safe mistake.
func addresses(at string) []netip.AddrPort {
	host, text, err := net.SplitHostPort(at)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		addr = netip.IPv4Unspecified()
	}
	return []netip.AddrPort{netip.AddrPortFrom(addr.Unmap(), uint16(port))}
}
