package telemetry_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/attended/telemetry"
	"chaperone/internal/audit"
	"chaperone/internal/identity"
	"chaperone/internal/leaktest"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

var (
	ctx    = context.Background()
	key, _ = ref.NewKey(make([]byte, 32))
)

func must[V any](t testing.TB) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func id(s string) controlv1.ID {
	i, err := controlv1.ParseID(s)
	if err != nil {
		panic(err)
	}
	return i
}

// desk is a real ledger whose one person has a page armed, and an agent a lease.
type desk struct {
	*ledger.Book
	t       testing.TB
	db      *store.DB
	catalog controlv1.Catalog
	lease   ledger.Lease
	caller  ledger.Caller
	who     identity.Principal
	n       int
}

var rules = func() *policy.Set {
	set, err := policy.Parse("test.cedar", []byte(`@id("all") permit (principal, action, resource);`))
	if err != nil {
		panic(err)
	}
	return set
}()

// The words of page and person that no collector may see.
const (
	person, origin, route, toolID, secret = "ann-of-accounting", "https://payroll.example", "wages", "pay_bob", "four-thousand"
)

func newDesk(t testing.TB) *desk {
	t.Helper()
	db := storetest.Open(t, storetest.SQLite(t), store.Options{})
	log := must[*audit.Log](t)(audit.Open(db, audit.Options{Tenant: "local"}))
	receipts := must[*policy.Book](t)(policy.NewBook(db, log, "local", policy.Options{Secret: make([]byte, 32)}))
	d := &desk{t: t, db: db}
	d.Book = must[*ledger.Book](t)(ledger.NewBook(db, log, "local", ledger.Options{Receipts: receipts, Exports: true}))
	schema := []byte(`{"type":"object"}`)
	read := must[controlv1.Tool](t)(controlv1.NewTool(controlv1.Facts{ID: toolID, Version: "1", Input: schema, Output: schema, SourceRef: "test",
		Class: controlv1.Read, Confirmation: controlv1.Read.Confirmation()}))
	pay := must[controlv1.Tool](t)(controlv1.NewTool(controlv1.Facts{ID: "change", Version: "1", Input: schema, Output: schema, SourceRef: "test",
		Class: controlv1.AccountMutation, Confirmation: controlv1.AccountMutation.Confirmation()}))
	d.catalog = must[controlv1.Catalog](t)(controlv1.NewCatalog([]controlv1.Tool{read, pay}))

	who := controlv1.Person{Tenant: "local", Actor: person, Login: ref.Mint[ref.LoginKind](), Browser: ref.Mint[ref.BrowserKind](), Issuer: "https://idp.example",
		ACR: "urn:passkey", AuthMS: time.Now().Add(-time.Hour).UnixMilli(), CredentialUntilMS: time.Now().Add(time.Hour).UnixMilli(), PolicyVersion: id("p1")}
	evidence := must[controlv1.Evidence](t)(who.Private(key))
	place := controlv1.Place{Origin: must[controlv1.Origin](t)(controlv1.ParseOrigin(origin)), Document: ref.Mint[ref.DocumentKind](), Route: id(route),
		Generation: must[controlv1.Generation](t)(controlv1.NewGeneration(1)), Catalog: d.catalog.Digest(), Scope: d.catalog.Scope()}
	page := must[controlv1.Page](t)(place.Private(key))
	arm := must[ledger.Arm](t)(d.Grant(ctx, evidence))
	arm, nonce, err := d.Finalize(ctx, arm.Ref, evidence, page)
	d.ok(err)
	arm = must[ledger.Arm](t)(d.Open(ctx, arm.Ref, evidence, page, nonce))
	reg := must[ledger.Registration](t)(d.Register(ctx, arm.Ref, arm.Binding, d.catalog))
	d.ok(d.Point(ctx, reg.ID))
	must[ledger.Registration](t)(d.Publish(ctx, reg.ID))
	d.who = must[identity.Principal](t)(identity.New(identity.Claims{Tenant: "local", Actor: person, Agent: "helper"}))
	d.caller = ledger.Caller{Principal: evidence.Principal, Agent: controlv1.MaskAgent(key, "helper"), PolicyVersion: id("p1"), GrantGeneration: 1}
	d.lease = must[ledger.Lease](t)(d.Issue(ctx, d.caller, ledger.Ask{Document: page.Document, Tools: []controlv1.ID{id(toolID), id("change")}, TTL: time.Minute, Policy: id("p1")}))
	return d
}

func (d *desk) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// admit asks for a call whose arguments hold what mustn't leave.
func (d *desk) admit(tool string) ledger.Call {
	d.t.Helper()
	d.n++
	resource := must[policy.Resource](d.t)(policy.OwnTool(tool, origin, route))
	arguments := must[controlv1.Value](d.t)(controlv1.ParseValue(fmt.Appendf(nil, `{"amount":"%s %d"}`, secret, d.n), controlv1.MaxArguments))
	call, _, err := d.Admit(ctx, ledger.Admission{Caller: d.caller, Timeout: time.Minute, Reference: ledger.NewReference(),
		Ruling: ledger.Ruling{Set: rules, Who: d.who, Resource: resource},
		Request: controlv1.Request{Binding: d.lease.Binding, Lease: d.lease.LeaseReceipt.Lease, ID: id(fmt.Sprint("r-", d.n)), Tool: id(tool),
			Schemas: d.catalog.Tool(id(tool)).Schemas(), Arguments: arguments}})
	d.ok(err)
	return call
}

// done is a read that succeeded.
func (d *desk) done() ledger.Call {
	d.t.Helper()
	value := must[controlv1.Value](d.t)(controlv1.ParseValue([]byte(`"`+secret+`"`), controlv1.MaxResult))
	return must[ledger.Call](d.t)(d.Settle(ctx, d.admit(toolID).ID, controlv1.Success{Value: value}, ""))
}

// becomes waits until a call's telemetry is as wanted.
func (d *desk) becomes(call ledger.Call, want controlv1.Telemetry) {
	d.t.Helper()
	var got controlv1.Telemetry
	for range 600 {
		if got = must[ledger.Call](d.t)(d.Show(ctx, d.caller, call.ID)).Telemetry; got == want {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	d.t.Fatalf("telemetry is %s, want %s", got, want)
}

func (d *desk) is(call ledger.Call, want controlv1.Telemetry) {
	d.t.Helper()
	if got := must[ledger.Call](d.t)(d.Show(ctx, d.caller, call.ID)).Telemetry; got != want {
		d.t.Errorf("telemetry is %s, want %s", got, want)
	}
}

// receiver is an OTLP receiver on loopback, by the official protobufs.
type receiver struct {
	t       testing.TB
	address string
	server  *http.Server

	mu      sync.Mutex
	spans   map[string]*trace.Span // by their ids
	asked   int
	auth    string
	path    string
	raw     strings.Builder
	answers func(*collector.ExportTraceServiceRequest) (int, *collector.ExportTraceServiceResponse)
}

func receive(t testing.TB) *receiver {
	r := &receiver{t: t, address: "127.0.0.1:0", spans: map[string]*trace.Span{}}
	r.start()
	t.Cleanup(r.kill)
	return r
}

func (r *receiver) start() {
	r.t.Helper()
	listener := must[net.Listener](r.t)(net.Listen("tcp", r.address))
	r.address = listener.Addr().String()
	r.server = &http.Server{Handler: r}
	go r.server.Serve(listener)
}

// kill ends it with all of its connections.
func (r *receiver) kill() { r.server.Close() }

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var in collector.ExportTraceServiceRequest
	if err = errors.Join(err, proto.Unmarshal(body, &in)); err != nil || req.Header.Get("Content-Type") != "application/x-protobuf" {
		r.t.Errorf("what was sent isn't OTLP: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	r.auth, r.path = req.Header.Get("Authorization"), req.URL.Path
	r.raw.Write(body)
	status, out := http.StatusOK, &collector.ExportTraceServiceResponse{}
	if r.answers != nil {
		status, out = r.answers(&in)
	}
	if status == http.StatusOK && out.GetPartialSuccess().GetRejectedSpans() == 0 {
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					r.spans[hex.EncodeToString(s.TraceId)+hex.EncodeToString(s.SpanId)] = s
				}
			}
		}
	}
	data, err := proto.Marshal(out)
	if err != nil {
		r.t.Error(err)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(status)
	w.Write(data)
}

func (r *receiver) answer(f func(*collector.ExportTraceServiceRequest) (int, *collector.ExportTraceServiceResponse)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = f
}

func (r *receiver) held() (spans []*trace.Span, asked int, raw string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		spans = append(spans, s)
	}
	return spans, r.asked, r.raw.String()
}

func (r *receiver) last() (path, auth string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.path, r.auth
}

var quick = telemetry.Limits{Every: 50 * time.Millisecond, Settle: 10 * time.Millisecond, Tries: 3, Window: 300 * time.Millisecond, Most: 100 * time.Millisecond}

// export begins to export, until the test's end or the returned function.
func (d *desk) export(limits telemetry.Limits, to ...telemetry.Collector) (end func()) {
	d.t.Helper()
	e := must[*telemetry.Exporter](d.t)(telemetry.Start(telemetry.Config{Book: d.Book, To: to, Version: "test", Limits: limits}))
	var once sync.Once
	end = func() { once.Do(func() { d.ok(e.Close(ctx)) }) }
	d.t.Cleanup(end)
	return end
}

func attribute(s *trace.Span, name string) string {
	for _, a := range s.Attributes {
		if a.Key == name {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// A call that is over is one trace of three spans in the ledger's own terms, once,
// and nothing of what it was about is in it.
func TestExport(t *testing.T) {
	d, r := newDesk(t), receive(t)
	end := d.export(quick, must[telemetry.Collector](t)(telemetry.OTLP("http://"+r.address)))
	call, waits := d.done(), d.admit("change")
	d.becomes(call, controlv1.Recorded)
	d.is(waits, controlv1.Queued) // it isn't over
	spans, _, raw := r.held()
	if path, auth := r.last(); len(spans) != 3 || path != "/v1/traces" || auth != "" {
		t.Fatalf("%d spans at %s", len(spans), path)
	}
	var root, tool, evaluation *trace.Span
	for _, s := range spans {
		switch attribute(s, "chaperone.kind") {
		case "run_trace":
			root = s
		case "tool_call":
			tool = s
		case "outcome_evaluation":
			evaluation = s
		}
	}
	own := strings.TrimPrefix(call.RunTrace.String(), "trace_")
	for _, s := range spans {
		if hex.EncodeToString(s.TraceId) != own[:32] || s.Status.GetCode() != trace.Status_STATUS_CODE_OK || s.StartTimeUnixNano == 0 || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%v", s)
		}
	}
	if len(root.ParentSpanId) != 0 || string(tool.ParentSpanId) != string(root.SpanId) || string(evaluation.ParentSpanId) != string(root.SpanId) {
		t.Error("tool call and evaluation aren't the run's")
	}
	if attribute(root, "chaperone.call_ref") != call.ID.String() || attribute(root, "chaperone.status") != "succeeded" || attribute(root, "chaperone.effect") != "none" ||
		attribute(tool, "chaperone.arguments_digest") != call.Arguments.String() || attribute(evaluation, "chaperone.result_digest") != call.ResultDigest.String() {
		t.Errorf("%v\n%v\n%v", root, tool, evaluation)
	}
	for _, word := range []string{person, origin, route, toolID, secret, "helper", "r-1"} {
		if strings.Contains(raw, word) {
			t.Errorf("%q left", word)
		}
	}

	// Sent again, from another process that never heard of the acknowledgement.
	end()
	d.ok(d.db.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`update attended_call set telemetry='queued'`)
		return err
	}))
	d.export(quick, must[telemetry.Collector](t)(telemetry.OTLP("http://"+r.address)))
	d.becomes(call, controlv1.Recorded)
	if spans, asked, _ := r.held(); len(spans) != 3 || asked != 2 {
		t.Errorf("%d spans after %d exports", len(spans), asked)
	}
}

// What was denied is told as no error, and what is unknown as one with its code.
func TestOutcomes(t *testing.T) {
	d, r := newDesk(t), receive(t)
	d.export(quick, must[telemetry.Collector](t)(telemetry.OTLP("http://"+r.address+"/v1/traces")))
	denied, lost := d.admit("change"), d.admit(toolID)
	must[ledger.Call](t)(d.Deny(ctx, denied.ID))
	must[ledger.Call](t)(d.Lose(ctx, lost.ID, false))
	must[ledger.Call](t)(d.Reap(ctx, lost.ID))
	d.becomes(denied, controlv1.Recorded)
	d.becomes(lost, controlv1.Recorded)
	spans, _, _ := r.held()
	for _, s := range spans {
		switch call := attribute(s, "chaperone.call_ref"); call {
		case denied.ID.String():
			if s.Status.GetCode() != trace.Status_STATUS_CODE_UNSET || attribute(s, "chaperone.confirmation_level") != "" {
				t.Errorf("denied: %v", s)
			}
		case lost.ID.String():
			if s.Status.GetCode() != trace.Status_STATUS_CODE_ERROR || s.Status.GetMessage() != "reconciliation_window_expired" {
				t.Errorf("lost: %v", s)
			}
		default:
			t.Errorf("a span of %q", call)
		}
	}
	if len(spans) != 6 {
		t.Errorf("%d spans", len(spans))
	}
}

// A collector that is killed and comes back gets what was over meanwhile; a call is
// recorded once it is acknowledged and never before.
func TestCollectorIsKilled(t *testing.T) {
	d, r := newDesk(t), receive(t)
	patient := quick
	patient.Tries, patient.Window = 1000, time.Hour
	end := d.export(patient, must[telemetry.Collector](t)(telemetry.OTLP("http://"+r.address)))
	first := d.done()
	d.becomes(first, controlv1.Recorded)
	r.kill()
	second := d.done()
	time.Sleep(300 * time.Millisecond)
	d.is(second, controlv1.Queued)
	end() // and the exporter with it
	third := d.done()
	r.start()
	d.export(patient, must[telemetry.Collector](t)(telemetry.OTLP("http://"+r.address)))
	d.becomes(second, controlv1.Recorded)
	d.becomes(third, controlv1.Recorded)
	if spans, _, _ := r.held(); len(spans) != 9 {
		t.Errorf("%d spans", len(spans))
	}
}

// A collector that stays away makes calls unavailable, after some tries; what comes
// once it is there is recorded.
func TestUnavailable(t *testing.T) {
	d, r := newDesk(t), receive(t)
	r.answer(func(*collector.ExportTraceServiceRequest) (int, *collector.ExportTraceServiceResponse) {
		return http.StatusServiceUnavailable, &collector.ExportTraceServiceResponse{}
	})
	d.export(quick, must[telemetry.Collector](t)(telemetry.OTLP("http://"+r.address)))
	call := d.done()
	d.becomes(call, controlv1.Unavailable)
	if _, asked, _ := r.held(); asked < quick.Tries {
		t.Errorf("given up after %d tries", asked)
	}
	r.answer(nil)
	d.becomes(d.done(), controlv1.Recorded)
	d.is(call, controlv1.Unavailable)
}

// One call that a collector won't take keeps no other from being recorded, also where
// it says so of part of a batch.
func TestRefusedCall(t *testing.T) {
	for name, refuse := range map[string]func() (int, *collector.ExportTraceServiceResponse){
		"refused": func() (int, *collector.ExportTraceServiceResponse) {
			return http.StatusBadRequest, &collector.ExportTraceServiceResponse{}
		},
		"in part": func() (int, *collector.ExportTraceServiceResponse) {
			return http.StatusOK, &collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "no"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := newDesk(t), receive(t)
			bad, good := d.done(), d.done()
			r.answer(func(in *collector.ExportTraceServiceRequest) (int, *collector.ExportTraceServiceResponse) {
				if strings.Contains(in.String(), bad.ID.String()) {
					return refuse()
				}
				return http.StatusOK, &collector.ExportTraceServiceResponse{}
			})
			d.export(quick, must[telemetry.Collector](t)(telemetry.OTLP("http://"+r.address)))
			d.becomes(good, controlv1.Recorded)
			d.becomes(bad, controlv1.Unavailable)
		})
	}
}

// Langfuse is its endpoint with the project's keys; with a collector beside it a call
// is recorded once both have it.
func TestLangfuse(t *testing.T) {
	d, r, other := newDesk(t), receive(t), receive(t)
	other.answer(func(*collector.ExportTraceServiceRequest) (int, *collector.ExportTraceServiceResponse) {
		return http.StatusBadGateway, &collector.ExportTraceServiceResponse{}
	})
	patient := quick
	patient.Tries, patient.Window = 1000, time.Hour
	d.export(patient, must[telemetry.Collector](t)(telemetry.Langfuse("http://"+r.address+"/", "pk-lf-1", "sk-lf-2")),
		must[telemetry.Collector](t)(telemetry.OTLP("http://"+other.address)))
	call := d.done()
	time.Sleep(300 * time.Millisecond)
	d.is(call, controlv1.Queued)
	other.answer(nil)
	d.becomes(call, controlv1.Recorded)
	if path, auth := r.last(); path != "/api/public/otel/v1/traces" || auth != "Basic cGstbGYtMTpzay1sZi0y" {
		t.Errorf("%s with %q", path, auth)
	}
	if text := fmt.Sprintf("%v %#v", must[telemetry.Collector](t)(telemetry.Langfuse("http://x", "pk", "sk-lf-2")), telemetry.Collector{}); strings.Contains(text, "sk-lf") {
		t.Error("a collector prints its keys")
	}
	for _, bad := range []string{"", "ftp://x", "http://u:p@x", "x", "http://x?y", "http://"} {
		if _, err := telemetry.OTLP(bad); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
}

// The environment says nothing of where calls go, or with which headers.
func TestEnvironment(t *testing.T) {
	d, r, other := newDesk(t), receive(t), receive(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+other.address)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+other.address)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic other")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("HTTP_PROXY", "http://"+other.address)
	d.export(quick, must[telemetry.Collector](t)(telemetry.OTLP("http://"+r.address)))
	d.becomes(d.done(), controlv1.Recorded)
	if _, asked, _ := other.held(); asked != 0 {
		t.Errorf("%d exports to where the environment says", asked)
	}
	if _, auth := r.last(); auth != "" {
		t.Errorf("headers of the environment: %q", auth)
	}
}
