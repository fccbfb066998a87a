package pagesock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/live"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/pagesock"
)

// pair is a socket with the authority's side of it; serve is what the authority
// does with it.
func pair(t *testing.T, serve func(live.Conn)) *websocket.Conn {
	t.Helper()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		c, _, end, err := pagesock.Accept(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		serve(c)
		end()
	}))
	t.Cleanup(server.Close)
	ws, _, err := websocket.Dial(context.Background(), strings.Replace(server.URL, "http", "ws", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ws.CloseNow()
		<-done
	})
	return ws
}

// A read that is given up costs the socket nothing, and the close still says why.
func TestReadGivenUp(t *testing.T) {
	ctx := context.Background()
	given := make(chan error, 1)
	ws := pair(t, func(c live.Conn) {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := c.Read(short)
		given <- err
		if data, err := c.Read(ctx); err != nil || string(data) != "later" {
			t.Errorf("%q, %v", data, err)
		}
		if err := c.Write(ctx, []byte("answer")); err != nil {
			t.Error(err)
		}
		c.Close(controlv1.CloseTimeout, refusal.TimedOut)
		if _, err := c.Read(ctx); err == nil {
			t.Error("read after the close")
		}
		if err := c.Write(ctx, []byte("more")); err == nil {
			t.Error("written after the close")
		}
		c.Close(controlv1.CloseFault, refusal.Failed) // the first counts
	})
	if err := <-given; !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := ws.Write(ctx, websocket.MessageText, []byte("later")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := ws.Read(ctx); err != nil || string(data) != "answer" {
		t.Fatalf("%q, %v", data, err)
	}
	closed(t, "the close", ws, controlv1.CloseTimeout, "timeout")
}

// A write whose context is over isn't begun, and ends nothing.
func TestWriteGivenUp(t *testing.T) {
	ctx := context.Background()
	ws := pair(t, func(c live.Conn) {
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err := c.Write(over, []byte("never")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := c.Write(ctx, []byte("this")); err != nil {
			t.Error(err)
		}
		c.Close(controlv1.CloseTrust, refusal.Revoked)
	})
	if _, data, err := ws.Read(ctx); err != nil || string(data) != "this" {
		t.Fatalf("%q, %v", data, err)
	}
	closed(t, "the close", ws, controlv1.CloseTrust, "revoked")
}

// What the page said and nobody took is dropped by the close.
func TestNothingIsHandedOnAfterTheClose(t *testing.T) {
	ctx := context.Background()
	sent := make(chan struct{})
	ws := pair(t, func(c live.Conn) {
		<-sent
		time.Sleep(50 * time.Millisecond) // it waits in the adapter now
		c.Close(controlv1.CloseTrust, refusal.Killed)
		if data, err := c.Read(ctx); err == nil {
			t.Errorf("%q came after the close", data)
		}
	})
	for range 3 {
		if err := ws.Write(ctx, websocket.MessageText, []byte("late")); err != nil {
			t.Fatal(err)
		}
	}
	close(sent)
	closed(t, "the close", ws, controlv1.CloseTrust, "killed")
}

// A page that stops reading loses its socket after five seconds, and holds up
// nobody's close for longer.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	took := make(chan [2]time.Duration, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, end, err := pagesock.Accept(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		begun := time.Now()
		frame := []byte(strings.Repeat("x", controlv1.MaxFrame))
		for err == nil {
			begun = time.Now()
			err = c.Write(ctx, frame)
		}
		wrote := time.Since(begun)
		begun = time.Now()
		c.Close(controlv1.CloseTimeout, refusal.TimedOut)
		took <- [2]time.Duration{wrote, time.Since(begun)}
		end()
	}))
	defer server.Close()
	defer deaf(t, server.Listener.Addr().String()).Close()
	select {
	case d := <-took:
		if d[0] < 4*time.Second || d[0] > 25*time.Second || d[1] > 25*time.Second {
			t.Errorf("a write took %s and the close %s", d[0], d[1])
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it waits for ever")
	}
}

// A page that never answers a close doesn't keep the socket.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	took := make(chan time.Duration, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, end, err := pagesock.Accept(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		begun := time.Now()
		c.Close(controlv1.CloseTrust, refusal.Revoked)
		end()
		took <- time.Since(begun)
	}))
	defer server.Close()
	defer deaf(t, server.Listener.Addr().String()).Close()
	select {
	case d := <-took:
		if d > 25*time.Second {
			t.Errorf("it took %s", d)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it waits for ever")
	}
}

// deaf is a page that shakes hands and then neither reads nor says anything.
func deaf(t *testing.T, address string) io.Closer {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	const handshake = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	if _, err := io.WriteString(c, handshake); err != nil {
		t.Fatal(err)
	}
	return c
}
