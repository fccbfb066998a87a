package main

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/run"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// What a run was refused comes back as lines that the scope's owner can paste.
func TestScopeSuggest(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	s, err := scope.Parse("s.yaml", []byte("engagement: acme\nallow:\n  - host: app.example.com\n    paths: [/in]\ndeny:\n  - host: admin.example.com\n"))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{home: home, stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	l, err := a.openLedger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	book, err := l.book()
	if err != nil {
		t.Fatal(err)
	}
	const id = "0c7f9d2e-8a55-4a1e-9d0e-0f3a6c1b2d4e"
	r, err := book.Start(t.Context(), run.Registration{
		RunID: id, Engagement: "acme", Surface: "browse", StartedBy: "uid:1000", ScopeDigest: s.Digest(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"https://cdn.example.net/a.js", "https://cdn.example.net/b.js", "https://api.example.net:8443/x?secret=1", "https://app.example.com/secret", "https://app.example.com/in", "https://admin.example.com/"} {
		target, err := scope.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		r.Record(scope.Record{At: time.Now(), Layer: "proxy", Host: target.Host, Port: target.Port, Scheme: target.Scheme, Method: "GET", Address: netip.Addr{}, Decision: s.Decide(target, time.Now())})
	}
	if err := r.End(t.Context(), refusal.Ended); err != nil {
		t.Fatal(err)
	}
	if err := l.close(t.Context()); err != nil {
		t.Fatal(err)
	}

	out := new(bytes.Buffer)
	command := &app{stdout: out, stderr: out}
	if code := command.run(t.Context(), []string{"scope", "suggest", id, "--home", home}); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	want := `# These rules would allow what the run was refused. Add what you mean, not all of it.
allow:
  - host: cdn.example.net                          # refused 2 times
  - {host: api.example.net, ports: [8443]}         # refused once
# Changes of present rules:
# add this path to paths of allow[0] app.example.com (refused once)
# remove deny[0] admin.example.com: a deny rule always wins (refused once)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	// It can be pasted.
	if _, err := scope.Parse("s.yaml", append([]byte("engagement: acme\n"), out.Bytes()...)); err != nil {
		t.Error(err)
	}
	out.Reset()
	if code := command.run(t.Context(), []string{"scope", "suggest", "nobody", "--home", home}); code != exitFailed || !strings.Contains(out.String(), "no run nobody in this database") {
		t.Errorf("exit %d: %s", code, out)
	}
}
