package engagement_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/agenttest"
	"chaperone/internal/owned/engagement"
	"chaperone/internal/refusal"
)

// Where a turn asks, as a fault names it.
const (
	threads = "/threads"
	streams = "/threads/[^/]*/runs/stream"
	one     = "/threads/[^/]*/runs/[^/]{36}"
	cancels = one + "/cancel"
)

// A server that fails is told plainly, each way; nothing goes on at it that could
// be stopped, and nothing is left here.
func TestFaultsOfTheServer(t *testing.T) {
	s := newStage(t)
	away := "https://elsewhere.example/"
	for _, c := range []struct {
		name    string
		fault   *fault
		steps   string // "": open a browser and stay for a while
		want    string // in the error; "": none
		status  string // "": there is no run to tell of
		hosts   int64
		threads int // that are left beyond those before
	}{
		{"thread: no API", &fault{method: "POST", path: threads, do: status(404)}, "", "refused with 404: there is no such thing", "", 0, 0},
		{"thread: wrong key", &fault{method: "POST", path: threads, do: status(401)}, "", "see --api-key-file", "", 0, 0},
		{"thread: busy for too long", &fault{method: "POST", path: threads, do: status(429, "Retry-After", "3600")}, "", "1h0m0s; --wait is 20s", "", 0, 0},
		{"thread: busy for a moment", &fault{method: "POST", path: threads, times: 1, do: status(429, "Retry-After", "1")}, `["open"]`, "", "success", 1, 1},
		{"thread: fails", &fault{method: "POST", path: threads, do: status(500)}, "", "refused with 500: the server failed", "", 0, 0},
		{"thread: redirects", &fault{method: "POST", path: threads, do: status(307, "Location", s.proxy.URL+"/stray")}, "", "name its final address", "", 0, 0},
		{"thread: garbage", &fault{method: "POST", path: threads, do: garbage}, "", "is --api right", "", 0, 0},
		{"thread: no HTTP", &fault{method: "POST", path: threads, do: noise}, "", "the answer isn't HTTP", "", 0, 0},
		{"thread: hangs", &fault{method: "POST", path: threads, do: s.hang}, "", "no answer in time", "", 0, 0},
		{"thread: hangs up", &fault{method: "POST", path: threads, do: cut}, "", "the connection was lost", "", 0, 0},

		{"run: refused", &fault{method: "POST", path: streams, do: status(422)}, "", "refused with 422: the server doesn't accept", "", 0, 0},
		{"run: conflict", &fault{method: "POST", path: streams, do: status(409)}, "", "another run is under way", "", 0, 0},
		{"run: no assistant", &fault{method: "POST", path: streams, do: status(404)}, "", "see --assistant", "", 0, 0},
		{"run: busy for a moment", &fault{method: "POST", path: streams, times: 2, do: status(429)}, `["open"]`, "", "success", 1, 1},
		{"run: redirects", &fault{method: "POST", path: streams, do: status(303, "Location", away)}, "", "redirects aren't followed", "", 0, 0},
		{"run: answer is lost", &fault{method: "POST", path: streams, forward: true, do: cut}, "", "the connection was lost", "", 0, 0},
		{"run: answer becomes 502", &fault{method: "POST", path: streams, forward: true, do: status(502)}, "", "refused with 502", "", 0, 0},
		{"run: answer becomes garbage", &fault{method: "POST", path: streams, forward: true, do: garbage}, "", "it names no run", "", 0, 0},
		{"run: hangs after it was made", &fault{method: "POST", path: streams, forward: true, do: s.hang}, "", "no answer in time", "", 0, 0},

		{"status: fails twice", &fault{method: "GET", path: one, times: 2, do: status(503)}, `["open"]`, "", "success", 1, 1},
		{"status: lost twice", &fault{method: "GET", path: one, times: 2, forward: true, do: cut}, `["open"]`, "", "success", 1, 1},
		{"status: garbage", &fault{method: "GET", path: one, do: garbage}, "", "may go on at the server", "unknown", 0, 1},
		{"status: gone", &fault{method: "GET", path: one, do: status(404)}, "", "refused with 404", "unknown", 0, 1},
		{"status: hangs", &fault{method: "GET", path: one, do: s.hang}, "", "hasn't told the run's status for 2s", "unknown", 0, 1},
		{"status: no run id", &fault{method: "GET", path: one, times: 1, do: stamped(`{"desktop_engagement_id":"acme-2026"}`)}, "", "didn't stamp configurable.run_id", "interrupted", 0, 1},
		{"status: another's run id", &fault{method: "GET", path: one, times: 1, do: stamped(`{"run_id":"acme-2026","desktop_engagement_id":"acme-2026"}`)}, "", "didn't stamp configurable.run_id", "interrupted", 0, 1},
		{"status: another engagement", &fault{method: "GET", path: one, times: 1, do: stamped(`{"run_id":"RUN","desktop_engagement_id":"other"}`)}, "", "didn't keep configurable.desktop_engagement_id", "interrupted", 0, 1},
		{"stream: another run's", &fault{method: "GET|POST", path: streams + "|" + one + "|" + cancels, do: impostor()}, "", "the API's stream is of another run", "interrupted", 0, 1},
		{"cancel: fails once", &fault{method: "POST", path: cancels, times: 1, do: status(500)}, `["stay"]`, "told to end", "interrupted", 1, 1},
		{"cancel: answer is lost", &fault{method: "POST", path: cancels, forward: true, do: cut}, `["stay"]`, "told to end", "interrupted", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, hosts := len(s.server.Threads()), s.hosts.Load()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			steps := c.steps
			if steps == "" {
				steps = `["open",{"sleep":60000}]`
			}
			config := s.config(steps)
			if steps == `["stay"]` {
				config.Input = jsontext.Value(`{"steps":["open",{"sleep":60000}]}`)
				config.Progress = func(step string) {
					if step == "the run has its browser" {
						cancel()
					}
				}
			}
			s.fault.Store(c.fault)
			got, err := engagement.Run(ctx, config)
			s.fault.Store(nil)
			switch {
			case (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want):
				t.Errorf("error %v, want one with %q", err, c.want)
			case err != nil && (strings.Contains(err.Error(), "PRIVATE") || strings.Contains(err.Error(), key)):
				t.Errorf("the error quotes: %v", err)
			}
			if got.Status != c.status {
				t.Errorf("status %q, want %q", got.Status, c.status)
			}
			if n := s.hosts.Load() - hosts; n != c.hosts {
				t.Errorf("%d hosts started, want %d", n, c.hosts)
			}
			s.server.Settled()
			if n := len(s.server.Threads()) - before; n != c.threads {
				t.Errorf("%d threads are left, want %d", n, c.threads)
			}
			agenttest.Empty(t, s.server.Registrations)
		})
	}
	if s.strays.Load() != 0 || s.keys.Load() == 0 {
		t.Errorf("%d requests followed a redirect, %d carried the key", s.strays.Load(), s.keys.Load())
	}
}

// A stream that breaks is the caller's death to the server: it cancels the run,
// and that is told.
func TestStreamBreaks(t *testing.T) {
	s := newStage(t)
	config := s.config(`["open",{"sleep":60000}]`)
	config.Progress = func(step string) {
		if step == "the run has its browser" {
			s.proxy.CloseClientConnections()
		}
	}
	got, err := engagement.Run(context.Background(), config)
	if err != nil || got.Status != engagement.Interrupted || s.server.Status(got.ThreadID, got.RunID) != got.Status {
		t.Errorf("%+v, %v", got, err)
	}
	agenttest.Empty(t, s.server.Registrations)
}

// The server dies: while its run waits for a worker, and while it runs.
func TestServerDies(t *testing.T) {
	for at, hosts := range map[string]int64{"waits for its turn": 0, "the run has its browser": 1} {
		t.Run(at, func(t *testing.T) {
			s := newStage(t)
			config := s.config(`["open",{"sleep":60000}]`)
			config.Patience = time.Second
			config.Progress = func(step string) {
				if strings.Contains(step, at) {
					s.server.Kill()
				}
			}
			got, err := engagement.Run(context.Background(), config)
			if err == nil || got.Status != engagement.Unknown || !strings.Contains(err.Error(), "may go on at the server") {
				t.Errorf("%+v, %v", got, err)
			}
			if s.hosts.Load() != hosts {
				t.Errorf("%d hosts", s.hosts.Load())
			}
			agenttest.Empty(t, s.server.Registrations)
		})
	}
}

// A run that no worker takes is cancelled when its time is over, before any
// browser is started for it.
func TestPendingForTooLong(t *testing.T) {
	s := newStage(t)
	s.server.Stop()
	s.server = agenttest.Start(t, "", "0", "0") // no workers
	config := s.config(`["open"]`)
	config.API, config.Wait = s.server.URL, time.Second
	got, err := engagement.Run(context.Background(), config)
	if !errors.Is(err, refusal.TimedOut) || got.Status != engagement.Interrupted || s.hosts.Load() != 0 {
		t.Errorf("%+v, %v, %d hosts", got, err, s.hosts.Load())
	}
	if runs := s.server.Settled(); len(runs) != 1 || runs[0].Status != engagement.Interrupted {
		t.Errorf("the server has %+v", runs)
	}
}

// A host that can't start cancels its run.
func TestHostDoesNotStart(t *testing.T) {
	s := newStage(t)
	config := s.config(`["open"]`)
	config.Host = func(context.Context, string, string, string) (engagement.Host, error) {
		return nil, refusal.PrerequisiteMissing
	}
	got, err := engagement.Run(context.Background(), config)
	if !errors.Is(err, refusal.PrerequisiteMissing) || got.Status != engagement.Interrupted {
		t.Errorf("%+v, %v", got, err)
	}
	s.server.Settled()
}

// What can't be a turn is refused before anything is made anywhere.
func TestBadTurns(t *testing.T) {
	dir := agenttest.Private(t)
	at := func(name string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), name)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	touched := false
	for _, c := range []struct {
		name, want string
		change     func(c *engagement.Config)
	}{
		{"world-readable", "mode 0755, and must be closed to others: chmod 700", func(c *engagement.Config) { c.Registrations = at("d", 0o755) }},
		{"sticky", "mode 1700", func(c *engagement.Config) { c.Registrations = at("d", 0o700|os.ModeSticky) }},
		{"symlink", "is a symlink or no directory: name the directory itself", func(c *engagement.Config) { c.Registrations = link }},
		{"a file", "is a symlink or no directory", func(c *engagement.Config) { c.Registrations = "engagement_test.go" }},
		{"missing", "doesn't exist: mkdir -p -m 700", func(c *engagement.Config) { c.Registrations = dir + "/none" }},
		{"too long", "choose a shorter one", func(c *engagement.Config) { c.Registrations = "/" + strings.Repeat("long/", 1000) }},
		{"too long a name", "choose a shorter one", func(c *engagement.Config) { c.Registrations = dir + "/" + strings.Repeat("n", 300) }},
		{"engagement", "must match", func(c *engagement.Config) { c.Engagement = "../x" }},
		{"thread", "must be a UUID", func(c *engagement.Config) { c.Thread = "../../assistants" }},
		{"input", "the input is no JSON value", func(c *engagement.Config) { c.Input = jsontext.Value(`{"a":1,"a":2}`) }},
		{"config", "the config is no JSON object", func(c *engagement.Config) { c.Config = jsontext.Value(`[]`) }},
		{"configurable", "configurable is no JSON object", func(c *engagement.Config) { c.Config = jsontext.Value(`{"configurable":1}`) }},
		{"file address", "must be http(s)://HOST", func(c *engagement.Config) { c.API = "file:///etc/passwd" }},
		{"address with a password", "without a user", func(c *engagement.Config) { c.API = "http://u:" + key + "@127.0.0.1:1" }},
		{"address that can't be read", "must be http(s)://HOST", func(c *engagement.Config) { c.API = "http://u:" + key + "@[::1" }},
		{"nobody there", "connection refused): is the server running", func(c *engagement.Config) { c.API = "http://127.0.0.1:1" }},
	} {
		config := engagement.Config{
			API: "http://127.0.0.1:1", Key: key, Assistant: "a", Engagement: "acme-2026", Input: jsontext.Value(`{}`), Registrations: dir,
			Host: func(context.Context, string, string, string) (engagement.Host, error) {
				touched = true
				return nil, refusal.Failed
			},
		}
		c.change(&config)
		got, err := engagement.Run(context.Background(), config)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) || got.RunID != "" {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if c.name != "nobody there" && !errors.Is(err, refusal.BadDocument) {
			t.Errorf("%s: the code is %q", c.name, refusal.Of(err))
		}
	}
	if touched {
		t.Error("a host was started")
	}
}

// An API key is read from a private file and from nothing else.
func TestKeyFiles(t *testing.T) {
	file := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file(key+"\n", 0o600)
	if got, err := engagement.ReadKey(good); got != key || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	link, fifo := filepath.Join(t.TempDir(), "link"), filepath.Join(t.TempDir(), "fifo")
	if err := errors.Join(os.Symlink(good, link), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file(key, 0o640): "chmod 600", file(key, 0o604): "chmod 600", link: "is a symlink", fifo: "no regular file",
		t.TempDir(): "no regular file", file("", 0o600): "holds no key", file(key+"\nmore", 0o600): "holds no key",
		file(strings.Repeat("k", 5000), 0o600): "holds no key", "/none": "can't be opened",
	} {
		if _, err := engagement.ReadKey(path); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), key) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A run whose creation was never answered is ended by the server, by itself, in
// a thread that isn't ours to delete.
func TestLostRunOfAGivenThread(t *testing.T) {
	s := newStage(t)
	for name, do := range map[string]func(http.ResponseWriter, *http.Request){"cut": cut, "502": status(502), "garbage": garbage, "hangs": s.hang} {
		first := s.config(`[]`)
		got, _ := engagement.Run(context.Background(), first) // it needs no browser
		config := s.config(`["open",{"sleep":60000}]`)
		config.Thread = got.ThreadID
		s.fault.Store(&fault{method: "POST", path: streams, forward: true, do: do})
		if _, err := engagement.Run(context.Background(), config); err == nil {
			t.Errorf("%s: no error", name)
		}
		s.fault.Store(nil)
		var states []string
		for _, r := range s.server.Settled() {
			if r.Thread == got.ThreadID {
				states = append(states, r.Status)
			}
		}
		slices.Sort(states)
		if !slices.Equal(states, []string{engagement.Interrupted, engagement.Success}) {
			t.Errorf("%s: the thread's runs are %v", name, states)
		}
	}
	agenttest.Empty(t, s.server.Registrations)
}
