package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/identity"
	"chaperone/internal/policy"
	"chaperone/internal/store"
)

// record keeps decisions in a home as a server does: a read and a write by the
// default policy.
func record(t *testing.T, home string) {
	t.Helper()
	ctx := context.Background()
	secret := make([]byte, 32)
	rand.Read(secret)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.WriteFile(filepath.Join(home, controlKey), secret, 0o600))
	db, err := store.Open(ctx, filepath.Join(home, "chaperone.db"), store.Options{})
	check(err)
	log, err := audit.Open(db, audit.Options{Tenant: localTenant})
	check(err)
	book, err := policy.NewBook(db, log, localTenant, policy.Options{Secret: secret})
	check(err)
	who, err := identity.New(identity.Claims{Tenant: localTenant, Actor: "ana", Agent: "planner"})
	check(err)
	for i, action := range []policy.Action{policy.Observe, policy.AccountMutation} {
		resource, err := policy.OwnTool([]string{"item_read", "item_write"}[i], "http://localhost:7080", "shell")
		check(err)
		_, err = book.Admit(ctx, policy.Default(), policy.Ask{
			Request:       policy.Request{Who: who, Action: action, Resource: resource},
			RequestDigest: fmt.Sprintf("sha256:%064d", i), Expires: time.Now().Add(time.Minute),
		})
		check(err)
	}
	check(log.Close(ctx))
	check(db.Close())
}

// TestPolicyReplay judges what a server recorded by another file.
func TestPolicyReplay(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	record(t, home)
	file := filepath.Join(t.TempDir(), "strict.cedar")
	text := `@id("reads") permit (principal, action == Action::"observe", resource);
		@id("no-agents") forbid (principal is Agent, action in Action::"mutate", resource);`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	replay := func(args ...string) string {
		t.Helper()
		out, err := command(t, append([]string{"policy", "replay", file, "--home", home}, args...)...).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
		}
		return string(out)
	}
	out := replay()
	for _, want := range []string{
		`account-mutation Tool::"item_write"`, "was visible_click, by own-writes; would be deny, by no-agents",
		"2 decisions: 1 the same, 1 stricter, 0 looser, 0 depend on arguments, 0 can't be judged, 0 unreadable",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q isn't in\n%s", want, out)
		}
	}
	if strings.Contains(out, "ana") || strings.Contains(out, "planner") {
		t.Errorf("names somebody:\n%s", out)
	}
	for _, want := range []string{`"was":"visible_click"`, `"would":"deny"`, `"rules":["no-agents"]`, `"recorded":2`, `"stricter":1`} {
		if out := replay("--json"); !strings.Contains(out, want) {
			t.Errorf("%s isn't in\n%s", want, out)
		}
	}
	if err := os.Remove(filepath.Join(home, controlKey)); err != nil {
		t.Fatal(err)
	}
	if out := replay(); !strings.Contains(out, "2 unreadable") {
		t.Errorf("without the key:\n%s", out)
	}
	if out := replay("--since", "2099-01-01"); !strings.Contains(out, "0 decisions") {
		t.Errorf("of the future:\n%s", out)
	}
}
