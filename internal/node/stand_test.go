package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	"chaperone/internal/node"
	"chaperone/internal/pagetest"
)

// server is a whole node on a port of its own.
type server struct {
	t      testing.TB
	home   string
	origin string
	config node.Config
	node   *node.Node
	stop   context.CancelFunc
	served chan error
}

// stand starts a server over a fresh home; edit changes its configuration.
func stand(t testing.TB, edit func(*node.Config)) *server {
	t.Helper()
	home := t.TempDir()
	config := node.DefaultConfig(home)
	port := free(t)
	config.Listen, config.PublicOrigin = fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("http://localhost:%d", port)
	if edit != nil {
		edit(&config)
	}
	s := &server{t: t, home: home, origin: config.PublicOrigin, config: config}
	s.start()
	t.Cleanup(s.end)
	return s
}

// free answers a port below those that the system gives out, so that nobody takes
// it while a server is between an end and its next start.
func free(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// ready asks a server whether it serves. Whoever else listens there may never answer.
func ready(origin string) bool {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(origin + "/readyz")
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == http.StatusOK
}

func (s *server) start() {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	n, err := node.Open(ctx, s.home, s.config, "test")
	if err != nil {
		stop()
		s.t.Fatal(err)
	}
	s.node, s.stop, s.served = n, stop, make(chan error, 1)
	go func() { s.served <- n.Serve(ctx) }()
	for range 200 {
		if ready(s.origin) {
			return
		}
		select {
		case err := <-s.served:
			s.stop = nil
			s.t.Fatalf("the server ended with %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.t.Fatal("the server isn't ready")
}

// end stops the server in order and waits for it.
func (s *server) end() {
	if s.stop == nil {
		return
	}
	s.stop()
	s.stop = nil
	http.DefaultClient.CloseIdleConnections()
	if err := <-s.served; err != nil {
		s.t.Errorf("the server ended with %v", err)
	}
}

// enrol makes the first person, with a passkey in the page's authenticator, and
// signs them in: the page is at Home afterwards. It answers the authenticator.
func (s *server) enrol(p *pagetest.Page, name string) string {
	s.t.Helper()
	w, err := s.node.Welcome(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	key := p.Authenticator()
	p.Goto(w.Enrolment)
	p.Wait(`document.activeElement?.id === "name"`)
	p.Fill("#name", name)
	p.Click("#enrol button[type=submit]")
	p.Wait(`!document.querySelector("#codes").hidden`)
	p.Click("#saved")
	p.Click("#go")
	p.Wait(`document.querySelector("#passkey")`)
	p.Click("#passkey")
	p.Wait(`location.pathname === "/" && document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
	return key
}
