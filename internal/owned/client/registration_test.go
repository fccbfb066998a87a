package client_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/client"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

func wait(t *testing.T, dir string) (*client.Registration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return client.WaitRegistration(ctx, dir, identity.EngagementID, identity.RunID)
}

func TestWaitRegistration(t *testing.T) {
	dir := registrations(t)
	found := make(chan error, 1)
	go func() {
		reg, err := wait(t, dir)
		if err == nil {
			err = reg.Close()
		}
		found <- err
	}()
	select {
	case err := <-found:
		t.Fatalf("found one in an empty directory: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	start(t, dir)
	if err := <-found; err != nil {
		t.Error(err)
	}
}

func TestWaitRegistrationGivesUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.WaitRegistration(ctx, registrations(t), "acme-2026", "run_1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := client.WaitRegistration(t.Context(), filepath.Join(t.TempDir(), "none"), "acme-2026", "run_1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// The wait ends after 30 s by itself, with a reason that names the step to take.
func TestWaitRegistrationLimit(t *testing.T) {
	dir := registrations(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := client.WaitRegistration(t.Context(), dir, identity.EngagementID, identity.RunID)
		if took := time.Since(begin); refusal.Of(err) != refusal.UnauthorizedAdapter || took != 30*time.Second || !strings.Contains(err.Error(), "start its host") {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// Whatever others could have put there is refused, at once and with a reason.
func TestRegistrationIsPrivate(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, s *standIn) (dir string){
		"directory open to the group": func(t *testing.T, s *standIn) string { return must(t, os.Chmod(s.dir, 0o750), s.dir) },
		"directory open to others":    func(t *testing.T, s *standIn) string { return must(t, os.Chmod(s.dir, 0o701), s.dir) },
		"folder open to the group": func(t *testing.T, s *standIn) string {
			return must(t, os.Chmod(filepath.Dir(s.path()), 0o710), s.dir)
		},
		"descriptor readable by others": func(t *testing.T, s *standIn) string { return must(t, os.Chmod(s.path(), 0o604), s.dir) },
		"directory is a link": func(t *testing.T, s *standIn) string {
			link := s.dir + "-link"
			return must(t, os.Symlink(s.dir, link), link)
		},
		"folder is a link": func(t *testing.T, s *standIn) string {
			folder := filepath.Dir(s.path())
			return must(t, errors.Join(os.Rename(folder, folder+"-real"), os.Symlink(folder+"-real", folder)), s.dir)
		},
		"descriptor is a link": func(t *testing.T, s *standIn) string {
			return must(t, errors.Join(os.Rename(s.path(), s.path()+"-real"), os.Symlink(s.path()+"-real", s.path())), s.dir)
		},
		"descriptor is a FIFO": func(t *testing.T, s *standIn) string {
			return must(t, errors.Join(os.Remove(s.path()), unix.Mkfifo(s.path(), 0o600)), s.dir)
		},
		"descriptor is a folder": func(t *testing.T, s *standIn) string {
			return must(t, errors.Join(os.Remove(s.path()), os.Mkdir(s.path(), 0o700)), s.dir)
		},
		"directory is a file": func(t *testing.T, s *standIn) string { return s.path() },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, registrations(t))
			dir := spoil(t, s)
			if _, err := wait(t, dir); refusal.Of(err) != refusal.UnauthorizedAdapter {
				t.Errorf("got %v", err)
			}
		})
	}
}

func must(t *testing.T, err error, dir string) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A descriptor that doesn't decode, or is for someone else, isn't waited out.
func TestRegistrationIsExact(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ownedv1.Descriptor)
		want   refusal.Code
	}{
		"expired":            {func(d *ownedv1.Descriptor) { d.ExpiresAtMS = 1 }, refusal.IncompatibleRuntime},
		"another protocol":   {func(d *ownedv1.Descriptor) { d.Protocol = "owned-browser-v2" }, refusal.IncompatibleRuntime},
		"another engagement": {func(d *ownedv1.Descriptor) { d.EngagementID = "acme" }, refusal.UnauthorizedAdapter},
		"another run":        {func(d *ownedv1.Descriptor) { d.RunID = "run_2" }, refusal.UnauthorizedAdapter},
	} {
		s := start(t, registrations(t))
		c.change(&s.desc)
		s.publish(t)
		if _, err := wait(t, s.dir); refusal.Of(err) != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	for _, id := range []string{"", "../run_1", "a/b", ".", strings.Repeat("a", 129)} {
		if _, err := client.WaitRegistration(t.Context(), registrations(t), "acme-2026", id); refusal.Of(err) != refusal.UnauthorizedAdapter {
			t.Errorf("run id %q: %v", id, err)
		}
	}
}

// A home whose path is longer than a socket's may be still works.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40), "browser-runs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := connect(t, start(t, dir))
	if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); err != nil {
		t.Error(err)
	}
}

func TestLoopback(t *testing.T) {
	s := start(t, registrations(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t, l)
	s.desc.Transport, s.desc.Endpoint = ownedv1.TransportDirect, "http://"+l.Addr().String()
	s.publish(t)
	c := connect(t, s)
	if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); err != nil || s.host() != l.Addr().String() {
		t.Errorf("%v, Host %q", err, s.host())
	}
}

// Whoever listens must be who wrote the descriptor.
func TestPeer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("as an ordinary user every file that passes is one's own; the rest needs root")
		return
	}
	s := start(t, registrations(t))
	if err := os.Chown(s.path(), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Connect(t.Context(), s.path()); refusal.Of(err) != refusal.UnauthorizedAdapter || s.requests(ownedv1.Handshake) != 0 {
		t.Errorf("got %v, %d handshakes", err, s.requests(ownedv1.Handshake))
	}
}

func TestSocket(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(path string) error
		want  refusal.Code
	}{
		"none":      {os.Remove, refusal.BrowserDisconnected},
		"a file":    {func(p string) error { return errors.Join(os.Remove(p), os.WriteFile(p, nil, 0o600)) }, refusal.UnauthorizedAdapter},
		"a link":    {func(p string) error { return errors.Join(os.Rename(p, p+"2"), os.Symlink(p+"2", p)) }, refusal.UnauthorizedAdapter},
		"deaf":      {deaf, refusal.BrowserDisconnected},
		"of nobody": {func(p string) error { return errors.Join(os.Remove(p), deaf(p)) }, refusal.BrowserDisconnected},
	} {
		s := start(t, registrations(t))
		if err := c.spoil(filepath.Join(filepath.Dir(s.path()), "browser.sock")); err != nil && name != "deaf" {
			t.Fatal(name, err)
		}
		if _, err := client.Connect(t.Context(), s.path()); refusal.Of(err) != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// deaf leaves a socket that nobody listens on any more.
func deaf(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l.Close()
}

// A registration that goes or changes ends its session before anything is sent.
func TestRevocation(t *testing.T) {
	for name, revoke := range map[string]func(t *testing.T, s *standIn){
		"removed": func(t *testing.T, s *standIn) { must(t, os.Remove(s.path()), "") },
		"folder removed": func(t *testing.T, s *standIn) {
			must(t, os.RemoveAll(filepath.Dir(s.path())), "")
		},
		"replaced":    func(t *testing.T, s *standIn) { s.desc.BootstrapToken = strings.Repeat("a", 64); s.publish(t) },
		"made public": func(t *testing.T, s *standIn) { must(t, os.Chmod(s.path(), 0o644), "") },
		"made a link": func(t *testing.T, s *standIn) {
			must(t, errors.Join(os.Rename(s.path(), s.path()+"2"), os.Symlink("browser.json2", s.path())), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, registrations(t))
			m := client.NewMount(s.dir)
			defer m.Close()
			c, err := m.Session(t.Context(), identity.EngagementID, identity.RunID)
			if err != nil {
				t.Fatal(err)
			}
			revoke(t, s)
			if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); refusal.Of(err) != refusal.UnauthorizedAdapter || s.requests(ownedv1.DoAction) != 0 {
				t.Errorf("got %v, %d sent", err, s.requests(ownedv1.DoAction))
			}
			if _, err := m.Session(t.Context(), identity.EngagementID, identity.RunID); refusal.Of(err) != refusal.UnauthorizedAdapter || s.requests(ownedv1.Handshake) != 1 {
				t.Errorf("the mount: %v, %d handshakes", err, s.requests(ownedv1.Handshake))
			}
		})
	}
}

// One registration has one session: its token is spent once and its sequence
// goes on, however many ask.
func TestMount(t *testing.T) {
	s := start(t, registrations(t))
	m := client.NewMount(s.dir)
	defer m.Close()
	sessions := make(chan *client.Session)
	for range 16 {
		go func() {
			c, err := m.Session(t.Context(), identity.EngagementID, identity.RunID)
			if err != nil {
				t.Error(err)
			}
			sessions <- c
		}()
	}
	first := <-sessions
	for range 15 {
		if c := <-sessions; c != first {
			t.Error("a second session of one registration")
		}
	}
	if s.requests(ownedv1.Handshake) != 1 {
		t.Errorf("%d handshakes", s.requests(ownedv1.Handshake))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if c, err := m.Session(ctx, "another", identity.RunID); err == nil {
		t.Errorf("another engagement got %v", c)
	}
	// The wait for one run holds up no other.
	other := make(chan error, 1)
	go func() { _, err := m.Session(t.Context(), identity.EngagementID, "run_2"); other <- err }()
	if _, err := m.Session(ctx, identity.EngagementID, identity.RunID); err != nil {
		t.Errorf("behind another run: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := <-other; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait after Close: %v", err)
	}
}

// A handshake that failed isn't tried again.
func TestMountRemembersAFailedHandshake(t *testing.T) {
	s := start(t, registrations(t))
	s.desc.HostCommit = strings.Repeat("0", 40)
	s.publish(t)
	s.desc.HostCommit = strings.Repeat("1", 40)
	m := client.NewMount(s.dir)
	defer m.Close()
	for range 2 {
		if _, err := m.Session(t.Context(), identity.EngagementID, identity.RunID); refusal.Of(err) != refusal.IncompatibleRuntime {
			t.Errorf("got %v", err)
		}
	}
	if n := s.requests(ownedv1.Handshake); n != 1 {
		t.Errorf("%d handshakes", n)
	}
}
