package scope

import (
	"net/netip"
	"slices"
	"strings"
)

// specialRange is a range of addresses that nothing reaches unless a rule names
// it.
type specialRange struct {
	prefix netip.Prefix
	name   string // as a person would call it
}

// specialRanges, most specific first. IPv6 outside 2000::/3 isn't the public
// internet, so all of it is special, also what has no name yet.
var specialRanges = func() []specialRange {
	ranges := []specialRange{
		{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
		{netip.MustParsePrefix("10.0.0.0/8"), "private"},
		{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT"},
		{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
		{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
		{netip.MustParsePrefix("172.16.0.0/12"), "private"},
		{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignment"},
		{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
		{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay"},
		{netip.MustParsePrefix("192.168.0.0/16"), "private"},
		{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},
		{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
		{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
		{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
		{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
		{netip.MustParsePrefix("255.255.255.255/32"), "broadcast"},
		{netip.MustParsePrefix("::/128"), "unspecified"},
		{netip.MustParsePrefix("::1/128"), "loopback"},
		{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4-mapped"},
		{netip.MustParsePrefix("64:ff9b::/96"), "NAT64"},
		{netip.MustParsePrefix("64:ff9b:1::/48"), "NAT64"},
		{netip.MustParsePrefix("100::/64"), "discard"},
		{netip.MustParsePrefix("2001::/32"), "Teredo"},
		{netip.MustParsePrefix("2001:2::/48"), "benchmarking"},
		{netip.MustParsePrefix("2001::/23"), "protocol assignment"},
		{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
		{netip.MustParsePrefix("2002::/16"), "6to4"},
		{netip.MustParsePrefix("3fff::/20"), "documentation"},
		{netip.MustParsePrefix("fc00::/7"), "private"},
		{netip.MustParsePrefix("fe80::/10"), "link-local"},
		{netip.MustParsePrefix("fec0::/10"), "site-local"},
		{netip.MustParsePrefix("ff00::/8"), "multicast"},
		{netip.MustParsePrefix("::/3"), "reserved"},
		{netip.MustParsePrefix("4000::/2"), "reserved"},
		{netip.MustParsePrefix("8000::/1"), "reserved"},
	}
	for _, addr := range metadataAddresses {
		ranges = append(ranges, specialRange{netip.PrefixFrom(addr, addr.BitLen()), metadataRange})
	}
	slices.SortStableFunc(ranges, func(a, b specialRange) int { return b.prefix.Bits() - a.prefix.Bits() })
	return ranges
}()

const metadataRange = "cloud metadata"

// metadataAddresses hand out the credentials of the machine that asks.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // AWS, Azure, GCP, most others
	netip.MustParseAddr("169.254.170.2"),   // AWS ECS tasks
	netip.MustParseAddr("169.254.170.23"),  // AWS EKS pods
	netip.MustParseAddr("169.254.0.23"),    // Tencent
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd00:ec2::23"),    // AWS EKS pods
	netip.MustParseAddr("fd20:ce::254"),    // GCP
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure wire server
	netip.MustParseAddr("192.0.0.192"),     // Oracle
}

// metadataNames are the names under which they answer.
var metadataNames = []string{
	"metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal",
	"metadata.azure.com", "metadata.azure.internal", "metadata.tencentyun.com",
}

func metadataHost(host string) bool {
	return slices.Contains(metadataNames, host) ||
		strings.HasSuffix(host, ".metadata.google.internal") || strings.HasSuffix(host, ".metadata.goog")
}

// metadataAddress reports whether addr is, or wraps, a metadata address.
func metadataAddress(addr netip.Addr) bool {
	for _, a := range wrapped(addr) {
		if slices.Contains(metadataAddresses, a) {
			return true
		}
	}
	return false
}

// wrapped is addr and the IPv4 addresses that it stands for in a translator:
// IPv4-mapped, IPv4-compatible, NAT64 and 6to4.
func wrapped(addr netip.Addr) []netip.Addr {
	addr = addr.WithZone("")
	list := []netip.Addr{addr, addr.Unmap()}
	if !addr.Is6() || addr.Is4In6() {
		return list
	}
	b := addr.As16()
	switch r, _ := special(addr); r.name {
	case "6to4":
		list = append(list, netip.AddrFrom4([4]byte(b[2:6])))
	case "NAT64", "reserved": // reserved holds ::/96, IPv4-compatible
		list = append(list, netip.AddrFrom4([4]byte(b[12:])))
	}
	return list
}

// special is the most specific special range that holds addr.
func special(addr netip.Addr) (specialRange, bool) {
	for _, r := range specialRanges {
		if r.prefix.Contains(addr) {
			return r, true
		}
	}
	return specialRange{}, false
}

// names reports whether p names addr. A special address is named by a prefix
// that lies inside its range: 10.1.0.0/24 names 10.1.0.5, and 0.0.0.0/0, which
// is meant for the internet, names nothing special at all.
func names(p netip.Prefix, addr netip.Addr) bool {
	if !p.Contains(addr) {
		return false
	}
	for _, r := range specialRanges {
		if r.prefix.Contains(addr) && r.name != metadataRange {
			return p.Bits() >= r.prefix.Bits()
		}
	}
	// A metadata address in public space has no range of its own to lie in.
	return p.IsSingleIP() || !metadataAddress(addr)
}
