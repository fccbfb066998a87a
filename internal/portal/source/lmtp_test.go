package source_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"chaperone/internal/portal/source"
)

// lmtp starts a server that knows ada and bob, and answers its address and their
// places.
func lmtp(t *testing.T, m *source.Maildir) (string, map[string]source.Place) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]source.Place{"ada": freshPlace(t), "bob": freshPlace(t)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- source.ServeLMTP(ctx, l, m, func(_ context.Context, local string) (source.Place, bool) {
			p, ok := known[local]
			return p, ok
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the server doesn't end")
		}
	})
	return l.Addr().String(), known
}

func newMaildir(t *testing.T) (*source.Maildir, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mail")
	m, err := source.NewMaildir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m, dir
}

// deliver sends a message over LMTP and answers each recipient's status.
func deliver(t *testing.T, address string, message []byte, to ...string) map[string]int {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := smtp.NewClientLMTP(conn)
	defer c.Close()
	got := map[string]int{}
	tell := func(rcpt string, err error) {
		got[rcpt] = 250
		if told, ok := errors.AsType[*smtp.SMTPError](err); ok {
			got[rcpt] = told.Code
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Mail("sender@example.org", nil); err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for _, rcpt := range to {
		if err := c.Rcpt(rcpt, nil); err != nil {
			tell(rcpt, err)
			continue
		}
		accepted++
	}
	if accepted == 0 {
		return got
	}
	w, err := c.Data()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(message); err != nil {
		t.Fatal(err)
	}
	done, err := w.CloseWithLMTPResponse()
	for rcpt := range done {
		got[rcpt] = 250
	}
	if refused, ok := errors.AsType[smtp.LMTPDataError](err); ok {
		for rcpt, told := range refused {
			got[rcpt] = told.Code
		}
	} else if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestLMTP(t *testing.T) {
	m, _ := newMaildir(t)
	address, places := lmtp(t, m)
	got := deliver(t, address, message("to both"), "ada@example.org", "bob@example.org", "eve@example.org", "../../x@example.org")
	if fmt.Sprint(got) != fmt.Sprint(map[string]int{"ada@example.org": 250, "bob@example.org": 250, "eve@example.org": 550, "../../x@example.org": 550}) {
		t.Errorf("statuses %v", got)
	}
	for who, p := range places {
		all, _ := list(t, m, p, 10, source.Query{})
		if len(all) != 1 || all[0].Title != "to both" {
			t.Fatalf("%s has %v", who, titles(all))
		}
		c, err := m.Read(usual(t), p, all[0].Item, 0, 1<<16)
		want(t, err, "")
		if !bytes.Equal(c.Bytes, append([]byte("Return-Path: <sender@example.org>\r\n"), message("to both")...)) {
			t.Errorf("%s reads %q", who, c.Bytes)
		}
	}
	// Dots and bare lines come back as they were sent.
	dotted := []byte("Subject: dots\r\n\r\n.\r\n..x\r\n.y\r\n")
	deliver(t, address, dotted, "ada@example.org")
	found, _ := list(t, m, places["ada"], 10, source.Query{Query: "dots"})
	c, err := m.Read(usual(t), places["ada"], found[0].Item, 0, 1<<16)
	want(t, err, "")
	if !bytes.HasSuffix(c.Bytes, dotted) {
		t.Errorf("%q", c.Bytes)
	}
}

func TestLMTPBounds(t *testing.T) {
	m, dir := newMaildir(t)
	address, places := lmtp(t, m)
	big := append([]byte("Subject: big\r\n\r\n"), bytes.Repeat([]byte(strings.Repeat("x", 998)+"\r\n"), 26<<10)...)
	if got := deliver(t, address, big, "ada@example.org"); got["ada@example.org"] != 552 {
		t.Errorf("26 MiB: %v", got)
	}
	if n, _, _ := m.Count(usual(t), places["ada"]); n != 0 {
		t.Errorf("%d messages after a refused one", n)
	}
	fits := append([]byte("Subject: fits\r\n\r\n"), bytes.Repeat([]byte(strings.Repeat("x", 998)+"\r\n"), 5000)...)
	if got := deliver(t, address, fits, "ada@example.org"); got["ada@example.org"] != 250 {
		t.Errorf("5 MB: %v", got)
	}
	// A mailbox that can't be written is the sender's to try again.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := deliver(t, address, message("x"), "bob@example.org"); got["bob@example.org"] != 451 {
		t.Errorf("no place to write: %v", got)
	}
}

// TestLMTPBroken: a client that goes away in the middle leaves nothing, and one
// that says nothing doesn't keep the server from ending.
func TestLMTPBroken(t *testing.T) {
	m, _ := newMaildir(t)
	address, places := lmtp(t, m)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	say := func(line string) {
		t.Helper()
		fmt.Fprintf(conn, "%s\r\n", line)
		for {
			answer, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if len(answer) > 3 && answer[3] == ' ' {
				return
			}
		}
	}
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	say("LHLO test")
	say("MAIL FROM:<x@example.org>")
	say("RCPT TO:<ada@example.org>")
	say("DATA")
	fmt.Fprint(conn, "Subject: half\r\n\r\nand then")
	conn.Close()
	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { idle.Close() })
	time.Sleep(100 * time.Millisecond)
	if n, _, _ := m.Count(usual(t), places["ada"]); n != 0 {
		t.Errorf("half a message was delivered")
	}
}

// TestManyDeliveries: at once, each whole and each once.
func TestManyDeliveries(t *testing.T) {
	m, _ := newMaildir(t)
	address, places := lmtp(t, m)
	var wait sync.WaitGroup
	for n := range 40 {
		wait.Go(func() { deliver(t, address, message(fmt.Sprintf("number %02d", n)), "ada@example.org") })
	}
	wait.Wait()
	all, _ := list(t, m, places["ada"], 7, source.Query{})
	seen := map[string]bool{}
	for _, i := range all {
		seen[i.Title] = true
	}
	if len(all) != 40 || len(seen) != 40 {
		t.Errorf("%d messages, %d of them different", len(all), len(seen))
	}
}

// TestDeliveryCrash: a delivery that ends before its last step is no message, and a
// later one removes what is left of it.
func TestDeliveryCrash(t *testing.T) {
	m, dir := newMaildir(t)
	p := freshPlace(t)
	count := func(want int) {
		t.Helper()
		if n, _, err := m.Count(usual(t), p); n != want || err != nil {
			t.Errorf("counts %d %v, want %d", n, err, want)
		}
	}
	left := func(want int) []string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(mailboxDir(t, dir), "tmp", "*"))
		if err != nil || len(all) != want {
			t.Errorf("%v %v is left, want %d", all, err, want)
		}
		return all
	}
	m.Stop(func(string) error { return errCrash })
	if err := m.Deliver(p, message("half")); err == nil {
		t.Error("the crash wasn't told")
	}
	m.Stop(nil)
	count(0)
	half := left(1)
	if err := m.Deliver(p, message("whole")); err != nil {
		t.Fatal(err)
	}
	count(1)
	left(1) // it is young: somebody may be writing it
	long := time.Now().Add(-37 * time.Hour)
	if err := os.Chtimes(half[0], long, long); err != nil {
		t.Fatal(err)
	}
	if err := m.Deliver(p, message("next")); err != nil {
		t.Fatal(err)
	}
	count(2)
	left(0)
}
