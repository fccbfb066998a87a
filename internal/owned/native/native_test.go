package native_test

import (
	"net/http/httptest"
	"os"
	"testing"

	"chaperone/internal/leaktest"
	"chaperone/internal/owned/native"
	"chaperone/internal/sitetest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

// What the adapter relies on is what the installed browser does.
func TestNative(t *testing.T) {
	server := httptest.NewServer(native.Handler())
	defer server.Close()
	run := sitetest.Browser(t, sitetest.Options{})
	r, err := native.Run(t.Context(), run, server.URL, "the installed engine")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if !row.OK {
			t.Errorf("%s: %s: got %q, want %q", row.Name, row.Fact, row.Got, row.Want)
		}
	}
}
