package guard_test

import (
	"net/http"
	"strings"
	"testing"
)

// A change is taken from exactly one origin, written exactly as it is configured,
// and from nothing that looks like it, contains it or resolves to it.
func TestOrigins(t *testing.T) {
	d := open(t, true)
	for _, from := range []string{
		"", "null", "NULL", "http://localhost", "http://localhost:", "http://localhost:80", "http://localhost:70800", "http://localhost:07080",
		"https://localhost:7080", "ws://localhost:7080", "HTTP://localhost:7080", "http://LOCALHOST:7080", "http://localhost.:7080",
		"http://127.0.0.1:7080", "http://[::1]:7080", "http://0.0.0.0:7080", "http://a.localhost:7080", "http://localhost.evil.test:7080",
		"http://evil.test/http://localhost:7080", "http://localhost:7080@evil.test", "http://user@localhost:7080", "http://localhost:7080/", "http://localhost:7080/x",
		"http://localhost:7080?x", "http://localhost:7080#x", " http://localhost:7080", "http://localhost:7080 ", "http://localhost:7080, http://evil.test",
		"http://localhost:7080\thttp://evil.test", "//localhost:7080", "localhost:7080", "file://", "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
		"http://localhost:7080\x00", "http://lоcalhost:7080", // the last with a Cyrillic letter
	} {
		w := d.ask("POST", "/api/change", `{}`, set("Origin", from))
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"origin_denied"`) {
			t.Errorf("%q: %d %s", from, w.Code, w.Body)
		}
		if from != "" && strings.Contains(w.Body.String(), "localhost") {
			t.Errorf("%q: the answer repeats it: %s", from, w.Body)
		}
	}
	if d.reached != 0 {
		t.Errorf("the handler was reached %d times", d.reached)
	}
	if w := d.ask("POST", "/api/change", `{}`, nil); w.Code != http.StatusOK {
		t.Errorf("our own: %d %s", w.Code, w.Body)
	}
}
