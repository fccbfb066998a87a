package oauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"chaperone/internal/refusal"
)

// fetchTime is how long one document may take, from look-up to last byte.
const fetchTime = 3 * time.Second

// Fetcher reads client-id metadata documents. Its zero value uses the real
// network; the fields are for tests, and don't loosen a check.
type Fetcher struct {
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	Roots   *x509.CertPool
}

func refuseDocument(why string) error {
	return fmt.Errorf("client metadata document: %s: %w", why, refusal.BadDocument)
}

// read fetches the document at id, which was checked. Each name is looked up
// once, every address of the answer must be public, and one of exactly those is
// dialled: a second look-up could answer something else.
func (f *Fetcher) read(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	transport := &http.Transport{
		DialContext: f.dial, TLSClientConfig: &tls.Config{RootCAs: f.Roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return nil, refuseDocument("no URL")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "chaperone")
	resp, err := client.Do(req)
	if err != nil {
		if refusal.Of(err) != "" {
			return nil, refuseDocument("its address isn't public")
		}
		return nil, refuseDocument("it can't be fetched")
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode != http.StatusOK: // a redirect too
		return nil, refuseDocument("its host doesn't answer 200")
	case kind != "application/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")):
		return nil, refuseDocument("it isn't application/json")
	case resp.Header.Get("Content-Encoding") != "":
		return nil, refuseDocument("it is encoded")
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxMetadata+1))
	switch {
	case err != nil:
		return nil, refuseDocument("it can't be read in time")
	case len(data) > MaxMetadata:
		return nil, refuseDocument("over 5 KB")
	}
	return data, nil
}

// dial looks the host up, checks the whole answer and connects to one of it.
func (f *Fetcher) dial(ctx context.Context, _, hostport string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	addrs, err := f.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for i, a := range addrs {
		if addrs[i] = a.Unmap(); !public(addrs[i]) {
			return nil, refusal.BadAddress
		}
	}
	var conn net.Conn
	err = fmt.Errorf("no address: %w", refusal.Unresolvable)
	for _, a := range addrs[:min(len(addrs), 4)] {
		if conn, err = f.connect(ctx, netip.AddrPortFrom(a, 443)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func (f *Fetcher) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if f.Resolve != nil {
		return f.Resolve(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

func (f *Fetcher) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if f.Dial != nil {
		return f.Dial(ctx, to)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}

// special are the ranges of IPv4 that aren't the public internet, those of 2000::/3
// that aren't, and one address of a cloud that hands out credentials.
var special = func() (all []netip.Prefix) {
	for _, text := range strings.Fields(`0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
		192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
		168.63.129.16/32 2001::/23 2001:db8::/32 2002::/16 3fff::/20`) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

var unicast6 = netip.MustParsePrefix("2000::/3") // the rest of IPv6 isn't public, also what has no name yet

// public tells an address of the public internet. a is unmapped.
func public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || a.Is6() && !unicast6.Contains(a) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
