package source

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"chaperone/internal/portal/tool"
)

// Bounds of connections to an IMAP server.
const (
	maxIdle     = 4                // kept for a login
	idleFor     = 4 * time.Minute  // then closed
	askAfter    = 10 * time.Second // an idle one is asked whether it lives
	maxAnswer   = 16 << 20         // bytes that one operation reads
	dialTimeout = 10 * time.Second // where the context has a later end
)

// session is one signed-in connection. Closing it is the one way to interrupt it:
// each operation closes it when its context ends.
type session struct {
	*imapclient.Client
	wire  *wire
	since time.Time // idle since
}

// wire is the connection below the client: it counts what an operation reads, and
// keeps the lines that tell of a conditional store.
type wire struct {
	net.Conn              // encrypted, where it is
	raw      net.Conn     // below the encryption
	left     atomic.Int64 // bytes this operation may still read
	greeting []byte       // read before the connection was encrypted

	mu    sync.Mutex // over armed and heard
	armed bool
	heard []byte
}

var errTooMuch = errors.New("the server answers more than it may")

// Close closes the socket itself: a farewell could wait for a server that hangs.
func (w *wire) Close() error { return w.raw.Close() }

// Read counts.
func (w *wire) Read(b []byte) (int, error) {
	if len(w.greeting) > 0 {
		n := copy(b, w.greeting)
		w.greeting = w.greeting[n:]
		return n, nil
	}
	left := w.left.Load()
	if left <= 0 {
		return 0, errTooMuch
	}
	n, err := w.Conn.Read(b[:min(int64(len(b)), left)])
	w.left.Add(int64(-n))
	w.mu.Lock()
	if w.armed && len(w.heard) < 64<<10 {
		w.heard = append(w.heard, b[:n]...)
	}
	w.mu.Unlock()
	return n, err
}

// listen keeps what comes from now on.
func (w *wire) listen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed, w.heard = true, nil
}

// modified ends listen and tells whether a tagged line said that the condition of
// a STORE didn't hold (RFC 7162, section 3.1.3), which the client's library
// doesn't hand on.
func (w *wire) modified() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	for line := range bytes.Lines(w.heard) {
		tag, rest, _ := bytes.Cut(line, []byte(" "))
		_, code, _ := bytes.Cut(rest, []byte(" "))
		if len(tag) > 1 && tag[0] == 'T' && bytes.HasPrefix(bytes.ToUpper(code), []byte("[MODIFIED ")) {
			return true
		}
	}
	return false
}

// dial opens, encrypts and signs in.
func (s *IMAP) dial(ctx context.Context, login Login) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	secret, err := readSecret(login.PasswordFile)
	if err != nil {
		return nil, errDisconnected
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.config.Address)
	if err != nil {
		return nil, errUnavailable
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	w := &wire{raw: conn}
	w.left.Store(maxAnswer)
	if w.Conn, w.greeting, err = s.encrypt(ctx, conn); err != nil {
		conn.Close()
		return nil, errUnavailable
	}
	c := &session{Client: imapclient.New(w, nil), wire: w}
	err = s.signIn(c, login.Username, secret)
	if err == nil && !stop() {
		err = errUnavailable // the deadline closed it at the last moment
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// encrypt answers the connection as the configuration wants it. After STARTTLS
// the client is told a greeting of ours, since the server says it only once.
func (s *IMAP) encrypt(ctx context.Context, conn net.Conn) (net.Conn, []byte, error) {
	if s.config.TLS == TLSNone {
		return conn, nil, nil
	}
	if s.config.TLS == TLSStart {
		if err := startTLS(conn); err != nil {
			return nil, nil, err
		}
	}
	secure := tls.Client(conn, s.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	if s.config.TLS == TLSStart {
		return secure, []byte("* OK secured\r\n"), nil
	}
	return secure, nil, nil
}

// startTLS asks for encryption on the bare connection, byte by byte, so that
// nothing that follows is taken for an answer of the encrypted one.
func startTLS(conn net.Conn) error {
	greeting, err := readLine(conn)
	if err != nil || !strings.HasPrefix(greeting, "* OK") {
		return errors.New("no greeting")
	}
	if _, err := io.WriteString(conn, "a1 STARTTLS\r\n"); err != nil {
		return err
	}
	for range 10 {
		line, err := readLine(conn)
		if err != nil {
			return err
		}
		if strings.HasPrefix(line, "a1 ") {
			if strings.HasPrefix(line, "a1 OK") {
				return nil
			}
			return errors.New("STARTTLS refused")
		}
	}
	return errors.New("STARTTLS unanswered")
}

func readLine(r io.Reader) (string, error) {
	var line []byte
	var b [1]byte
	for len(line) < 1024 {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return "", err
		}
		if line = append(line, b[0]); b[0] == '\n' {
			return string(line), nil
		}
	}
	return "", errTooMuch
}

// signIn signs in and looks whether the server can what this source promises.
func (s *IMAP) signIn(c *session, user, secret string) error {
	if err := c.WaitGreeting(); err != nil {
		return errUnavailable
	}
	if err := c.Login(user, secret).Wait(); err != nil {
		if told, ok := errors.AsType[*imap.Error](err); ok && told.Type == imap.StatusResponseTypeNo && told.Code != imap.ResponseCodeUnavailable {
			return tool.Fail(tool.SourceDisconnected, "cause", "credentials")
		}
		return errUnavailable
	}
	caps := c.Caps()
	if caps == nil {
		return errUnavailable
	}
	for _, needed := range []imap.Cap{imap.CapCondStore, imap.CapUIDPlus, imap.CapMove} {
		if !caps.Has(needed) {
			return tool.Fail(tool.SourceDisconnected, "cause", "capability")
		}
	}
	return nil
}

// with runs fn on a connection of the login. When ctx ends the connection is
// closed, so whatever fn waits for ends too. A connection that failed isn't kept.
func (s *IMAP) with(ctx context.Context, login Login, fn func(*session) error) error {
	c, err := s.take(ctx, login)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	c.wire.left.Store(maxAnswer)
	err = fn(c)
	alive := stop() && c.State() != imap.ConnStateLogout
	_, protocol := errors.AsType[*imap.Error](err)
	_, ours := errors.AsType[*tool.Error](err)
	if !alive || err != nil && !protocol && !ours {
		c.Close()
		return err
	}
	s.give(login, c)
	return err
}

// take answers an idle connection that lives, or a fresh one.
func (s *IMAP) take(ctx context.Context, login Login) (*session, error) {
	for {
		c := s.idle(login)
		if c == nil {
			return s.dial(ctx, login)
		}
		if time.Since(c.since) < askAfter && c.State() != imap.ConnStateLogout {
			return c, nil
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		c.wire.left.Store(maxAnswer)
		err := c.Noop().Wait()
		if stop() && err == nil {
			return c, nil
		}
		c.Close()
		if ctx.Err() != nil {
			return nil, errUnavailable
		}
	}
}

func (s *IMAP) idle(login Login) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.kept[login]
	for len(kept) > 0 {
		c := kept[len(kept)-1]
		kept = kept[:len(kept)-1]
		s.kept[login] = kept
		if time.Since(c.since) < idleFor {
			return c
		}
		c.Close()
	}
	return nil
}

func (s *IMAP) give(login Login, c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.since = time.Now()
	if s.closed || len(s.kept[login]) >= maxIdle {
		c.Close()
		return
	}
	s.kept[login] = append(s.kept[login], c)
}

// Close ends the idle connections; those in use end with their operations.
func (s *IMAP) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for login, kept := range s.kept {
		for _, c := range kept {
			c.Close()
		}
		delete(s.kept, login)
	}
	return nil
}

// readSecret reads a secret's file, without the line's end.
func readSecret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return strings.TrimRight(string(text), "\r\n"), errors.Join(err, f.Close())
}

// tlsConfig answers how servers of that host are met.
func tlsConfig(host, caFile string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return c, nil
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("ca_file holds no certificate")
	}
	return c, nil
}
