package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/proxy"
	"chaperone/internal/owned/scope"
)

// starter makes a session.
type starter func(context.Context) (*session, error)

// session is one engine with what it stands in.
type session struct {
	browser *browser.Browser
	dial    dialer // to the session's proxy, past the browser
	closers []func() error
}

// boxed makes sessions as a host would: box, proxy, browser, one scope.
func (r *run) boxed(scopeText string, own bool) starter {
	return func(ctx context.Context) (_ *session, err error) {
		judge, err := scope.Parse("corpus.yaml", []byte(scopeText))
		if err != nil {
			return nil, err
		}
		s := &session{}
		defer func() {
			if err != nil {
				_ = s.Close()
			}
		}()
		config := proxy.Config{Scope: judge, RootCAs: r.sinks.roots, Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if a := r.sinks.resolve(strings.TrimSuffix(strings.ToLower(host), ".")); len(a) > 0 {
				return a, nil
			}
			return nil, errors.New("no such host")
		}}
		if own {
			config.Own = ownListener
		}
		out, err := proxy.New(config)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, out.Close)
		trusted := r.sinks.spki
		if k := out.SPKI(); k != "" {
			trusted += "," + k
		}
		box, err := jail.Start(ctx, jail.Config{Engine: r.Engine, Args: flags(trusted), Limits: jail.DefaultLimits()})
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, box.Close)
		s.serve(out, box.Listener())
		if s.browser, err = browser.Open(ctx, browser.Config{Conn: box.Pipe(), Scope: judge, Files: box, Timeout: 10 * time.Second}); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, box.LastWords())
		}
		s.closers = append(s.closers, s.browser.Close)
		if _, err = s.browser.Do(ctx, ownedv1.Launch{Headless: true}); err != nil {
			return nil, err
		}
		// The proxy listens on loopback of the world too, so that the raw vectors
		// speak to the very handler that the box reaches.
		direct, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		s.serve(out, direct)
		at := direct.Addr().String()
		r.sinks.ours(direct.Addr())
		s.dial = func() (net.Conn, error) { return net.DialTimeout("tcp", at, time.Second) }
		return s, nil
	}
}

// flags are a host's flags, but for the one by which the engine itself keeps
// hyperlink pings back: the scope has to stop them alone.
func flags(trusted string) []string {
	return slices.DeleteFunc(browser.Flags(jail.ProxyAddr, trusted), func(flag string) bool { return flag == "--no-pings" })
}

// serve runs the proxy on l until the session closes.
func (s *session) serve(p *proxy.Proxy, l net.Listener) {
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Serve(l) }() // ends when the proxy closes
	s.closers = append(s.closers, func() error {
		_ = l.Close()
		_ = p.Close()
		<-done
		return nil
	})
}

// unboxed makes sessions of the engine alone: no box, no proxy, QUIC on.
func (r *run) unboxed() starter {
	return func(ctx context.Context) (*session, error) {
		if r.Unboxed == nil {
			return nil, errors.New("this run has no engine without a box for its control")
		}
		judge, err := scope.Parse("corpus.yaml", []byte(wideScope))
		if err != nil {
			return nil, err
		}
		bounds := []string{"--proxy-server", "--proxy-bypass-list", "--host-resolver-rules", "--disable-quic", "--webrtc-ip-handling-policy"}
		args := slices.DeleteFunc(flags(r.sinks.spki), func(flag string) bool {
			return slices.ContainsFunc(bounds, func(b string) bool { return strings.HasPrefix(flag, b) })
		})
		args = append(args, "--no-sandbox", "--enable-quic", "--origin-to-force-quic-on=quic.out.test:443")
		pipe, err := r.Unboxed(args)
		if err != nil {
			return nil, err
		}
		s := &session{closers: []func() error{pipe.Close}}
		if s.browser, err = browser.Open(ctx, browser.Config{Conn: pipe, Scope: judge, Timeout: 10 * time.Second}); err != nil {
			_ = pipe.Close()
			return nil, err
		}
		s.closers = append(s.closers, s.browser.Close)
		if _, err = s.browser.Do(ctx, ownedv1.Launch{Headless: true}); err != nil {
			_ = s.Close()
			return nil, err
		}
		return s, nil
	}
}

// playLimit bounds each of a vector's own actions, in milliseconds.
const playLimit = 8000

// play does what the vector says. That it fails is no error: most have to.
func (s *session) play(ctx context.Context, v Vector) {
	origin := "https://in.test"
	if v.Plain {
		origin = "http://in.test"
	}
	url := origin + "/v/" + v.Name
	if v.Goto != "" {
		url = v.fill(v.Goto)
	}
	_, _ = s.browser.Do(ctx, ownedv1.Goto{URL: url, TimeoutMS: playLimit})
	if v.Click != "" {
		_, _ = s.browser.Do(ctx, ownedv1.Click{Selector: v.Click, TimeoutMS: playLimit})
	}
	if v.Leave {
		_, _ = s.browser.Do(ctx, ownedv1.Goto{URL: "about:blank", TimeoutMS: playLimit})
	}
}

// tidy closes the tabs that a vector opened and goes back to the first.
func (s *session) tidy(ctx context.Context) {
	answer, err := s.browser.Do(ctx, ownedv1.ListTabs{})
	if err != nil {
		return
	}
	list, ok := answer.Result.(ownedv1.TabsResult)
	if !ok {
		return
	}
	for _, tab := range list.Tabs {
		if strings.HasPrefix(tab, "popup-") {
			_, _ = s.browser.Do(ctx, browser.CloseTab{TabID: tab})
		}
	}
}

func (s *session) ended() bool {
	select {
	case <-s.browser.Done():
		return true
	default:
		return false
	}
}

// Close ends the session, last part first.
func (s *session) Close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// relay is a proxy that forwards whatever it is asked to: the control of the raw
// vectors.
type relay struct {
	listener net.Listener
	resolve  func(string) []netip.Addr
	wait     sync.WaitGroup
}

func openRelay(resolve func(string) []netip.Addr) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, resolve: resolve}
	r.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.wait.Go(func() { r.forward(c) })
		}
	})
	return r, nil
}

func (r *relay) dial() (net.Conn, error) {
	return net.DialTimeout("tcp", r.listener.Addr().String(), time.Second)
}

// Close ends the relay; its conversations end by their own limit.
func (r *relay) Close() error {
	err := r.listener.Close()
	r.wait.Wait()
	return err
}

// forward reads one head and connects to whatever it names.
func (r *relay) forward(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(rawLimit))
	head := make([]byte, 4096)
	n, err := c.Read(head)
	if err != nil {
		return
	}
	method, target, host := readHead(string(head[:n]))
	authority := target
	if method != "CONNECT" {
		authority = host
		if rest, ok := strings.CutPrefix(target, "http://"); ok {
			authority, _, _ = strings.Cut(rest, "/")
			authority = authority[strings.LastIndex(authority, "@")+1:]
		}
	}
	if _, _, err := net.SplitHostPort(authority); err != nil {
		authority = net.JoinHostPort(strings.Trim(authority, "[]"), "80")
	}
	name, port, err := net.SplitHostPort(authority)
	if err != nil {
		return
	}
	if a := r.resolve(strings.TrimSuffix(name, ".")); len(a) > 0 {
		name = a[0].String()
	}
	up, err := net.DialTimeout("tcp", net.JoinHostPort(name, port), time.Second)
	if err != nil {
		return
	}
	defer up.Close()
	_ = up.SetDeadline(time.Now().Add(rawLimit))
	if method == "CONNECT" {
		_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	} else {
		_, err = up.Write(head[:n])
	}
	if err != nil {
		return
	}
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(up, c) }()
	_, _ = io.Copy(c, up)
	_ = c.Close()
	<-done
}

func readHead(head string) (method, target, host string) {
	lines := strings.Split(head, "\r\n")
	if f := strings.Fields(lines[0]); len(f) >= 2 {
		method, target = f[0], f[1]
	}
	for _, line := range lines[1:] {
		if value, ok := strings.CutPrefix(line, "Host: "); ok {
			host = value
		}
	}
	return method, target, host
}
