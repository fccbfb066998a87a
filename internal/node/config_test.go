package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/node"
)

// The printed defaults are the defaults, and every key is among them.
func TestConfigText(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "chaperone.yaml"), []byte(node.ConfigText(home)), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := node.ReadConfig(home)
	if err != nil {
		t.Fatal(err)
	}
	want := node.DefaultConfig(home)
	equal := cmp.Comparer(func(a, b []string) bool {
		return len(a) == 0 && len(b) == 0 || cmp.Equal(strings.Join(a, "\n"), strings.Join(b, "\n"))
	})
	if diff := cmp.Diff(want, got, equal, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".External" }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
}

func TestConfigRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":           {"listen: 127.0.0.1:7080\nlissten: x\n", "2:1"},
		"unknown key, deep":     {"quotas:\n  itmes: 3\n", "2:3"},
		"twice":                 {"listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", "2:1"},
		"wrong type":            {"behind_proxy: 3\n", "1:"},
		"address as origin":     {"public_origin: http://127.0.0.1:7080\n", "passkey"},
		"v6 address as origin":  {"public_origin: https://[::1]\n", "passkey"},
		"plain http for a name": {"public_origin: http://chaperone.example.com\n", "https"},
		"origin with a path":    {"public_origin: https://chaperone.example.com/x\n", "no origin"},
		"origin in capitals":    {"public_origin: https://Chaperone.example.com\n", "no origin"},
		"every interface":       {"listen: 0.0.0.0:7080\n", "tls_cert"},
		"a name to listen on":   {"listen: chaperone.example.com:443\n", "tls_cert"},
		"proxy without a peer":  {"listen: 0.0.0.0:80\npublic_origin: https://c.example.com\nbehind_proxy: [c.example.com]\n", "behind_proxy"},
		"proxy, plain origin":   {"listen: 0.0.0.0:80\nbehind_proxy: [10.0.0.1]\n", "https"},
		"TLS, plain origin":     {"tls_cert: /x\ntls_key: /y\npublic_origin: http://localhost:7080\n", "https"},
		"half a certificate":    {"tls_cert: /x\n", "both"},
		"issuer without client": {"issuer: {url: https://idp.example.com}\n", "client_id"},
		"no quota":              {"quotas: {items: 0, bytes: 1, at_once: 1, per_second: 1, burst: 1}\n", "quotas"},
		"too many browsers":     {"browser: {path: \"\", most: 65}\n", "browser"},
		"review without a date": {"reviewed: {by: Ada}\n", "reviewed"},
		"review in words":       {"reviewed: {by: Ada, date: today}\n", "date"},
		"an authority's title":  {"authority: \"my authority\"\n", "authority"},
		"a page with a path":    {"pages: [{origin: \"https://shop.example.com/x\"}]\n", "no origin"},
		"a page in plain http":  {"pages: [{origin: \"http://shop.example.com\"}]\n", "no origin"},
		"this server's page":    {"pages: [{origin: \"http://localhost:7080\"}]\n", "own"},
		"no collector":          {"telemetry: {otlp: \"collector:4318\"}\n", "otlp"},
		"langfuse without keys": {"telemetry: {langfuse: {url: \"https://lf.example\"}}\n", "secret_key_file"},
		"keys in the clear":     {"telemetry: {langfuse: {url: \"http://lf.example\", public_key_file: a, secret_key_file: b}}\n", "https"},
		"a page twice":          {"pages: [{origin: \"https://a.example\"}, {origin: \"https://a.example\"}]\n", "twice"},
		"a tool that is none":   {"pages: [{origin: \"https://a.example\", read: [\"a b\"]}]\n", "tool"},
		"a page's unknown key":  {"pages:\n  - origin: https://a.example\n    reads: [a]\n", "3:5"},
		"a relay in the clear":  {"relay: nats://nats.example.com:4222\nrelay_credentials_file: x\n", "tls://"},
		"a relay for anybody":   {"relay: nats://localhost:4222\n", "relay_credentials_file"},
		"a relay's secret":      {"relay: tls://user:word@nats.example.com\nrelay_credentials_file: x\n", "no place"},
		"no relay":              {"relay: none\n", "embedded"},
		"imap without logins":   {"sources: {inbox: {imap: {address: \"mail.example.com:993\"}}}\n", "logins"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, "chaperone.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := node.ReadConfig(home)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("%v, want it to name the file and %q", err, c.want)
			}
		})
	}
	partial := t.TempDir()
	if err := os.WriteFile(filepath.Join(partial, "chaperone.yaml"), []byte("quotas:\n  items: 5\nbrowser:\n  most: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := node.ReadConfig(partial); err != nil || got.Quotas.Items != 5 || got.Quotas.Burst != 40 || got.Browser.Most != 2 {
		t.Errorf("some keys of a group: %+v, %v", got.Quotas, err)
	}
	for name, text := range map[string]string{
		"nothing":        "",
		"a comment":      "# hello\n",
		"behind a proxy": "listen: 0.0.0.0:80\npublic_origin: https://c.example.com\nbehind_proxy: [10.0.0.1, 10.1.0.0/16]\n",
	} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "chaperone.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := node.ReadConfig(home); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever changes the port alone is told of, and served at, that port.
func TestOriginFollowsListen(t *testing.T) {
	for text, want := range map[string]string{
		"listen: 127.0.0.1:7090\n":                                          "http://localhost:7090",
		"listen: \"[::1]:7090\"\n":                                          "http://localhost:7090",
		"listen: 127.0.0.1:7090\ntls_cert: /x\ntls_key: /y\n":               "https://localhost:7090",
		"listen: 127.0.0.1:7090\npublic_origin: https://c.example.com\n":    "https://c.example.com",
		"quotas: {items: 1, bytes: 1, at_once: 1, per_second: 1, burst: 1}": "http://localhost:7080",
	} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "chaperone.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := node.ReadConfig(home); err != nil || got.PublicOrigin != want {
			t.Errorf("%q: %s, %v, want %s", text, got.PublicOrigin, err, want)
		}
	}
}
