package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/node"
	"chaperone/internal/ref"
	"chaperone/internal/storetest"
	"chaperone/internal/surface/guard"
)

// Two servers over one database name people by one key: with another, a person's stop
// at one of them would stop nothing at the other, and say that it did. So it doesn't
// start while the other lives; with the same key the stop reaches the page.
func TestNodesHaveOneKey(t *testing.T) {
	url := storetest.Postgres(t)
	s := stand(t, func(c *node.Config) { c.Database = url })
	o := s.settle("Ada")
	p := o.page()
	p.arm()
	p.open()

	home := t.TempDir()
	copied := func(name string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(s.home, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(home, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copied("credential.key")
	config := node.DefaultConfig(home)
	port := free(t)
	config.Listen, config.PublicOrigin, config.Database = fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("http://localhost:%d", port), url
	if other, err := node.Open(t.Context(), home, config, "test"); err == nil {
		authority, book, _ := other.Attended()
		ada := o.principal(authority)
		if _, err := book.Kill(t.Context(), ledger.KillPrincipal, ada.String(), ada); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		t.Errorf("a server with another key starts, its person's stop leaves the page %s", p.armed())
		other.Close(t.Context())
		return
	} else if !strings.Contains(err.Error(), "control.key") {
		t.Errorf("refused with %v", err)
	}

	copied("control.key")
	other, err := node.Open(t.Context(), home, config, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	authority, book, _ := other.Attended()
	ada := o.principal(authority)
	if _, err := book.Kill(t.Context(), ledger.KillPrincipal, ada.String(), ada); err != nil {
		t.Fatal(err)
	}
	p.closed("the other server's stop", controlv1.CloseTrust, "killed")
}

// principal is the owner as an authority names them.
func (o *owner) principal(a *live.Authority) ref.Principal {
	o.t.Helper()
	_, sessions, _ := o.s.node.Parts()
	found, err := sessions.Find(o.t.Context(), o.agent.Cookie(guard.Cookie))
	if err != nil {
		o.t.Fatal(err)
	}
	who, err := found.Principal()
	if err != nil {
		o.t.Fatal(err)
	}
	return a.Principal(who)
}
