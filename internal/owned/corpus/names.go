package corpus

import (
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// The addresses of the corpus' own internet. They look public, since a scope
// treats special ranges apart, and exist only in a namespace of the corpus.
var (
	siteAddr    = netip.MustParseAddr("20.0.0.10")
	elsewhere   = netip.MustParseAddr("20.0.0.66")
	nameServer  = netip.MustParseAddr("20.0.0.53")
	privateAddr = netip.MustParseAddr("10.9.9.9")
	metadata    = netip.MustParseAddr("169.254.169.254")
)

// resolve is the corpus' name service, the same for proxy, relay and DNS.
func (s *sinks) resolve(host string) []netip.Addr {
	switch {
	case host == "special.in.test":
		return []netip.Addr{privateAddr}
	case host == "meta.in.test":
		return []netip.Addr{metadata}
	case host == "mixed.in.test":
		return []netip.Addr{privateAddr, siteAddr}
	case host == "rebind.in.test":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lookups++
		if s.lookups%2 == 1 {
			return []netip.Addr{siteAddr}
		}
		return []netip.Addr{privateAddr}
	case host == "in.test":
		return []netip.Addr{siteAddr}
	case strings.HasSuffix(host, ".out.test"):
		return []netip.Addr{elsewhere}
	case host == "localhost":
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	}
	return nil
}

// answerNames is the DNS server that the engine without a box would use. Every
// question is a sighting: in the box there is nobody who could ask one.
func (s *sinks) answerNames(conn net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
			s.note(sighting{"", "dns, unreadable"})
			continue
		}
		q := m.Questions[0]
		host := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
		s.note(sighting{strings.TrimSuffix(host, ".out.test"), "dns " + host})
		m.Response, m.Authoritative = true, true
		for _, a := range s.resolve(host) {
			if q.Type == dnsmessage.TypeA && a.Is4() {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
					Body:   &dnsmessage.AResource{A: a.As4()},
				})
			}
		}
		if out, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(out, from)
		}
	}
}
