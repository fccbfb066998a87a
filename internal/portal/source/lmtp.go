package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// Bounds of the LMTP server.
const (
	MaxMessage       = 25 << 20 // bytes
	maxRecipients    = 100
	maxDeliveries    = 16 // connections at once
	deliveryIdle     = 2 * time.Minute
	deliveryShutdown = 10 * time.Second // what runs when the server ends
)

// ServeLMTP takes mail over LMTP (RFC 2033) and puts it into the mailboxes of m
// until ctx ends; then running deliveries have ten seconds. find answers where the
// mail of a recipient goes, by the part before its @, or false for nobody here.
//
// Each recipient gets an answer of its own, and 250 only once the message is on
// disk. A message over [MaxMessage] is 552, an unknown recipient 550, a mailbox
// that can't be written 451: the sender tries again.
func ServeLMTP(ctx context.Context, l net.Listener, m *Maildir, find func(ctx context.Context, local string) (Place, bool)) error {
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &delivery{ctx: ctx, box: m, find: find}, nil
	}))
	s.LMTP, s.Domain = true, "chaperone"
	s.MaxMessageBytes, s.MaxRecipients = MaxMessage, maxRecipients
	s.ReadTimeout, s.WriteTimeout = deliveryIdle, deliveryIdle
	s.EnableSMTPUTF8 = true
	s.ErrorLog = silent{} // its lines hold what a client sent
	few := &fewConns{Listener: l, room: make(chan struct{}, maxDeliveries), conns: map[net.Conn]bool{}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(few) }()
	select {
	case err := <-served:
		few.closeAll()
		return errors.Join(err, drain(s))
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryShutdown)
	defer cancel()
	few.closeIdle()
	err := s.Shutdown(end)
	few.closeAll()
	few.wait.Wait()
	<-served
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// drain waits for the connections of a server whose listener failed.
func drain(s *smtp.Server) error {
	end, cancel := context.WithTimeout(context.Background(), deliveryShutdown)
	defer cancel()
	if err := s.Shutdown(end); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// delivery is one connection's transaction.
type delivery struct {
	ctx  context.Context
	box  *Maildir
	find func(context.Context, string) (Place, bool)
	from string
	to   []recipient
}

type recipient struct {
	address string
	place   Place
}

var (
	errNobody  = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such mailbox here"}
	errLater   = &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "the mailbox can't be written now"}
	errTooBig  = &smtp.SMTPError{Code: 552, EnhancedCode: smtp.EnhancedCode{5, 3, 4}, Message: "the message is over 25 MiB"}
	errNothing = &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 4, 2}, Message: "the message didn't come whole"}
	errEnding  = &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "the server ends"}
)

// Reset forgets the transaction.
func (d *delivery) Reset() { d.from, d.to = "", nil }

// Logout ends the connection's session.
func (d *delivery) Logout() error { return nil }

// Mail begins a transaction.
func (d *delivery) Mail(from string, _ *smtp.MailOptions) error {
	if d.ctx.Err() != nil {
		return errEnding
	}
	d.from = from
	return nil
}

// Rcpt looks the recipient up.
func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error {
	local := to
	if i := strings.LastIndexByte(to, '@'); i >= 0 {
		local = to[:i]
	}
	place, known := d.find(d.ctx, local)
	if !known {
		return errNobody
	}
	d.to = append(d.to, recipient{to, place})
	return nil
}

// Data is LMTPData for a client that asks for one answer.
func (d *delivery) Data(r io.Reader) error {
	message, err := d.read(r)
	if err != nil {
		return err
	}
	for _, to := range d.to {
		if err := d.box.Deliver(to.place, message); err != nil {
			return errLater
		}
	}
	return nil
}

// LMTPData delivers to each recipient and answers for each.
func (d *delivery) LMTPData(r io.Reader, status smtp.StatusCollector) error {
	message, err := d.read(r)
	if err != nil {
		return err
	}
	for _, to := range d.to {
		if err := d.box.Deliver(to.place, message); err != nil {
			status.SetStatus(to.address, errLater)
			continue
		}
		status.SetStatus(to.address, nil)
	}
	return nil
}

// read reads the message and puts the sender above it, as a final delivery does.
func (d *delivery) read(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	if !strings.ContainsAny(d.from, "\r\n<>") {
		b.WriteString("Return-Path: <" + d.from + ">\r\n")
	}
	_, err := io.Copy(&b, io.LimitReader(r, MaxMessage+1))
	switch {
	case errors.Is(err, smtp.ErrDataTooLarge), err == nil && b.Len() > MaxMessage+1024:
		return nil, errTooBig
	case err != nil:
		return nil, errNothing
	}
	return b.Bytes(), nil
}

// fewConns bounds the connections of a listener, and can end them.
type fewConns struct {
	net.Listener
	room chan struct{}
	wait sync.WaitGroup

	mu    sync.Mutex // over conns and ended
	conns map[net.Conn]bool
	ended bool
}

// Accept waits for room.
func (f *fewConns) Accept() (net.Conn, error) {
	f.room <- struct{}{}
	c, err := f.Listener.Accept()
	if err != nil {
		<-f.room
		return nil, err
	}
	f.wait.Add(1)
	one := &oneConn{Conn: c, of: f}
	f.mu.Lock()
	f.conns[one] = true
	ended := f.ended
	f.mu.Unlock()
	if ended {
		return nil, errors.Join(net.ErrClosed, one.Close())
	}
	return one, nil
}

// closeIdle makes every connection that waits for its client's next word give up
// now; what a client already sent is still taken.
func (f *fewConns) closeIdle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.(*oneConn).hurry()
	}
}

// closeAll ends every connection.
func (f *fewConns) closeAll() {
	f.mu.Lock()
	f.ended = true
	all := make([]net.Conn, 0, len(f.conns))
	for c := range f.conns {
		all = append(all, c)
	}
	f.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// oneConn gives its room back once.
type oneConn struct {
	net.Conn
	of   *fewConns
	once sync.Once

	mu      sync.Mutex // over hurried
	hurried bool
}

// hurryTime is what a client has for its next word once the server ends.
const hurryTime = time.Second

func (c *oneConn) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurried = true
	c.Conn.SetReadDeadline(time.Now().Add(hurryTime))
}

// SetReadDeadline keeps the earlier end.
func (c *oneConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hurried {
		t = time.Now().Add(hurryTime)
	}
	return c.Conn.SetReadDeadline(t)
}

// Close closes it.
func (c *oneConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		err = c.Conn.Close()
		c.of.mu.Lock()
		delete(c.of.conns, c)
		c.of.mu.Unlock()
		<-c.of.room
		c.of.wait.Done()
	})
	return err
}
