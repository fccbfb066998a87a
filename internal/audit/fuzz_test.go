package audit_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"chaperone/internal/audit"
	"chaperone/internal/canon"
)

const sampleLeaf = `{"actor":"uid:0","at":1796014452025,"code":"allowed","id":"019d0c9e7f4a0123456789abcdef0123","kind":"owned_run.decided","public":{"layer":"proxy","port":443},"sealed":{"host":"5cd61fd65db5201b2cfc02408aab5eac6805d758d6ace3c086d6a8f617a971fd"},"subject":"run-1","tenant":"local","v":1}`

// FuzzLeaf holds the leaf decoder to one leaf for each bytes: what it takes is
// canonical JSON, and the record shows every field that the bytes have.
func FuzzLeaf(f *testing.F) {
	f.Add([]byte(sampleLeaf))
	f.Add([]byte(strings.Replace(sampleLeaf, `"port":443`, `"port":-0`, 1)))
	f.Add([]byte(strings.Replace(sampleLeaf, `,"port"`, `,"layer"`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := audit.DecodeLeaf(data)
		if err != nil {
			return
		}
		if again, err := canon.Canonicalize(data); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("took a leaf that isn't canonical: %q (%v)", data, err)
		}
		var raw struct {
			Actor, Code, ID, Kind, Subject, Tenant string
			At                                     int64
			Public                                 map[string]any
			Sealed                                 map[string]string
		}
		if err := json.Unmarshal(data, &raw); err != nil {
			t.Fatal(err)
		}
		if raw.Actor != r.Actor || raw.Code != string(r.Code) || raw.ID != r.ID || raw.Kind != r.Kind || raw.Subject != r.Subject ||
			raw.Tenant != r.Tenant || raw.At != r.At.UnixMilli() || len(raw.Public) != len(r.Public) || len(raw.Sealed) != len(r.Erased) {
			t.Fatalf("the record isn't the leaf: %+v of %q", r, data)
		}
	})
}

// FuzzCheckpoint signs any text: what the parser takes must be a checkpoint's
// own text, byte for byte, and the note around it may not be altered.
func FuzzCheckpoint(f *testing.F) {
	secret, public, err := note.GenerateKey(rand.Reader, "fuzz")
	if err != nil {
		f.Fatal(err)
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		f.Fatal(err)
	}
	const text = "chaperone/audit/local\n6\nYUbhJf1H4eP5BO1caEY9lpRQcsCrQpXUZ0O9rHdV+cA=\nnumber 1\nat 1796014452836\n"
	f.Add(text, []byte(text))
	f.Add(strings.Replace(text, "6", "+6", 1), []byte{})
	f.Add(strings.Replace(text, "local", "../x", 1), []byte("\n— fuzz AAAA\n"))
	f.Fuzz(func(t *testing.T, text string, unsigned []byte) {
		if c, err := audit.ParseCheckpoint(unsigned, public); err == nil {
			t.Fatalf("took an unsigned note: %+v", c)
		}
		signed, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			return
		}
		c, err := audit.ParseCheckpoint(signed, public)
		if err == nil && c.String() != text {
			t.Fatalf("took %q as %q", text, c)
		}
	})
}

// file reads a file of testdata: exports of a log of seven records with two
// checkpoints, and the public key of who signed them.
func file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An export outlives the version that wrote it.
func TestOldExportsVerify(t *testing.T) {
	key := strings.TrimSpace(string(file(t, "key.txt")))
	for name, want := range map[string]int64{"whole.jsonl": 7, "selection.jsonl": 2} {
		r, err := audit.VerifyExport(bytes.NewReader(file(t, name)), key)
		if err != nil || r.Err() != nil || r.Tenants[0].Records != want || r.Tenants[0].Checkpoints != 2 || r.Tenants[0].Covered != 7 {
			t.Errorf("%s: got %v, %+v", name, err, r)
		}
	}
}

// FuzzExport holds the export's verifier: it never panics, and what differs from
// a good export by anything but its end isn't verified as that export.
func FuzzExport(f *testing.F) {
	key := strings.TrimSpace(string(file(f, "key.txt")))
	for _, name := range []string{"whole.jsonl", "selection.jsonl"} {
		good := file(f, name)
		f.Add(good)
		f.Add(good[:len(good)/2])
	}
	f.Add([]byte(`{"format":"chaperone-audit-export-v1","tenant":"local","size":1,"root":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","whole":true,"unsequenced":0,"keys":[],"checkpoints":[]}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := audit.VerifyExport(bytes.NewReader(data), key)
		if err != nil || r.Err() != nil {
			return
		}
		if len(r.Tenants) != 1 || r.Tenants[0].Records == 0 {
			t.Fatalf("verified nothing and said that all is well: %q", data)
		}
	})
}
