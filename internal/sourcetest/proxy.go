package sourcetest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Fault is what a Proxy does to a connection.
type Fault int

// Faults. They apply to what comes from now on, on old connections and new ones.
const (
	Pass    Fault = iota
	Hang          // nothing goes either way; the connection stays open
	Mute          // requests arrive, answers don't
	Cut           // connections are ended, new ones at once
	Garble        // every seventh byte of an answer is turned over
	Trickle       // an answer ends after 20 bytes and the connection stays open
	Refuse        // nothing listens
)

// Proxy stands between a client and a server. Safe for concurrent use.
type Proxy struct {
	Address string // HOST:PORT
	target  string
	wait    sync.WaitGroup

	mu       sync.Mutex // over what follows
	listener net.Listener
	fault    Fault
	conns    map[net.Conn]bool
	ended    bool
	seen     int // bytes of requests that reached the server
}

// Through starts a proxy before target that ends with the test.
func Through(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: l.Addr().String(), target: target, listener: l, conns: map[net.Conn]bool{}}
	p.wait.Go(func() { p.accept(l) })
	t.Cleanup(func() {
		p.mu.Lock()
		p.ended = true
		p.listener.Close()
		p.endAll()
		p.mu.Unlock()
		p.wait.Wait()
	})
	return p
}

// Set sets the fault.
func (p *Proxy) Set(t testing.TB, f Fault) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == Refuse && f != Refuse {
		l, err := net.Listen("tcp", p.Address)
		if err != nil {
			t.Fatal(err)
		}
		p.listener = l
		p.wait.Go(func() { p.accept(l) })
	}
	p.fault = f
	switch f {
	case Refuse:
		p.listener.Close()
		p.endAll()
	case Cut:
		p.endAll()
	}
}

// Sent answers how many bytes of requests reached the server.
func (p *Proxy) Sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (p *Proxy) endAll() {
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) now() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// hold keeps a connection to end it; false where all is over.
func (p *Proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.fault == Cut || p.fault == Refuse {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

func (p *Proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if !p.hold(c) {
			continue
		}
		s, err := net.Dial("tcp", p.target)
		if err != nil || !p.hold(s) {
			p.drop(c)
			continue
		}
		p.wait.Go(func() { defer p.drop(s); p.pump(s, c, false) })
		p.wait.Go(func() { defer p.drop(c); p.pump(c, s, true) })
	}
}

// pump copies from one to the other under the fault of the moment.
func (p *Proxy) pump(to io.Writer, from io.Reader, answer bool) {
	buf, count, told := make([]byte, 32<<10), 0, 0
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		b := buf[:n]
		switch f := p.now(); {
		case f == Hang, f == Mute && answer:
			continue
		case f == Garble && answer:
			for i := range b {
				if count++; count%7 == 0 {
					b[i] ^= 0x15
				}
			}
		case f == Trickle && answer:
			b = b[:min(len(b), max(0, 20-told))]
			told += len(b)
		default:
			told = 0
		}
		if !answer {
			p.mu.Lock()
			p.seen += len(b)
			p.mu.Unlock()
		}
		if _, err := to.Write(b); err != nil {
			return
		}
	}
}
