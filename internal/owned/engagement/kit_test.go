package engagement_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/agenttest"
	"chaperone/internal/audit"
	"chaperone/internal/leaktest"
	"chaperone/internal/owned/engagement"
	"chaperone/internal/owned/host"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
	"chaperone/internal/surface/runsock"
)

func TestMain(m *testing.M) {
	jail.Init()
	os.Exit(leaktest.Check(m.Run()))
}

// key is the API key of the tests; it must turn up nowhere.
const key = "canary-0c6fb1c0f0d34fb8"

// stage is a real agent server, a proxy with faults before it, and a ledger.
type stage struct {
	t      *testing.T
	server *agenttest.Server
	proxy  *httptest.Server
	book   *run.Book

	fault   atomic.Pointer[fault]
	keys    atomic.Int64 // requests that carried the key
	strays  atomic.Int64 // requests that followed a redirect
	hosts   atomic.Int64 // hosts that were started
	unstuck chan struct{}
}

// fault is what happens to the requests that it matches.
type fault struct {
	method, path string // regular expressions
	forward      bool   // the server gets the request all the same; its answer is lost
	times        int64  // how often; 0: always
	do           func(w http.ResponseWriter, r *http.Request)

	met atomic.Int64
}

func (f *fault) matches(r *http.Request) bool {
	match := func(expression, text string) bool {
		return regexp.MustCompile("^(?:" + expression + ")$").MatchString(text)
	}
	if f == nil || !match(f.method, r.Method) || !match(f.path, r.URL.Path) {
		return false
	}
	return f.met.Add(1) <= f.times || f.times == 0
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, server: agenttest.Start(t, ""), unstuck: make(chan struct{})}
	target, err := url.Parse(s.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval = -1
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	transport := &http.Transport{}
	forward.Transport = transport
	s.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") == key {
			s.keys.Add(1)
		}
		if r.URL.Path == "/stray" {
			s.strays.Add(1)
		}
		f := s.fault.Load()
		if !f.matches(r) {
			forward.ServeHTTP(w, r)
			return
		}
		if f.forward {
			// As a proxy that breaks does it: its own connection to the server ends too.
			ctx, cancel := context.WithCancel(r.Context())
			out := r.Clone(ctx)
			out.URL.Scheme, out.URL.Host, out.RequestURI = target.Scheme, target.Host, ""
			if resp, err := transport.RoundTrip(out); err == nil {
				resp.Body.Close()
			}
			cancel()
		} else {
			io.Copy(io.Discard, r.Body)
		}
		f.do(w, r)
	}))
	t.Cleanup(func() {
		s.proxy.CloseClientConnections()
		s.proxy.Close()
		transport.CloseIdleConnections()
	})
	t.Cleanup(func() { close(s.unstuck) })
	db := storetest.Open(t, storetest.SQLite(t), store.Options{})
	log, err := audit.Open(db, audit.Options{Tenant: "local", KeyFile: t.TempDir() + "/audit.key"})
	if err != nil {
		t.Fatal(err)
	}
	log.Start(context.Background())
	t.Cleanup(func() { log.Close(context.Background()) })
	if s.book, err = run.NewBook(db, log, "local"); err != nil {
		t.Fatal(err)
	}
	return s
}

// config is a turn of steps through the proxy.
func (s *stage) config(steps string) engagement.Config {
	return engagement.Config{
		API: s.proxy.URL, Key: key, Assistant: agenttest.Graph, Engagement: "acme-2026",
		Input: jsontext.Value(`{"steps":` + steps + `}`), Registrations: s.server.Registrations, Host: s.host,
		Wait: 20 * time.Second, Patience: time.Second,
	}
}

// local is a host in this process.
type local struct {
	*host.Host
	folder *host.Folder
	server *runsock.Server
	served chan error
}

// host starts one, as `chaperone host` does.
func (s *stage) host(ctx context.Context, name, runID, dir string) (engagement.Host, error) {
	s.hosts.Add(1)
	matcher, err := scope.Parse("scope.yaml", []byte("engagement: "+name+"\nallow: [{host: 127.0.0.1, ports: \"*\"}]\n"))
	if err != nil {
		return nil, err
	}
	engine, err := jail.FindEngine("")
	if err != nil {
		return nil, err
	}
	l := &local{served: make(chan error, 1)}
	if l.folder, err = host.OpenFolder(ctx, dir, runID); err != nil {
		return nil, err
	}
	if err := l.folder.Guarded(); err != nil {
		return nil, errors.Join(err, l.folder.Close())
	}
	listener, err := runsock.ListenUnix(l.folder.Dir(), host.SocketName)
	if err != nil {
		return nil, errors.Join(err, l.folder.Close())
	}
	l.Host, err = host.Start(ctx, host.Config{
		Engagement: name, RunID: runID, StartedBy: "uid:0", Surface: "host", Scope: matcher, Engine: engine,
		Open: func(context.Context) (*run.Book, error) { return s.book, nil }, Handshake: true,
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close(), l.folder.Close())
	}
	l.server = runsock.New(l.Host, runsock.UnixAuthority)
	go func() { l.served <- l.server.Serve(listener) }()
	if err := l.folder.Publish(l.Descriptor(ownedv1.UnixEndpoint, ownedv1.TransportUnix)); err != nil {
		return nil, errors.Join(err, l.Close(ctx))
	}
	return l, nil
}

func (l *local) Close(ctx context.Context) error {
	return errors.Join(l.folder.Revoke(), l.Host.Close(ctx, refusal.Ended), l.server.Close(), <-l.served, l.folder.Close())
}

// The faults.
func status(code int, headers ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, "PRIVATE WORDS OF THE SERVER")
	}
}

func garbage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"run_id": "../../etc", "thread_id": "PRIVATE WORDS", "status": [`)
}

func noise(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Write([]byte("PRIVATE WORDS that are no HTTP\r\n\r\n"))
		conn.Close()
	}
}

func cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func (s *stage) hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.unstuck:
	}
}

// stamped answers that a run is active, with a configurable in which RUN is its id.
func stamped(configurable string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		id := path.Base(r.URL.Path)
		fmt.Fprintf(w, `{"run_id":%q,"status":"running","kwargs":{"config":{"configurable":%s}}}`, id, strings.ReplaceAll(configurable, "RUN", id))
	}
}

// impostor answers for a run whose stream is another's, until it is cancelled.
func impostor() func(http.ResponseWriter, *http.Request) {
	const id = "00000000-0000-4000-8000-000000000001"
	var cancelled atomic.Bool
	return func(w http.ResponseWriter, r *http.Request) {
		switch path.Base(r.URL.Path) {
		case "stream":
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Location", path.Dir(r.URL.Path)+"/"+id)
			fmt.Fprint(w, "event: metadata\ndata: {\"run_id\":\"PRIVATE WORDS\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "cancel":
			cancelled.Store(true)
		default:
			status := engagement.Pending
			if cancelled.Load() {
				status = engagement.Interrupted
			}
			fmt.Fprintf(w, `{"run_id":%q,"status":%q}`, id, status)
		}
	}
}
