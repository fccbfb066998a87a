package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/node"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]storetest.Role{"serve": serveRole, "mortal": mortalRole, "relayed": relayedRole})
}

// serveRole is a server in a process of its own: home, port, database.
func serveRole(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { io.Copy(io.Discard, os.Stdin); stop() }() // the test's own end
	config := node.DefaultConfig(args[0])
	config.Listen, config.PublicOrigin, config.Database = "127.0.0.1:"+args[1], "http://localhost:"+args[1], args[2]
	config.Quotas.PerSecond, config.Quotas.Burst = 1e5, 1e5 // the test is about kills
	n, err := node.Open(ctx, args[0], config, "test")
	if err != nil {
		return err
	}
	w, err := n.Welcome(ctx)
	if err != nil {
		return err
	}
	fmt.Println(w.Enrolment)
	return n.Serve(ctx)
}

// apart starts a server as a process.
func apart(t *testing.T, home, port, database string) (*storetest.Process, string) {
	t.Helper()
	return apartAs(t, "serve", home, port, database)
}

func apartAs(t *testing.T, role, home, port, database string) (*storetest.Process, string) {
	t.Helper()
	p := storetest.Start(t, role, home, port, database)
	if !p.Lines.Scan() {
		t.Fatal("the server said nothing")
	}
	link := p.Lines.Text()
	for range 400 {
		if ready("http://localhost:" + port) {
			return p, link
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the server isn't ready")
	return nil, ""
}

// A server that is killed at any moment loses no write that it acknowledged and
// repeats none that it may have made: the same request again tells what became of
// it, and the item is there once, with what was written.
func TestKilledServer(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		home, port := t.TempDir(), fmt.Sprint(free(t))
		p, link := apart(t, home, port, url)
		s := &server{t: t, home: home, origin: "http://localhost:" + port}
		_, secret, _ := strings.Cut(link, "#")
		o := s.settleBy(secret, "Ada")
		for round := range storetest.Rounds(2, 20) {
			acknowledged := o.writeUntilKilled(p, round)
			p, _ = apart(t, home, port, url)
			o.compare(round, acknowledged)
		}
		p.Process.Signal(syscall.SIGTERM)
		p.End(t)
		db := storetest.Open(t, url, store.Options{})
		if err := db.View(context.Background(), func(tx *store.Tx) error {
			var errs []error
			for _, check := range node.Invariants() {
				errs = append(errs, check(tx))
			}
			return errors.Join(errs...)
		}); err != nil {
			t.Error(err)
		}
	})
}

const writers, writes = 4, 12

func requestID(round, writer, n int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%04x%08x", round, writer, n)
}

func written(round, writer, n int) map[string]any {
	return map[string]any{"item": fmt.Sprintf("r%d/w%d/%d", round, writer, n), "request_id": requestID(round, writer, n),
		"content": fmt.Sprintf("%d-%d-%d", round, writer, n), "if_absent": true}
}

// writeUntilKilled lets several writers write and kills the server among them. It
// answers the receipts of the writes that were acknowledged.
func (o *owner) writeUntilKilled(p *storetest.Process, round int) map[string]string {
	o.t.Helper()
	var mu sync.Mutex
	receipts := map[string]string{}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range writes {
				status, body, err := o.try("PUT", "/api/collections/files/item", written(round, w, n))
				if err != nil {
					return // it is dead
				}
				var got struct{ Receipt string }
				if status == 200 && json.Unmarshal(body, &got) == nil {
					mu.Lock()
					receipts[requestID(round, w, n)] = got.Receipt
					mu.Unlock()
				}
			}
		})
	}
	time.Sleep(time.Duration(20+37*(round%7)) * time.Millisecond)
	p.Crash(o.t)
	all.Wait()
	return receipts
}

// try is one request whose connection may be cut.
func (o *owner) try(method, path string, message any) (int, []byte, error) {
	resp, err := http.DefaultTransport.RoundTrip(o.request(method, path, message, o.dress))
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, data, err
}

// compare sends every write of a round again.
func (o *owner) compare(round int, receipts map[string]string) {
	o.t.Helper()
	for w := range writers {
		for n := range writes {
			id := requestID(round, w, n)
			status, body := o.patient("PUT", "/api/collections/files/item", written(round, w, n))
			var got struct{ Receipt, Outcome string }
			json.Unmarshal(body, &got)
			want, acknowledged := receipts[id]
			switch {
			case acknowledged && (status != 200 || got.Receipt != want):
				o.t.Errorf("acknowledged write %s: %d %s, want receipt %s", id, status, body, want)
			case status == 202: // told as unknown: then it isn't repeated
			case status != 200 || got.Outcome != "created":
				o.t.Errorf("write %s: %d %s", id, status, body)
			}
			var item struct{ Content string }
			if status == 200 {
				o.get("/api/collections/files/item?item="+written(round, w, n)["item"].(string), &item)
				if item.Content != written(round, w, n)["content"] {
					o.t.Errorf("item of %s holds %q", id, item.Content)
				}
			}
		}
	}
}

// patient asks again where the server says that the same call may succeed later.
func (o *owner) patient(method, path string, message any) (int, []byte) {
	o.t.Helper()
	for range 200 {
		status, body, err := o.try(method, path, message)
		again := status == http.StatusTooManyRequests || strings.Contains(string(body), `"retryable":true`)
		if err == nil && !again {
			return status, body
		}
		time.Sleep(50 * time.Millisecond)
	}
	o.t.Fatal("it is busy for ever")
	return 0, nil
}
