package node_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	attended "chaperone/internal/attended/ledger"
	"chaperone/internal/audit"
	"chaperone/internal/node"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

func ident(t testing.TB, s string) controlv1.ID {
	t.Helper()
	id, err := controlv1.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// workflow makes a token of the owner's for attended control, and a client with it.
func (o *owner) workflow(name string) (c *client.Client, connection string) {
	o.t.Helper()
	var made struct {
		Token      string `json:"token"`
		Connection string `json:"connection_id"`
	}
	o.do("POST", "/api/tokens", map[string]any{"name": name, "scopes": []string{"kg:write"}, "expires_in_s": 3600, "selection": []any{}}, &made)
	carrier, err := client.NewHTTP(o.s.origin, func(context.Context) (string, error) { return made.Token, nil }, client.HTTPOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return client.New(carrier), made.Connection
}

// lease takes one over the page's tools.
func (p *page) lease(c *client.Client) controlv1.LeaseReceipt {
	p.t.Helper()
	all, err := c.Documents(p.t.Context())
	if err != nil || len(all) != 1 || all[0].Catalog.Digest() != p.catalog.Digest() {
		p.t.Fatalf("documents: %v, %v", all, err)
	}
	l, err := c.Lease(p.t.Context(), all[0].Ref, 5*time.Minute, ident(p.t, "look"), ident(p.t, "write"))
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

func (p *page) called(l controlv1.LeaseReceipt, tool, name string) controlv1.ExecuteCall {
	p.t.Helper()
	v, err := controlv1.ParseValue([]byte(`{"n":"`+name+`"}`), controlv1.MaxArguments)
	if err != nil {
		p.t.Fatal(err)
	}
	return controlv1.ExecuteCall{Lease: l.Lease, Request: ident(p.t, name), Tool: ident(p.t, tool), Schemas: p.catalog.Tool(ident(p.t, tool)).Schemas(), Arguments: v}
}

type heard struct {
	receipt controlv1.Receipt
	err     error
}

func (p *page) ask(c *client.Client, e controlv1.ExecuteCall) <-chan heard {
	out := make(chan heard, 1)
	go func() {
		r, err := c.Do(p.t.Context(), e)
		out <- heard{r, err}
	}()
	return out
}

// An agent acts in a page of a whole server: a read, and a change after its person's
// yes, which are exported; taking its token back ends what waits, and a switch that
// another process sets ends the page.
func TestActing(t *testing.T) {
	var exports atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		exports.Add(1)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	s := stand(t, func(c *node.Config) { c.Telemetry.OTLP = collector.URL })
	o := s.settle("Ada")
	p := o.page()
	p.arm()
	p.open()
	c, connection := o.workflow("helper")
	lease := p.lease(c)
	value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
	if err != nil {
		t.Fatal(err)
	}

	got := p.ask(c, p.called(lease, "look", "one"))
	call := p.hear().(controlv1.Call)
	p.say(controlv1.Result{Call: call.Call, Outcome: controlv1.Success{Value: value}})
	read := <-got
	if read.err != nil || read.receipt.Status != controlv1.StatusSucceeded || read.receipt.Telemetry == controlv1.NotConfigured {
		t.Fatalf("a read: %+v", read)
	}
	got = p.ask(c, p.called(lease, "write", "two"))
	q := p.hear().(controlv1.ConfirmationRequest)
	p.say(controlv1.Confirm{Call: q.Call, Confirmation: q.Confirmation})
	call = p.hear().(controlv1.Call)
	p.say(controlv1.Result{Call: call.Call, Outcome: controlv1.Success{Value: value}})
	if r := <-got; r.err != nil || r.receipt.Effect != controlv1.Committed || r.receipt.Level != controlv1.VisibleClick {
		t.Errorf("a change: %+v", r)
	}
	for n := 0; read.receipt.Telemetry != controlv1.Recorded; n++ {
		if n > 100 {
			t.Fatalf("telemetry is %s after %d exports", read.receipt.Telemetry, exports.Load())
		}
		time.Sleep(100 * time.Millisecond)
		if read.receipt, err = c.Wait(t.Context(), read.receipt.Call, 0); err != nil {
			t.Fatal(err)
		}
	}

	// What waits for a person ends with the token that asked for it.
	got = p.ask(c, p.called(lease, "write", "three"))
	q = p.hear().(controlv1.ConfirmationRequest)
	if status, body := o.send("DELETE", "/api/connections/"+connection, nil, o.dress); status != http.StatusNoContent {
		t.Fatalf("revoking: %d %s", status, body)
	}
	if f := p.hear().(controlv1.Cancel); f.Call != q.Call {
		t.Errorf("the page is told of %s", f.Call)
	}
	if r := <-got; r.err == nil && r.receipt.Status != controlv1.StatusCancelled || r.err != nil && refusal.Of(r.err) != refusal.Unauthenticated {
		t.Errorf("what waited: %+v", r)
	}
	if _, err := c.Documents(t.Context()); refusal.Of(err) != refusal.Unauthenticated {
		t.Errorf("after it: %v", err)
	}

	// From the machine, as `chaperone kill` does, on a database that a server has open.
	book := s.beside(t)
	k, err := book.Kill(t.Context(), attended.KillAll, "", ref.Principal{})
	if err != nil {
		t.Fatal(err)
	}
	p.closed("the operator's switch", controlv1.CloseTrust, "killed")
	if err := book.Lift(t.Context(), k.ID, ref.Principal{}); err != nil {
		t.Fatal(err)
	}
}

// beside is the attended ledger of a server's database in another process.
func (s *server) beside(t testing.TB) *attended.Book {
	t.Helper()
	db, err := store.Open(context.Background(), s.config.Database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	log, err := audit.Open(db, audit.Options{Tenant: node.Tenant, CheckpointDir: s.config.Audit.Checkpoints, KeyFile: s.config.Audit.Key})
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := policy.NewBook(db, log, node.Tenant, policy.Options{Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	book, err := attended.NewBook(db, log, node.Tenant, attended.Options{Receipts: receipts})
	if err != nil {
		t.Fatal(err)
	}
	return book
}
