package oauth_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

func TestRedirectURIs(t *testing.T) {
	for uri, want := range map[string]refusal.Code{
		"https://app.example/cb":                         "ok",
		"https://app.example:8443/cb?x=1":                "ok",
		"http://127.0.0.1/cb":                            "ok",
		"http://[::1]:9/cb":                              "ok",
		"http://localhost:33418":                         "ok",
		"com.example.app:/cb":                            "ok",
		"com.example.app://cb":                           "ok",
		"http://app.example/cb":                          refusal.BadRedirect,
		"http://127.0.0.1.example/cb":                    refusal.BadRedirect,
		"http://localhost.example/cb":                    refusal.BadRedirect,
		"http://user@127.0.0.1/cb":                       refusal.BadRedirect,
		"https://user:pass@app.example/cb":               refusal.BadRedirect,
		"https://app.example/cb#x":                       refusal.BadRedirect,
		"https://app.example/cb#":                        refusal.BadRedirect,
		"https:///cb":                                    refusal.BadRedirect,
		"https://app.example/a b":                        refusal.BadRedirect,
		"https://app.example\\@evil.example":             refusal.BadRedirect,
		"https://app.example/\n":                         refusal.BadRedirect,
		"https://ápp.example/":                           refusal.BadRedirect,
		"javascript:alert(1)":                            refusal.BadRedirect,
		"data:text/html,x":                               refusal.BadRedirect,
		"file:///etc/passwd":                             refusal.BadRedirect,
		"chrome://settings":                              refusal.BadRedirect,
		"/cb":                                            refusal.BadRedirect,
		"":                                               refusal.BadRedirect,
		"https://a.example/" + strings.Repeat("x", 2048): refusal.BadRedirect,
	} {
		if got := word(oauth.CheckRedirect(uri)); got != want {
			t.Errorf("%.60q: %s, want %s", uri, got, want)
		}
	}
}

func TestRedirectMatching(t *testing.T) {
	for _, c := range []struct {
		registered, asked string
		want              bool
	}{
		{"https://app.example/cb", "https://app.example/cb", true},
		{"https://app.example/cb", "https://app.example/cb/", false},
		{"https://app.example/cb", "https://app.example/cb?x", false},
		{"https://app.example/cb", "https://app.example/CB", false},
		{"https://app.example/cb", "https://app.example:443/cb", false},
		{"https://app.example/cb", "https://app.example/x/../cb", false},
		{"https://app.example/cb", "https://app.example.evil/cb", false},
		{"https://app.example/cb", "http://app.example/cb", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:51234/cb", true},
		{"http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", true},
		{"http://127.0.0.1:1/cb", "http://127.0.0.1/cb", true},
		{"http://[::1]/cb?x=1", "http://[::1]:7/cb?x=1", true},
		{"http://localhost:1", "http://localhost:2", true},
		{"http://127.0.0.1/cb", "http://127.0.0.1:7/cb/x", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:7/cb?x", false},
		{"http://127.0.0.1/cb", "http://localhost/cb", false},
		{"http://127.0.0.1/cb", "http://x@127.0.0.1:7/cb", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:7@evil.example/cb", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:7/%63b", false},
		{"http://127.0.0.1/cb", "https://127.0.0.1:7/cb", false},
		{"com.example.app:/cb", "com.example.app:/cb", true},
		{"com.example.app:/cb", "com.example.app:/cb2", false},
	} {
		if got := oauth.Admits([]string{"https://other.example/", c.registered}, c.asked); got != c.want {
			t.Errorf("%s for %s: %v", c.asked, c.registered, got)
		}
	}
}

func TestMetadata(t *testing.T) {
	const ok = `"redirect_uris":["https://a.example/"]`
	for text, want := range map[string]refusal.Code{
		`{` + ok + `}`: "ok",
		`{` + ok + `,"client_name":"Añadir","logo_uri":"https://x/","contacts":["a"],"software_id":7}`:                                    "ok",
		`{` + ok + `,"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`: "ok",
		`{` + ok + `,"token_endpoint_auth_method":"client_secret_post","scope":"anything"}`:                                               "ok",
		`{` + ok + `,"grant_types":["client_credentials"]}`:                                                                               refusal.BadDocument,
		`{` + ok + `,"response_types":["token"]}`:                                                                                         refusal.BadDocument,
		`{` + ok + `,"client_name":"a\u202eb"}`:                                                                                           refusal.BadDocument,
		`{` + ok + `,"client_name":"` + strings.Repeat("x", 101) + `"}`:                                                                   refusal.BadDocument,
		`{` + ok + `,"client_name":7}`:                                                                                                    refusal.BadDocument,
		`{` + ok + `,` + ok + `}`:                                                                                                         refusal.BadDocument,
		`{"client_name":"x"}`:                                                                                                             refusal.BadRedirect,
		`{"redirect_uris":[]}`:                                                                                                            refusal.BadRedirect,
		`{"redirect_uris":["https://a.example/","javascript:x"]}`:                                                                         refusal.BadRedirect,
		`{"redirect_uris":"https://a.example/"}`:                                                                                          refusal.BadDocument,
		`[]`:                                                                                                                              refusal.BadDocument,
		``:                                                                                                                                refusal.BadDocument,
		`{"redirect_uris":["https://a.example/"],"x":"` + strings.Repeat("x", 5<<10) + `"}`: refusal.BadDocument,
	} {
		if _, _, err := oauth.ReadMetadata([]byte(text)); word(err) != want {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
}

func TestClientIDs(t *testing.T) {
	for id, want := range map[string]refusal.Code{
		"https://app.example/client.json":       "ok",
		"https://app.example:443/c":             "ok",
		"https://app.example":                   refusal.BadDocument,
		"https://app.example/":                  refusal.BadDocument,
		"https://app.example:8443/c":            refusal.BadDocument,
		"https://app.example/c?x=1":             refusal.BadDocument,
		"https://app.example/c?":                refusal.BadDocument,
		"https://app.example/c#x":               refusal.BadDocument,
		"https://app.example/a/../c":            refusal.BadDocument,
		"https://app.example/./c":               refusal.BadDocument,
		"https://u@app.example/c":               refusal.BadDocument,
		"http://app.example/c":                  refusal.BadDocument,
		"https:///c":                            refusal.BadDocument,
		"https://app.example/\u202e":            refusal.BadDocument,
		"https://a/" + strings.Repeat("x", 256): refusal.BadDocument,
	} {
		if got := word(oauth.CheckClientID(id)); got != want {
			t.Errorf("%.60q: %s, want %s", id, got, want)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"93.184.216.34": true, "8.8.8.8": true, "2606:2800:220:1::1": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.31.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.100.100.200": false,
		"168.63.129.16": false, "0.0.0.0": false, "224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "203.0.113.9": false, "192.0.0.192": false,
		"::1": false, "::": false, "fe80::1": false, "fd00::1": false, "fd00:ec2::254": false, "ff02::1": false, "64:ff9b::a00:1": false, "2002:7f00:1::": false,
		"2001:db8::1": false, "2001::1": false, "3fff::1": false, "::ffff:127.0.0.1": false, "4000::1": false,
	} {
		if got := oauth.Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestRegistrationsAreCapped: a flood pushes out registrations, never a client that
// somebody uses.
func TestRegistrationsAreCapped(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "c.db"), store.Options{}, oauth.Options{MaxClients: 3})
	used := b.connected(t)
	first := b.register(t)
	for range 5 {
		b.register(t)
	}
	if _, err := b.Client(t.Context(), first.ID); word(err) != refusal.Unknown {
		t.Errorf("the oldest is still there: %v", err)
	}
	if c, err := b.Client(t.Context(), used.client.ID); err != nil || !cmp.Equal(c.Redirects, []string{callback}) {
		t.Errorf("the used one is gone: %+v, %v", c, err)
	}
	if n := b.count(t, `select count(*) from oauth_client`); n != 4 {
		t.Errorf("%d clients, want 3 and the used one", n)
	}
	b.check(t)
}

// host serves documents as a public host would: its name resolves to a public
// address, and that address is dialled.
type host struct {
	*httptest.Server
	addrs   []netip.Addr
	lookups atomic.Int32
	dialled atomic.Int32
}

func serve(t *testing.T, handler http.HandlerFunc) (*host, *oauth.Fetcher) {
	t.Helper()
	h := &host{Server: httptest.NewUnstartedServer(handler), addrs: []netip.Addr{netip.MustParseAddr("93.184.216.34")}}
	h.StartTLS()
	t.Cleanup(h.Close)
	roots := x509.NewCertPool()
	roots.AddCert(h.Certificate())
	return h, &oauth.Fetcher{
		Roots:   roots,
		Resolve: func(context.Context, string) ([]netip.Addr, error) { h.lookups.Add(1); return h.addrs, nil },
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.Port() != 443 || !oauth.Public(to.Addr()) {
				t.Errorf("dialled %s", to)
			}
			h.dialled.Add(1)
			var d net.Dialer
			return d.DialContext(ctx, "tcp", h.Listener.Addr().String())
		},
	}
}

const documentID = "https://example.com/client.json"

func TestDocuments(t *testing.T) {
	right := `{"client_id":"` + documentID + `","client_name":"Reader","redirect_uris":["https://example.com/cb"]}`
	answer := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	address := func(texts ...string) (all []netip.Addr) {
		for _, s := range texts {
			all = append(all, netip.MustParseAddr(s))
		}
		return all
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		addrs   []netip.Addr
		want    refusal.Code
		dials   int32
	}{
		"right":              {answer(200, "application/json", right), nil, "ok", 1},
		"right, of a suffix": {answer(200, "application/client+json; charset=utf-8", right), nil, "ok", 1},
		"says none":          {answer(200, "application/json", strings.Replace(right, "{", `{"token_endpoint_auth_method":"none",`, 1)), nil, "ok", 1},
		"wants a secret":     {answer(200, "application/json", strings.Replace(right, "{", `{"token_endpoint_auth_method":"client_secret_basic",`, 1)), nil, refusal.BadDocument, 1},
		"holds a secret":     {answer(200, "application/json", strings.Replace(right, "{", `{"client_secret":"x",`, 1)), nil, refusal.BadDocument, 1},
		"another's":          {answer(200, "application/json", strings.Replace(right, "client.json", "other.json", 1)), nil, refusal.BadDocument, 1},
		"html":               {answer(200, "text/html", right), nil, refusal.BadDocument, 1},
		"404":                {answer(404, "application/json", right), nil, refusal.BadDocument, 1},
		"over 5 KB":          {answer(200, "application/json", right+strings.Repeat(" ", 5<<10)), nil, refusal.BadDocument, 1},
		"a redirect":         {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, nil, refusal.BadDocument, 1},
		"loopback":           {answer(200, "application/json", right), address("127.0.0.1"), refusal.BadDocument, 0},
		"one private of two": {answer(200, "application/json", right), address("93.184.216.34", "10.0.0.1"), refusal.BadDocument, 0},
		"mapped loopback":    {answer(200, "application/json", right), address("::ffff:127.0.0.1"), refusal.BadDocument, 0},
		"metadata":           {answer(200, "application/json", right), address("169.254.169.254"), refusal.BadDocument, 0},
		"no address":         {answer(200, "application/json", right), []netip.Addr{}, refusal.BadDocument, 0},
		"its body never ends": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, nil, refusal.BadDocument, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, fetcher := serve(t, c.handler)
			if c.addrs != nil {
				h.addrs = c.addrs
			}
			b := open(t, filepath.Join(t.TempDir(), "c.db"), store.Options{}, oauth.Options{Documents: fetcher})
			begun := time.Now()
			client, err := b.Client(t.Context(), documentID)
			if got := word(err); got != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if err == nil && (client.Name != "Reader" || !client.Document || !client.Admits("https://example.com/cb")) {
				t.Errorf("client: %+v", client)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if h.lookups.Load() != 1 || h.dialled.Load() != c.dials {
				t.Errorf("%d look-ups and %d connections, want 1 and %d", h.lookups.Load(), h.dialled.Load(), c.dials)
			}
			b.check(t)
		})
	}
}

// TestDocumentIsBelievedForAWhile: it is fetched once in ten minutes, and a change
// of it counts from then on.
func TestDocumentIsBelievedForAWhile(t *testing.T) {
	var redirect atomic.Value
	redirect.Store("https://example.com/cb")
	h, fetcher := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"client_id":%q,"redirect_uris":[%q]}`, documentID, redirect.Load())
	})
	b := open(t, filepath.Join(t.TempDir(), "c.db"), store.Options{}, oauth.Options{Documents: fetcher})
	for range 3 {
		if _, err := b.Client(t.Context(), documentID); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.dialled.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	redirect.Store("https://example.com/new")
	if err := b.db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`update oauth_client set read_ms=read_ms-$1`, (11 * time.Minute).Milliseconds())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c, err := b.Client(t.Context(), documentID)
	if err != nil || c.Admits("https://example.com/cb") || !c.Admits("https://example.com/new") || h.dialled.Load() != 2 {
		t.Errorf("after a change: %+v, %v, fetched %d times", c, err, h.dialled.Load())
	}
	b.check(t)
}

// A certificate that isn't the host's is refused: the fields of a Fetcher don't
// loosen TLS.
func TestDocumentNeedsItsHostsCertificate(t *testing.T) {
	_, fetcher := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	fetcher.Roots = x509.NewCertPool()
	b := open(t, filepath.Join(t.TempDir(), "c.db"), store.Options{}, oauth.Options{Documents: fetcher})
	if _, err := b.Client(t.Context(), documentID); word(err) != refusal.BadDocument {
		t.Errorf("got %v", err)
	}
}
