package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	"chaperone/internal/node"
	"chaperone/internal/relaytest"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// relayed is a server in a process of its own, that is one of several: home, port,
// database, relay, its credentials.
func relayedRole(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { io.Copy(io.Discard, os.Stdin); stop() }()
	config := node.DefaultConfig(args[0])
	config.Listen, config.PublicOrigin, config.Database = "127.0.0.1:"+args[1], "http://localhost:"+args[1], args[2]
	config.Relay, config.RelaySecret = args[3], args[4]
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

// twin starts another node of the same server: the same origin, database and keys, at
// a port of its own.
func (s *server) twin(t *testing.T) *server {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"credential.key", "control.key"} {
		data, err := os.ReadFile(filepath.Join(s.home, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(home, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	config := node.DefaultConfig(home)
	config.Listen, config.PublicOrigin, config.Database = fmt.Sprintf("127.0.0.1:%d", free(t)), s.origin, s.config.Database
	config.Relay, config.RelaySecret = s.config.Relay, s.config.RelaySecret
	ctx, stop := context.WithCancel(context.Background())
	n, err := node.Open(ctx, home, config, "test")
	if err != nil {
		stop()
		t.Fatal(err)
	}
	b := &server{t: t, home: home, origin: s.origin, config: config, node: n, stop: stop, served: make(chan error, 1)}
	go func() { b.served <- n.Serve(ctx) }()
	t.Cleanup(b.end)
	for range 400 {
		if r, err := b.by(t).RoundTrip(request(t, "GET", s.origin+"/readyz")); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return b
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the other node isn't ready")
	return nil
}

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// by is the way to this node, whatever the origin says.
func (s *server) by(t *testing.T) *http.Transport {
	tr := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.config.Listen)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// at is a client of an owner's that asks this node by REST, and its token.
func (s *server) at(t *testing.T, o *owner, name string) (*client.Client, string) {
	t.Helper()
	var made struct{ Token string }
	o.do("POST", "/api/tokens", map[string]any{"name": name, "scopes": []string{"control:write"}, "expires_in_s": 3600, "selection": []any{}}, &made)
	carrier, err := client.NewHTTP(s.origin, func(context.Context) (string, error) { return made.Token, nil }, client.HTTPOptions{Transport: s.by(t)})
	if err != nil {
		t.Fatal(err)
	}
	return client.New(carrier), made.Token
}

// via sends an owner's call to this node.
func (s *server) via(t *testing.T, o *owner, method, path string, message any) (int, []byte) {
	t.Helper()
	r, err := s.by(t).RoundTrip(o.request(method, path, message, o.dress))
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, readAll(t, r)
}

// carried puts a bearer's token on what goes to one node.
type carried struct {
	token string
	by    http.RoundTripper
}

func (c carried) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+c.token)
	return c.by.RoundTrip(r)
}

func onRelay(url string, s *relaytest.Server) func(*node.Config) {
	return func(c *node.Config) {
		c.Database, c.Relay, c.RelaySecret = url, s.URL(), s.Credentials
	}
}

// Two nodes over one database and one relay: a tab is armed at one of them, and its
// agent and its person use the other, by REST, MCP and Approvals. No argument is in
// the database or the log.
func TestNodes(t *testing.T) {
	var logs jar
	log.SetOutput(&logs)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	bus := relaytest.Start(t, relaytest.Options{})
	s := stand(t, onRelay(storetest.Postgres(t), bus))
	o := s.settle("Ada")
	p := o.page()
	p.arm()
	p.open()
	b := s.twin(t)
	c, token := b.at(t, o, "helper")
	lease := p.lease(c)
	value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
	if err != nil {
		t.Fatal(err)
	}
	done := func(id controlv1.ID) {
		t.Helper()
		p.say(controlv1.Result{Call: id, Outcome: controlv1.Success{Value: value}})
	}

	// A read by REST, as long as it may be.
	secret := canaries{"the arguments": "canary-" + strings.Repeat("relayed", 8)}
	long := p.called(lease, "look", "long")
	text := fmt.Sprintf(`{"n":"%s%s"}`, secret["the arguments"], strings.Repeat("x", controlv1.MaxArguments-len(`{"n":""}`)-len(secret["the arguments"])))
	if long.Arguments, err = controlv1.ParseValue([]byte(text), controlv1.MaxArguments); err != nil {
		t.Fatal(err)
	}
	got := p.ask(c, long)
	call := p.hear().(controlv1.Call)
	if call.Arguments.Digest() != long.Arguments.Digest() {
		t.Error("other arguments arrive")
	}
	done(call.Call)
	if r := <-got; r.err != nil || r.receipt.Status != controlv1.StatusSucceeded || string(r.receipt.Result.Bytes()) != `{"ok":true}` {
		t.Fatalf("a read: %+v", r)
	}

	// A change by MCP, confirmed in Approvals of the other node.
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: s.origin + "/mcp", HTTPClient: &http.Client{Transport: carried{token, b.by(t)}}, DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	change := p.called(lease, "write", "change")
	if change.Arguments, err = controlv1.ParseValue([]byte(`{"n":"`+secret["the arguments"]+`"}`), controlv1.MaxArguments); err != nil {
		t.Fatal(err)
	}
	body, err := controlv1.EncodeAction(change)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	go func() {
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "browser_control", Arguments: json.RawMessage(body)})
		if err != nil {
			told <- err.Error()
			return
		}
		text, _ := json.Marshal(r.StructuredContent)
		told <- string(text)
	}()
	q := p.hear().(controlv1.ConfirmationRequest)
	status, answer := b.via(t, o, "GET", "/api/confirmations", nil)
	if status != http.StatusOK || !bytes.Contains(answer, []byte(q.Call.String())) || !bytes.Contains(answer, []byte(secret["the arguments"])) || !bytes.Contains(answer, []byte("helper")) {
		t.Fatalf("asked there: %d %s", status, answer)
	}
	if status, answer := b.via(t, o, "POST", "/api/confirmations/"+q.Call.String(), map[string]any{"confirmation_digest": q.Confirmation.String()}); status != http.StatusOK || !bytes.Contains(answer, []byte("dispatched")) {
		t.Fatalf("confirmed there: %d %s", status, answer)
	}
	done(p.hear().(controlv1.Call).Call)
	if text := <-told; !strings.Contains(text, "browser_reported_committed") || !strings.Contains(text, `"ok":true`) {
		t.Errorf("a change: %s", text)
	}

	// Denied there; cancelled there before and after it was sent.
	got = p.ask(c, p.called(lease, "write", "no"))
	q = p.hear().(controlv1.ConfirmationRequest)
	if status, answer := b.via(t, o, "DELETE", "/api/confirmations/"+q.Call.String(), map[string]any{}); status != http.StatusOK {
		t.Errorf("denied there: %d %s", status, answer)
	}
	if r := <-got; r.err != nil || r.receipt.Status != controlv1.StatusDenied {
		t.Errorf("denied: %+v", r)
	}
	stop, _ := controlv1.ParseWord("stop")
	got = p.ask(c, p.called(lease, "write", "before"))
	q = p.hear().(controlv1.ConfirmationRequest)
	if r, err := c.Cancel(t.Context(), q.Call, stop); err != nil || r.Status != controlv1.StatusCancelled || r.Effect != controlv1.NoEffect {
		t.Errorf("cancelled before: %+v, %v", r, err)
	}
	p.hear()
	<-got
	got = p.ask(c, p.called(lease, "look", "after"))
	call = p.hear().(controlv1.Call)
	cancelled := make(chan heard, 1)
	go func() { r, err := c.Cancel(t.Context(), call.Call, stop); cancelled <- heard{r, err} }()
	p.hear()
	p.say(controlv1.Cancelled{Call: call.Call, Effect: controlv1.NoEffect})
	if r := <-cancelled; r.err != nil || r.receipt.Status != controlv1.StatusCancelled {
		t.Errorf("cancelled after: %+v", r)
	}
	<-got

	// The relay is down: it is told, and nothing else is.
	bus.Down()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		status, answer := b.via(t, o, "GET", "/readyz", nil)
		if status == http.StatusOK && bytes.Contains(answer, []byte("relay is down")) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("/readyz: %d %s", status, answer)
		}
	}
	var no *client.Refused
	if _, err := c.Call(t.Context(), p.called(lease, "look", "down")); !errors.As(err, &no) || string(no.Code) != "browser_channel_unavailable" {
		t.Errorf("while the relay is down: %v", err)
	}
	bus.Up()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, answer := b.via(t, o, "GET", "/readyz", nil); !bytes.Contains(answer, []byte("relay is down")) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the relay doesn't come up again")
		}
	}

	// The person stops all there: the socket here closes.
	if status, answer := b.via(t, o, "POST", "/api/kill", map[string]any{"scope": "principal"}); status != http.StatusOK {
		t.Fatalf("stopping there: %d %s", status, answer)
	}
	p.closed("stopped at the other node", controlv1.CloseTrust, "killed")
	b.end()
	s.end()
	s.invariants(t)
	secret.none(t, "the log", logs.bytes())
	for _, home := range []*server{s, b} {
		home.search(t, secret)
	}
	db := storetest.Open(t, s.config.Database, store.Options{})
	rows := 0
	if err := db.View(t.Context(), func(tx *store.Tx) error {
		tables, err := tx.Texts(`select table_name::text from information_schema.tables where table_schema='public'`)
		for _, table := range tables {
			all, err := tx.Texts(`select to_jsonb(x)::text from "` + table + `" x`)
			if err != nil {
				return err
			}
			for _, row := range all {
				rows++
				secret.none(t, table, []byte(row))
			}
		}
		return err
	}); err != nil || rows < 50 {
		t.Errorf("%d rows were searched: %v", rows, err)
	}
}

// The page's node is killed in the middle of calls that came by another: what was sent
// is unknown, what waited has no effect, and neither is ever sent again.
func TestNodesKilled(t *testing.T) {
	bus := relaytest.Start(t, relaytest.Options{})
	url, home, port := storetest.Postgres(t), t.TempDir(), fmt.Sprint(free(t))
	process, link := storetest.Start(t, "relayed", home, port, url, bus.URL(), bus.Credentials), ""
	if !process.Lines.Scan() {
		t.Fatal("the server said nothing")
	}
	_, link, _ = strings.Cut(process.Lines.Text(), "#")
	s := &server{t: t, home: home, origin: "http://localhost:" + port}
	for range 400 {
		if ready(s.origin) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.config = node.DefaultConfig(home)
	s.config.Database, s.config.Relay, s.config.RelaySecret = url, bus.URL(), bus.Credentials
	o := s.settleBy(link, "Ada")
	p := o.page()
	p.arm()
	p.open()
	b := s.twin(t)
	c, _ := b.at(t, o, "helper")
	lease := p.lease(c)
	asked := p.ask(c, p.called(lease, "write", "asked"))
	p.hear()
	sent := p.ask(c, p.called(lease, "look", "sent"))
	p.hear()
	process.Crash(t)
	if r := <-sent; r.err != nil || r.receipt.Status != controlv1.StatusUnknown && r.receipt.Code != "reconciliation_window_expired" {
		t.Errorf("what was sent: %+v", r)
	}
	// Its own end, or that of its page's arm, whichever is found first.
	if r := <-asked; r.err != nil || r.receipt.Code != "browser_call_not_dispatched" && r.receipt.Code != "browser_channel_unavailable" || r.receipt.Effect != controlv1.NoEffect {
		t.Errorf("what waited: %+v", r)
	}
	if _, err := c.Call(t.Context(), p.called(lease, "look", "later")); err == nil {
		t.Error("a lease of a page that is gone is good")
	}
	if all, err := c.Documents(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("documents: %v, %v", all, err)
	}
	b.end()
	b.invariants(t)
}

// A node whose relay it may not use doesn't start, and tells no secret.
func TestRelayRefusedAtStart(t *testing.T) {
	bus := relaytest.Start(t, relaytest.Options{})
	home := t.TempDir()
	wrong := filepath.Join(home, "wrong")
	if err := os.WriteFile(wrong, []byte("node:another"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*node.Config){
		"another password": func(c *node.Config) { c.RelaySecret = wrong },
		"nobody there":     func(c *node.Config) { c.Relay = "nats://localhost:1" },
		"an open server":   func(c *node.Config) { c.Relay = relaytest.Start(t, relaytest.Options{Open: true}).URL() },
	} {
		config := node.DefaultConfig(home)
		config.Relay, config.RelaySecret = bus.URL(), bus.Credentials
		edit(&config)
		n, err := node.Open(t.Context(), home, config, "test")
		if err == nil {
			n.Close(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), "relay") || strings.Contains(err.Error(), "another") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
