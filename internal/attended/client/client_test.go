package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	"chaperone/internal/leaktest"
	"chaperone/internal/refusal"
)

// What it does at a real server is tried in internal/surface/rest; here is what it
// makes of those that aren't one.

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

// answers is a server that says what it is told to.
func answers(t *testing.T, status int, body string, header ...string) *client.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	h, err := client.NewHTTP(s.URL, func(context.Context) (string, error) { return "secret-token", nil }, client.HTTPOptions{Transport: s.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	return client.New(h)
}

// TestOddAnswers: status and body must say the same, and nothing else is taken for an
// answer; no error repeats what was said.
func TestOddAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		code   refusal.Code // "": nobody knows whether the action arrived
	}{
		"refused":              {403, `{"error":{"code":"killed","retryable":false,"correlation_id":"x"}}`, refusal.Killed},
		"a code of tomorrow":   {403, `{"error":{"code":"of_tomorrow","retryable":false,"correlation_id":"x"}}`, "of_tomorrow"},
		"refused with 200":     {200, `{"error":{"code":"killed","retryable":false,"correlation_id":"x"}}`, ""},
		"a success with 500":   {500, `{"status":"success","result":{"documents":[]}}`, ""},
		"both":                 {200, `{"status":"success","result":{},"error":{"code":"killed"}}`, ""},
		"no result":            {200, `{"status":"success"}`, ""},
		"another status":       {200, `{"status":"ok","result":{"documents":[]}}`, ""},
		"an unknown member":    {200, `{"status":"success","result":{"documents":[]},"x":1}`, ""},
		"a member twice":       {200, `{"status":"success","status":"success","result":{"documents":[]}}`, ""},
		"a proxy's page":       {502, `<html>secret-page</html>`, ""},
		"nothing":              {200, ``, ""},
		"a code that is none":  {403, `{"error":{"code":"Secret Page"}}`, ""},
		"a result that is bad": {200, `{"status":"success","result":{"documents":{}}}`, refusal.InvalidRequest},
		"documents in excess":  {200, `{"status":"success","result":{"documents":[],"more":1}}`, refusal.InvalidRequest},
	} {
		_, err := answers(t, c.status, c.body).Documents(context.Background())
		if err == nil || refusal.Of(err) != c.code {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "Secret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	all, err := answers(t, 200, `{"result":{"documents":[]},"status":"success"}`).Documents(context.Background())
	if err != nil || len(all) != 0 {
		t.Errorf("no documents: %v, %v", all, err)
	}
}

// TestRedirect: the token goes nowhere else.
func TestRedirect(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	if _, err := answers(t, http.StatusTemporaryRedirect, "", "Location", other.URL).Documents(context.Background()); err == nil || reached {
		t.Errorf("redirected: %v", err)
	}
}

// TestNoToken: without one nothing is sent.
func TestNoToken(t *testing.T) {
	h, err := client.NewHTTP("https://chaperone.example", func(context.Context) (string, error) { return "", errors.New("secret") }, client.HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.New(h).Documents(context.Background()); refusal.Of(err) != refusal.Unauthenticated || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// FuzzRead: what isn't refused is one JSON value, and a refusal a code.
func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"status":"success","result":null}`, `{"status":"success","result":{"documents":[]}}`, `{"error":{"code":"busy","retryable":true,"correlation_id":"x"}}`, `{"error":null}`, `[]`} {
		f.Add(200, []byte(s))
		f.Add(429, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		got, err := client.Read(status, text)
		var no *client.Refused
		switch {
		case err == nil && (status != 200 || len(got) == 0):
			t.Errorf("%d %q is an answer", status, text)
		case errors.As(err, &no):
			if _, err := controlv1.ParseWord(string(no.Code)); err != nil || status == 200 {
				t.Errorf("%d %q is a refusal with %q", status, text, no.Code)
			}
		}
	})
}
