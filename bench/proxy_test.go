package bench

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stripe/smokescreen/pkg/smokescreen"
	"github.com/stripe/smokescreen/pkg/smokescreen/conntrack"

	"chaperone/internal/owned/proxy"
	"chaperone/internal/owned/scope"
)

// The way of bytes from a site to a browser: through a bare relay, through our
// tunnel, and through smokescreen's, a piece by each in turn, so that a busy
// machine is busy for all of them. What matters is the ratio to the relay, in
// time and in this process's CPU time (the two ends included).
func BenchmarkTunnel(b *testing.B) {
	site := flood(b)
	ways := []*way{
		{name: "relay", proxy: relayTo(b, site)},
		{name: "chaperone", proxy: ours(b, "")},
		{name: "smokescreen", proxy: smoke(b)},
	}
	for _, w := range ways {
		w.open(b, site)
		w.read(b) // the kernel's buffers grow
	}
	for round := 0; b.Loop(); round++ {
		for i := range ways {
			w := ways[(i+round)%len(ways)] // whoever comes first gains nothing by it
			wall, cpu := time.Now(), used(b)
			w.read(b)
			w.wall = append(w.wall, time.Since(wall))
			w.cpu = append(w.cpu, used(b)-cpu)
		}
	}
	base := ways[0]
	for _, w := range ways {
		b.ReportMetric(piece/1e6/median(w.wall).Seconds(), w.name+"-MB/s")
		if w != base {
			b.ReportMetric(median(base.wall).Seconds()/median(w.wall).Seconds(), w.name+"-of-relay")
			b.ReportMetric(median(base.cpu).Seconds()/median(w.cpu).Seconds(), w.name+"-of-relay-cpu")
		}
	}
}

// piece is what is read at once, in bytes.
const piece = 64 << 20

// way is one path from the site, with the times of its pieces.
type way struct {
	name, proxy string
	conn        net.Conn
	wall, cpu   []time.Duration
}

func (w *way) open(tb testing.TB, site string) {
	c, err := net.Dial("tcp", w.proxy)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	if w.name != "relay" {
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", site)
		answer, err := http.ReadResponse(bufio.NewReaderSize(c, 16), &http.Request{Method: "CONNECT"})
		if err != nil || answer.StatusCode != 200 {
			tb.Fatal(answer, err)
		}
	}
	c.Write(firstFlight(tb))
	w.conn = c
}

func (w *way) read(tb testing.TB) {
	if _, err := io.CopyN(blackHole{}, w.conn, piece); err != nil {
		tb.Fatal(err)
	}
}

// blackHole takes bytes without io.Discard's own buffer sizes.
type blackHole struct{}

func (blackHole) Write(b []byte) (int, error) { return len(b), nil }

// used is this process's CPU time.
func used(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// What opening TLS costs a request, on a kept connection.
func BenchmarkRequest(b *testing.B) {
	cert := certificate(b)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 4<<10)) })}
	go server.Serve(l)
	b.Cleanup(func() { server.Close() })
	for _, way := range []struct{ name, paths string }{{"direct", ""}, {"tunnel", ""}, {"opened", "    paths: [\"/**\"]\n"}} {
		b.Run(way.name, func(b *testing.B) {
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			if way.name != "direct" {
				via, err := url.Parse("http://" + ours(b, way.paths, cert.Leaf))
				if err != nil {
					b.Fatal(err)
				}
				transport.Proxy = http.ProxyURL(via)
			}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			for b.Loop() {
				answer, err := client.Get("https://" + l.Addr().String() + "/x")
				if err != nil || answer.StatusCode != 200 {
					b.Fatal(answer, err)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		})
	}
}

// flood is a site that sends as fast as it is read, once it was spoken to.
func flood(tb testing.TB) string {
	l := listen(tb)
	go func() {
		block := make([]byte, 256<<10)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 1)); err != nil {
					return
				}
				for {
					if _, err := c.Write(block); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func listen(tb testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	return l
}

// relayTo is the least that a proxy in between can do.
func relayTo(tb testing.TB, site string) string {
	l := listen(tb)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				up, err := net.Dial("tcp", site)
				if err != nil {
					return
				}
				defer up.Close()
				go io.Copy(up, c)
				io.Copy(c, up)
			}()
		}
	}()
	return l.Addr().String()
}

// ours is a proxy of a run that may reach this machine.
func ours(tb testing.TB, paths string, trusted ...*x509.Certificate) string {
	s, err := scope.Parse("bench.yaml", []byte("engagement: bench\nallow:\n  - host: 127.0.0.1\n    ports: \"*\"\n"+paths))
	if err != nil {
		tb.Fatal(err)
	}
	pool := x509.NewCertPool()
	for _, c := range trusted {
		pool.AddCert(c)
	}
	p, err := proxy.New(proxy.Config{Scope: s, RootCAs: pool, Resolve: func(context.Context, string) ([]netip.Addr, error) { return nil, io.EOF }})
	if err != nil {
		tb.Fatal(err)
	}
	l := listen(tb)
	go p.Serve(l)
	tb.Cleanup(func() { p.Close() })
	return l.Addr().String()
}

// smoke is smokescreen as it is meant to be embedded.
func smoke(tb testing.TB) string {
	config := smokescreen.NewConfig()
	config.Log = logrus.New()
	config.Log.SetOutput(io.Discard)
	if err := config.SetAllowRanges([]string{"127.0.0.0/8"}); err != nil {
		tb.Fatal(err)
	}
	config.RoleFromRequest = func(*http.Request) (string, error) { return "bench", nil }
	config.ConnTracker = conntrack.NewTracker(0, config.MetricsClient, config.Log, config.ShuttingDown, nil)
	l := listen(tb)
	handler := smokescreen.BuildProxy(config)
	handler.Logger = log.New(io.Discard, "", 0)
	server := &http.Server{Handler: handler}
	go server.Serve(l)
	tb.Cleanup(func() { server.Close() })
	return l.Addr().String()
}

// firstFlight is a ClientHello for a literal address, which has no server name.
func firstFlight(tb testing.TB) []byte {
	here, there := net.Pipe()
	go tls.Client(there, &tls.Config{InsecureSkipVerify: true}).Handshake()
	buf := make([]byte, 16<<10)
	n, err := here.Read(buf)
	if err != nil {
		tb.Fatal(err)
	}
	here.Close()
	there.Close()
	return buf[:n]
}

func certificate(tb testing.TB) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
