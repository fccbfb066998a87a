// Package controltest stands attended control over a database, with pages that
// people have open: the authority is the real one, and a page speaks its side of the
// protocol over a pipe, by the product's own codec (spec/attended-control.md).
//
// It contains [Desk], the authority; [Page], one armed page, whose tools are Go
// functions and whose person answers prompts when told to.
//
// Floor: test kit.
package controltest

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/audit"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Tenant is whose people the desk's are.
const Tenant = "local"

// Desk is an authority over a ledger.
type Desk struct {
	*live.Authority
	t      testing.TB
	origin string
}

// Open makes one over a database and its log, for pages of an origin.
func Open(t testing.TB, db *store.DB, log *audit.Log, origin string) *Desk {
	t.Helper()
	receipts := sure(policy.NewBook(db, log, Tenant, policy.Options{Secret: make([]byte, 32)}))(t)
	book := sure(ledger.NewBook(db, log, Tenant, ledger.Options{Receipts: receipts}))(t)
	key := sure(ref.NewKey(make([]byte, 32)))(t)
	authority := sure(live.New(live.Config{Book: book, Policy: policy.Default(), Key: key, Tenant: Tenant, Origin: origin}))(t)
	if err := book.Beat(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 20*time.Second)
		defer done()
		if err := authority.Close(ctx); err != nil {
			t.Errorf("closing attended control: %v", err)
		}
	})
	return &Desk{authority, t, origin}
}

func sure[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Tool is a tool of a page. Run gets the arguments in canonical form, and a context
// that ends with control.cancel; its result is JSON text, and its code, where it has
// one, a failure.
type Tool struct {
	ID    string
	Class controlv1.Class
	Run   func(ctx context.Context, arguments string) (result, code string)
}

// Page is an armed page whose channel is ready.
type Page struct {
	Document ref.Document
	Arm      ref.Attended
	Catalog  controlv1.Catalog
	Prompts  chan controlv1.ConfirmationRequest // what the person is asked; answer by Confirm and Deny

	t       testing.TB
	tools   map[string]Tool
	pipe    *Pipe
	running sync.WaitGroup

	mu    sync.Mutex // guards calls
	calls map[controlv1.ID]context.CancelFunc
}

// Page arms a page of a person's and opens its channel.
func (d *Desk) Page(actor string, tools ...Tool) *Page {
	d.t.Helper()
	p := &Page{t: d.t, Prompts: make(chan controlv1.ConfirmationRequest, 64), tools: map[string]Tool{}, calls: map[controlv1.ID]context.CancelFunc{}}
	var all []controlv1.Tool
	for _, tool := range tools {
		p.tools[tool.ID] = tool
		all = append(all, sure(controlv1.NewTool(controlv1.Facts{ID: tool.ID, Version: "1", SourceRef: "test", Class: tool.Class, Confirmation: tool.Class.Confirmation(),
			Input: []byte(`{"type":"object"}`), Output: []byte(`{}`)}))(d.t))
	}
	p.Catalog = sure(controlv1.NewCatalog(all))(d.t)
	who := controlv1.Person{Tenant: Tenant, Actor: actor, Login: ref.Mint[ref.LoginKind](), Browser: ref.Mint[ref.BrowserKind](), Issuer: "https://idp.example", ACR: "urn:passkey",
		AuthMS: time.Now().Add(-time.Second).UnixMilli(), CredentialUntilMS: time.Now().Add(time.Hour).UnixMilli(), PolicyVersion: d.Terms()}
	place := controlv1.Place{Origin: sure(controlv1.ParseOrigin(d.origin))(d.t), Document: ref.Mint[ref.DocumentKind](), Route: sure(controlv1.ParseID("portal"))(d.t),
		Generation: sure(controlv1.NewGeneration(7))(d.t), Catalog: p.Catalog.Digest(), Scope: p.Catalog.Scope()}
	p.Document = place.Document
	trust := live.Trust{Person: who, Revalidate: func(context.Context) error { return nil }}
	ctx := context.Background()
	grant := sure(d.Grant(ctx, trust))(d.t)
	arm, nonce, err := d.Finalize(ctx, trust, grant.Ref, place)
	if err != nil {
		d.t.Fatal(err)
	}
	p.Arm = arm.Ref
	p.pipe = NewPipe()
	p.running.Go(func() { d.Channel(ctx, trust, arm.Ref, place, p.pipe) })
	d.t.Cleanup(p.Close)
	p.say(controlv1.Open{Nonce: nonce, Route: place.Route, Generation: place.Generation})
	p.say(controlv1.Register{Route: place.Route, Generation: place.Generation, Catalog: p.Catalog})
	if ready, ok := p.hear().(controlv1.Ready); !ok || ready.Catalog != p.Catalog.Digest() {
		d.t.Fatalf("the channel isn't ready: %s", p.pipe.Reason)
	}
	p.running.Go(p.serve)
	return p
}

// Close ends the page's socket and waits for its tools.
func (p *Page) Close() {
	p.pipe.Close(1000, "")
	p.mu.Lock()
	for _, stop := range p.calls {
		stop()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Asked answers the next prompt.
func (p *Page) Asked() controlv1.ConfirmationRequest {
	p.t.Helper()
	select {
	case q := <-p.Prompts:
		return q
	case <-time.After(20 * time.Second):
		p.t.Fatal("nobody was asked")
		return controlv1.ConfirmationRequest{}
	}
}

// Confirm is the person's yes.
func (p *Page) Confirm(q controlv1.ConfirmationRequest) {
	p.say(controlv1.Confirm{Call: q.Call, Confirmation: q.Confirmation})
}

// Deny is the person's no.
func (p *Page) Deny(q controlv1.ConfirmationRequest) {
	p.say(controlv1.Cancelled{Call: q.Call, Effect: controlv1.NoEffect})
}

// serve answers what comes until the socket's end.
func (p *Page) serve() {
	for {
		switch f := p.hear().(type) {
		case nil:
			return
		case controlv1.ConfirmationRequest:
			p.Prompts <- f
		case controlv1.Call:
			ctx, stop := context.WithCancel(context.Background())
			p.mu.Lock()
			p.calls[f.Call] = stop
			p.mu.Unlock()
			p.running.Go(func() { p.run(ctx, f) })
		case controlv1.Cancel:
			p.mu.Lock()
			if stop := p.calls[f.Call]; stop != nil {
				stop()
			}
			p.mu.Unlock()
		}
	}
}

// run runs one call. Where it was told to stop, its tool has done nothing.
func (p *Page) run(ctx context.Context, f controlv1.Call) {
	result, code := p.tools[f.Tool.String()].Run(ctx, string(f.Arguments.Bytes()))
	switch {
	case ctx.Err() != nil:
		p.say(controlv1.Cancelled{Call: f.Call, Effect: controlv1.NoEffect})
	case code != "":
		p.say(controlv1.Result{Call: f.Call, Outcome: controlv1.Failure{Code: sure(controlv1.ParseWord(code))(p.t)}})
	default:
		p.say(controlv1.Result{Call: f.Call, Outcome: controlv1.Success{Value: sure(controlv1.ParseValue([]byte(result), controlv1.MaxResult))(p.t)}})
	}
}

func (p *Page) say(f controlv1.PageFrame) {
	select {
	case p.pipe.Up <- sure(controlv1.EncodePage(f))(p.t):
	case <-p.pipe.Gone:
	}
}

// hear answers the next frame, nil at the socket's end.
func (p *Page) hear() controlv1.AuthorityFrame {
	select {
	case data := <-p.pipe.Down:
		f, err := controlv1.DecodeAuthority(data)
		if err != nil {
			p.t.Errorf("a frame of the authority's doesn't decode: %v", err)
		}
		return f
	case <-p.pipe.Gone:
		return nil
	}
}

// Pipe is a page's socket within the process: two queues of frames, and how it was
// closed, which stands once Gone is.
type Pipe struct {
	Up, Down chan []byte // from the page, and to it
	Gone     chan struct{}
	Code     controlv1.Close
	Reason   refusal.Code

	once sync.Once
}

// NewPipe is one that is open.
func NewPipe() *Pipe {
	return &Pipe{Up: make(chan []byte, 256), Down: make(chan []byte, 256), Gone: make(chan struct{})}
}

// Read answers what the page said.
func (p *Pipe) Read(ctx context.Context) ([]byte, error) {
	select {
	case data := <-p.Up:
		return data, nil
	case <-p.Gone:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write tells the page.
func (p *Pipe) Write(ctx context.Context, data []byte) error {
	select {
	case p.Down <- data:
		return nil
	case <-p.Gone:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends both ways.
func (p *Pipe) Close(code controlv1.Close, reason refusal.Code) {
	p.once.Do(func() { p.Code, p.Reason = code, reason; close(p.Gone) })
}
