package runsock_test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"chaperone/internal/storetest"
	"chaperone/spec"
)

// TestTranscripts plays every written conversation against a real host, by a
// client that shares no code with it.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(spec.Files, "transcripts/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d transcripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(path.Base(file), func(t *testing.T) {
			data, err := spec.Files.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(t.TempDir(), "transcript")
			if err := os.WriteFile(copied, data, 0o600); err != nil {
				t.Fatal(err)
			}
			transports := []string{"unix"}
			if !bytes.Contains(data, []byte("\nengine: yes\n")) {
				transports = append(transports, "loopback") // the engine doesn't know the difference
			}
			for _, transport := range transports {
				h := start(t, options{args: []string{"--transport", transport}})
				if err := conform(t, "play", h.registry, copied); err != nil {
					t.Errorf("over %s: %v", transport, err)
				}
			}
		})
	}
}

// TestSecondClientNoticesAWrongAnswer: a player that passes everything proves
// nothing.
func TestSecondClientNoticesAWrongAnswer(t *testing.T) {
	t.Parallel()
	data, err := spec.Files.ReadFile("transcripts/handshake.txtar")
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "transcript")
	spoiled := []byte(string(data) + `-- 5 > POST /v1/browser/action --
Content-Type: application/json
Authorization: Bearer {{session_token}}

{{{identity}},"request_id":"{{new hex32 b}}","sequence":2,"deadline_ms":{{now+30000}},"action":"list_tabs","params":{}}
-- 5 < 200 --

{{{identity}},"request_id":"{{b}}","sequence":2,"result":{"tabs":[]}}
`)
	if err := os.WriteFile(wrong, spoiled, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := conform(t, "play", start(t, options{}).registry, wrong); err == nil {
		t.Error("an answer with a key too many passed")
	}
}

func TestRacingHandshakes(t *testing.T) {
	t.Parallel()
	for range 3 {
		if err := conform(t, "race", start(t, options{}).registry, "64"); err != nil {
			t.Error(err)
		}
	}
}

// TestOverPostgres: the authority over the one-use token is the same there.
func TestOverPostgres(t *testing.T) {
	t.Parallel()
	h := start(t, options{args: []string{"--database", storetest.Postgres(t)}})
	if err := conform(t, "race", h.registry, "64"); err != nil {
		t.Error(err)
	}
	if code := h.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, h.stderr)
	}
}

func TestThirteenActions(t *testing.T) {
	t.Parallel()
	if err := conform(t, "actions", start(t, options{}).registry, newSite(t).URL); err != nil {
		t.Error(err)
	}
}
