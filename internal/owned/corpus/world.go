package corpus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Enter turns the calling process' fresh network and mount namespaces into the
// corpus' internet: loopback up and an interface beside it, every address of both families local to it (so
// whatever a vector aims at lands here and nowhere else), and name look-ups sent
// to the corpus' own server. The caller has been started with CLONE_NEWNET and
// CLONE_NEWNS and has CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN in them.
// Called anywhere else it would re-route the machine, so it refuses a namespace
// that has any interface but loopback.
func Enter() error {
	if err := onlyLoopback(); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	if err := ethernet(); err != nil {
		return fmt.Errorf("an interface beside loopback: %w", err)
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := everyAddressLocal(family); err != nil {
			return fmt.Errorf("local route: %w", err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=512m"); err != nil {
		return fmt.Errorf("own /tmp: %w", err)
	}
	const resolvConf = "/tmp/resolv.conf"
	if err := os.WriteFile(resolvConf, []byte("nameserver "+nameServer.String()+"\noptions timeout:1 attempts:1\n"), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(resolvConf, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("resolv.conf: %w", err)
	}
	return nil
}

// onlyLoopback refuses a namespace that could be the machine's own.
func onlyLoopback() error {
	entries, err := os.ReadDir("/proc/self/net/dev_snmp6")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() != "lo" {
			return fmt.Errorf("this network namespace has the interface %s: not one of the corpus' own", e.Name())
		}
	}
	self, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	if first, err := os.Readlink("/proc/1/ns/net"); err == nil && first == self {
		return errors.New("this is the machine's own network namespace")
	}
	return nil
}

func loopbackUp() error { return up("lo") }

// up brings one interface up.
func up(name string) error {
	return withSocket(func(fd int) error {
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
	})
}

func withSocket(do func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// ethernet makes a pair of interfaces with an address, since WebRTC gathers no
// candidate on a machine that has only loopback.
func ethernet() error {
	const name = "corpus0"
	kind := attribute(unix.IFLA_INFO_KIND, []byte("veth"))
	link := make([]byte, unix.SizeofIfInfomsg)
	link = append(link, attribute(unix.IFLA_IFNAME, append([]byte(name), 0))...)
	link = append(link, attribute(unix.IFLA_LINKINFO, kind)...)
	if err := netlink(unix.RTM_NEWLINK, link); err != nil {
		return err
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if err := up(i.Name); err != nil {
			return err
		}
	}
	return withSocket(func(fd int) error {
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := request.SetInet4Addr([]byte{20, 9, 9, 9}); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, request); err != nil {
			return err
		}
		// A wider mask would route its neighbours out of this interface.
		if err := request.SetInet4Addr([]byte{255, 255, 255, 255}); err != nil {
			return err
		}
		return unix.IoctlIfreq(fd, unix.SIOCSIFNETMASK, request)
	})
}

// everyAddressLocal is `ip route add local default dev lo`, by netlink, since
// the machine may have no ip command.
func everyAddressLocal(family byte) error {
	const loopbackIndex = 1
	route := make([]byte, unix.SizeofRtMsg)
	route[0] = family
	route[4] = unix.RT_TABLE_LOCAL
	route[5] = unix.RTPROT_BOOT
	route[6] = unix.RT_SCOPE_HOST
	route[7] = unix.RTN_LOCAL
	return netlink(unix.RTM_NEWROUTE, append(route, attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopbackIndex))...))
}

// attribute is one netlink attribute, padded.
func attribute(kind uint16, value []byte) []byte {
	out := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = append(out, value...)
	for len(out)%4 != 0 {
		out = append(out, 0)
	}
	return out
}

// netlink sends one route message that makes something, and reads whether it was
// made.
func netlink(kind uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	message := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = binary.NativeEndian.AppendUint16(message, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	message = append(append(message, make([]byte, 8)...), body...) // sequence and port: the kernel's to fill
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("the kernel's answer isn't an acknowledgement")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// sniffer reads every packet of the world's loopback, whoever sent it.
type sniffer struct {
	file *os.File
	saw  func(protocol string, to netip.AddrPort)
}

func openSniffer(saw func(string, netip.AddrPort)) (*sniffer, error) {
	all := uint16(unix.ETH_P_ALL)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all<<8|all>>8))
	if err != nil {
		return nil, fmt.Errorf("sniffer: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20)
	return &sniffer{os.NewFile(uintptr(fd), "sniffer"), saw}, nil
}

func (s *sniffer) Close() error { return s.file.Close() }

// run reads until Close.
func (s *sniffer) run() {
	buf := make([]byte, 64<<10)
	for {
		n, err := s.file.Read(buf)
		if err != nil {
			return
		}
		if protocol, to, ok := opening(buf[:n]); ok {
			s.saw(protocol, to)
		}
	}
}

// opening tells whether a packet begins a conversation: a TCP SYN, a UDP
// datagram or anything else that isn't a TCP segment of a known one.
func opening(p []byte) (protocol string, to netip.AddrPort, ok bool) {
	if len(p) < 1 {
		return "", netip.AddrPort{}, false
	}
	var next byte
	var addr netip.Addr
	var body []byte
	switch p[0] >> 4 {
	case 4:
		head := int(p[0]&15) * 4
		if len(p) < 20 || head < 20 || len(p) < head {
			return "", netip.AddrPort{}, false
		}
		next, addr, body = p[9], netip.AddrFrom4([4]byte(p[16:20])), p[head:]
	case 6:
		if len(p) < 40 {
			return "", netip.AddrPort{}, false
		}
		next, addr, body = p[6], netip.AddrFrom16([16]byte(p[24:40])), p[40:]
	default:
		return "", netip.AddrPort{}, false
	}
	port := uint16(0)
	if len(body) >= 4 {
		port = binary.BigEndian.Uint16(body[2:])
	}
	switch next {
	case unix.IPPROTO_TCP:
		if len(body) < 14 || body[13]&0x12 != 0x02 { // SYN without ACK
			return "", netip.AddrPort{}, false
		}
		return "tcp", netip.AddrPortFrom(addr, port), true
	case unix.IPPROTO_UDP:
		return "udp", netip.AddrPortFrom(addr, port), true
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6, unix.IPPROTO_IGMP, unix.IPPROTO_HOPOPTS:
		// The kernel's own: answers to the above, and multicast reports of the
		// world's interfaces. No process without a raw socket can send them.
		return "", netip.AddrPort{}, false
	}
	return fmt.Sprintf("ip protocol %d", next), netip.AddrPortFrom(addr, 0), true
}
