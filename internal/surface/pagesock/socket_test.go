package pagesock_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/idptest"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/pagesock"
)

func asClose(err error, ce *websocket.CloseError) bool { return errors.As(err, ce) }

// Whoever isn't this server's own page is refused before the upgrade, whatever
// cookies come along, and the arm is as it was.
func TestOrigins(t *testing.T) {
	w := fast(t)
	p := w.person()
	p.arm()
	port := w.origin[strings.LastIndex(w.origin, ":")+1:]
	refused := map[string][]string{
		"none": nil, "two": {w.origin, w.origin}, "ours and another": {w.origin, "https://evil.example"}, "two in one line": {w.origin + ", " + w.origin},
	}
	for _, o := range []string{"", "null", "https://evil.example", "http://localhost", "http://localhost:1", "https://localhost:" + port, "http://127.0.0.1:" + port,
		"http://[::1]:" + port, "http://LOCALHOST:" + port, w.origin + "/", w.origin + "/x", w.origin + "#", w.origin + "?", "http://user@localhost:" + port,
		"http://localhost.:" + port, "http://localhost.evil.example:" + port, "http://evil.example/" + w.origin, " " + w.origin + "x", "ws://localhost:" + port,
		"file://", "chrome-extension://abc", "http://localhost:0" + port} {
		refused[`"`+o+`"`] = []string{o}
	}
	if len(refused) < 20 {
		t.Fatalf("%d origins", len(refused))
	}
	for name, origins := range refused {
		_, r, err := p.dial(func(h http.Header) {
			if h.Del("Origin"); origins != nil {
				h["Origin"] = origins
			}
		})
		if err == nil || r == nil || r.StatusCode != http.StatusForbidden || len(r.Cookies()) != 0 {
			t.Errorf("Origin %s: %v %v", name, r, err)
		}
	}
	for _, value := range []string{"Bearer x", "Basic eDp5", ""} {
		if _, r, err := p.dial(func(h http.Header) { h["Authorization"] = []string{value} }); err == nil || r == nil || r.StatusCode != http.StatusForbidden {
			t.Errorf("Authorization %q: %v", value, err)
		}
	}
	// A plain GET of our own page isn't a handshake, and costs nothing.
	a := p.send("GET", socket, nil, func(r *http.Request) { r.Header.Set("Origin", w.origin) })
	if a.status != http.StatusUpgradeRequired || len(a.cookies) != 0 {
		t.Errorf("no handshake: %d %s", a.status, a.body)
	}
	p.ready(p.open())
}

// TestHost asks the handler itself: the guard before it has its own answer.
func TestHost(t *testing.T) {
	w := fast(t)
	p := w.person()
	p.arm()
	for _, host := range []string{"evil.example", "127.0.0.1", "localhost", "localhost:1"} {
		r, err := http.NewRequest("GET", w.origin+socket, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Origin", w.origin)
		for _, route := range w.pages.Routes() {
			if route.Path == socket {
				rec := &recorder{header: http.Header{}}
				if route.Handler(rec, r); rec.status != http.StatusForbidden {
					t.Errorf("Host %s: %d", host, rec.status)
				}
			}
		}
	}
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// Whoever may ask is accepted and told by the close what is missing.
func TestTrustCloses(t *testing.T) {
	w := fast(t)
	bare := w.person()
	closed(t, "nobody is armed", bare.open(), controlv1.CloseTrust, "no_arm")
	p := w.person()
	p.arm()
	cookie := p.jar[armCookie]
	stranger := &page{world: w, jar: map[string]string{armCookie: cookie}}
	closed(t, "nobody is signed in", stranger.open(), controlv1.CloseTrust, "no_session")
	stranger.jar["__Host-chaperone"] = strings.Repeat("0", 64)
	closed(t, "a session that isn't one", stranger.open(), controlv1.CloseTrust, "no_session")
	other := w.person()
	other.jar[armCookie] = cookie
	closed(t, "another session's arm", other.open(), controlv1.CloseTrust, "arm_mismatch")
	other.jar[armCookie] = flip(cookie)
	closed(t, "an arm that was touched", other.open(), controlv1.CloseTrust, "arm_mismatch")
	other.jar[armCookie] = other.jar["__Host-chaperone"]
	closed(t, "no arm's cookie at all", other.open(), controlv1.CloseTrust, "arm_mismatch")
	p.jar[armCookie] = w.sealed(t, p, cookie, -time.Second)
	closed(t, "an arm whose time is over", p.open(), controlv1.CloseTrust, "arm_expired")

	// None of that has cost the arm anything.
	p.jar[armCookie] = cookie
	ws := p.open()
	if spent := p.jar[armCookie]; spent == cookie || spent == "" {
		t.Error("the upgrade didn't turn the cookie")
	}
	closed(t, "the spent cookie", p.open(), controlv1.CloseTrust, "arm_replayed")
	p.ready(ws)
	p.jar[armCookie] = cookie
	again := p.open()
	write(t, again, p.opening())
	closed(t, "a cookie that was kept, and the nonce again", again, controlv1.CloseTrust, "arm_replayed")
	if p.status() != "armed" {
		t.Error("a replay disturbed the channel")
	}
	if a := p.send("DELETE", arming, nil, nil); a.status != http.StatusNoContent {
		t.Errorf("DELETE: %d %s", a.status, a.body)
	}
	closed(t, "the channel", ws, controlv1.CloseTrust, "revoked")
	p.jar[armCookie] = cookie
	over := p.open()
	write(t, over, p.opening())
	closed(t, "an arm that was revoked", over, controlv1.CloseTrust, "revoked")
}

// What a page says wrong is told by the close code.
func TestProtocolCloses(t *testing.T) {
	w := fast(t)
	ctx := context.Background()
	text := func(data string) func(*websocket.Conn, *page) {
		return func(ws *websocket.Conn, _ *page) { ws.Write(ctx, websocket.MessageText, []byte(data)) }
	}
	for name, c := range map[string]struct {
		say    func(*websocket.Conn, *page)
		code   controlv1.Close
		reason string
	}{
		"no JSON":                      {text("hello"), controlv1.CloseInvalid, "invalid_request"},
		"no UTF-8":                     {text("\xff\xfe"), controlv1.CloseInvalid, "invalid_request"},
		"an empty frame":               {text(""), controlv1.CloseInvalid, "invalid_request"},
		"bytes":                        {func(ws *websocket.Conn, _ *page) { ws.Write(ctx, websocket.MessageBinary, []byte("{}")) }, controlv1.CloseInvalid, "invalid_request"},
		"too much":                     {text(strings.Repeat(" ", controlv1.MaxFrame+1)), controlv1.CloseTooLarge, "too_large"},
		"far too much":                 {text(strings.Repeat(" ", 4<<20)), controlv1.CloseTooLarge, "too_large"},
		"as much as fits, and no JSON": {text(strings.Repeat(" ", controlv1.MaxFrame)), controlv1.CloseInvalid, "invalid_request"},
		"another nonce": {func(ws *websocket.Conn, p *page) {
			o := p.opening()
			o.Nonce, _ = controlv1.ParseNonce(strings.Repeat("0", 64))
			write(t, ws, o)
		}, controlv1.CloseTrust, "arm_mismatch"},
		"another route": {func(ws *websocket.Conn, p *page) {
			o := p.opening()
			o.Route = id("elsewhere")
			write(t, ws, o)
		}, controlv1.CloseTrust, "arm_mismatch"},
		"another order": {func(ws *websocket.Conn, _ *page) {
			write(t, ws, controlv1.Register{Route: id(route), Generation: generation(1), Catalog: catalog()})
		}, controlv1.CloseInvalid, "invalid_request"},
		"open twice": {func(ws *websocket.Conn, p *page) { p.ready(ws); write(t, ws, p.opening()) }, controlv1.CloseInvalid, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.person()
			p.arm()
			ws := p.open()
			c.say(ws, p)
			closed(t, name, ws, c.code, c.reason)
		})
	}
}

// A page that is accepted and says nothing is told so, and its arm is over.
func TestSilence(t *testing.T) {
	t.Parallel()
	w := fast(t)
	p := w.person()
	p.arm()
	begun := time.Now()
	closed(t, "silence", p.open(), controlv1.CloseTimeout, "timeout")
	if took := time.Since(begun); took < 9*time.Second || took > 50*time.Second {
		t.Errorf("after %s", took)
	}
	for range 100 {
		if p.status() == "none" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the arm stands")
}

// A channel ends with its sign-in: by the session's end, and by the provider's word.
// A later step-up, which renews the cookie, doesn't end it.
func TestChannelEndsWithItsSignIn(t *testing.T) {
	w := fast(t)
	ctx := context.Background()
	cancelled := controlv1.Cancelled{Call: id("call"), Effect: controlv1.NoEffect}
	for name, c := range map[string]struct {
		end    func(*page)
		reason string
	}{
		"signed out": {func(p *page) { w.sessions.End(ctx, sessionOf(t, p), refusal.SignedOut) }, "signed_out"},
		"ended":      {func(p *page) { w.sessions.End(ctx, sessionOf(t, p), refusal.Ended) }, "signed_out"},
		"logged out": {func(p *page) { w.sessions.End(ctx, sessionOf(t, p), refusal.LoggedOut) }, "signed_out"},
		"revoked":    {func(p *page) { w.sessions.End(ctx, sessionOf(t, p), refusal.Revoked) }, "revoked"},
		"inactive": {func(*page) {
			w.provider.Do(func(s *idptest.Say) { s.Standing = func(m map[string]any) { m["active"] = false } })
		}, "revalidation_failed"},
		"somebody else's": {func(*page) {
			w.provider.Do(func(s *idptest.Say) { s.Standing = func(m map[string]any) { m["sub"] = "bob" } })
		}, "revalidation_failed"},
	} {
		w.provider.Behave()
		p := w.person()
		p.arm()
		ws := p.open()
		p.ready(ws)
		arm := p.jar[armCookie]
		p.stepUp() // the cookie is another now
		p.jar[armCookie] = arm
		write(t, ws, cancelled)
		if got := p.status(); got != "recent-auth" {
			t.Errorf("%s: %s", name, got)
		}
		c.end(p)
		write(t, ws, cancelled)
		closed(t, name, ws, controlv1.CloseTrust, c.reason)
	}
}

// A server that ends says so.
func TestGoingAway(t *testing.T) {
	w := fast(t)
	p := w.person()
	p.arm()
	ws := p.open()
	p.ready(ws)
	late := w.person()
	late.arm()
	done := make(chan error, 1)
	go func() { done <- w.control.Close(context.Background()) }()
	closed(t, "the end", ws, controlv1.CloseGoingAway, "browser_channel_unavailable")
	if err := <-done; err != nil {
		t.Error(err)
	}
	closed(t, "after the end", late.open(), controlv1.CloseGoingAway, "browser_channel_unavailable")
	if err := w.pages.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, r, err := late.dial(nil); err == nil || r == nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("once no socket is taken: %v", err)
	}
}

// sealed answers the arm's cookie as if its time ended so far from now.
func (w *world) sealed(t *testing.T, p *page, cookie string, left time.Duration) string {
	t.Helper()
	again, err := pagesock.Aged(w.key, cookie, time.Now().Add(left).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// An arm whose time is over can still be revoked, and its cookie is all it takes.
func TestRevokeAfterItsTime(t *testing.T) {
	w := fast(t)
	p := w.person()
	p.arm()
	p.jar[armCookie] = w.sealed(t, p, p.jar[armCookie], -time.Minute)
	if got := p.status(); got != "none" {
		t.Errorf("told as %s", got)
	}
	arm, err := pagesock.ArmOf(w.key, p.jar[armCookie])
	if err != nil {
		t.Fatal(err)
	}
	if a := p.send("DELETE", arming, nil, nil); a.status != http.StatusNoContent {
		t.Errorf("DELETE: %d %s", a.status, a.body)
	}
	if state := w.state(t, arm); state != ledger.ArmRevoked {
		t.Errorf("the arm is %s", state)
	}
}

func (w *world) state(t *testing.T, arm ref.Attended) ledger.ArmState {
	t.Helper()
	a, err := w.arms.Find(context.Background(), arm)
	if err != nil {
		t.Fatal(err)
	}
	return a.State
}
