package controlv1_test

import (
	"io/fs"
	"strings"
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/spec"
)

// TestTranscripts reads each conversation frame by frame, each way, and encodes it
// again to the same bytes. What a page confirms and what is then sent is what was
// asked.
func TestTranscripts(t *testing.T) {
	files, err := fs.Glob(spec.Files, "transcripts/attended/*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		data, err := spec.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var asked controlv1.ConfirmationRequest
		frames, way := 0, ""
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(line, "\n")
			if name, ok := strings.CutPrefix(line, "-- "); ok {
				way = strings.TrimSuffix(name, " --")
				continue
			}
			if way == "" {
				continue // the title
			}
			frames++
			if way == "page, call fails" {
				_, err := controlv1.DecodePage([]byte(line))
				if _, alone := controlv1.OfCall(err); !alone {
					t.Errorf("%s: %v, want its call alone at fault", file, err)
				}
				continue
			}
			out, err := decode(way, []byte(line))
			if err != nil || string(out) != line {
				t.Errorf("%s, frame %d: %v, encoded again it is\n%s\nwant\n%s", file, frames, err, out, line)
			}
			sameRequest(t, file, way, line, &asked)
		}
		if frames < 4 {
			t.Errorf("%s has %d frames", file, frames)
		}
	}
}

// sameRequest holds a confirmation and a call to what was asked, by digests that
// are computed anew.
func sameRequest(t *testing.T, file, way, line string, asked *controlv1.ConfirmationRequest) {
	t.Helper()
	if way == "page" {
		f, _ := controlv1.DecodePage([]byte(line))
		if c, ok := f.(controlv1.Confirm); ok && (c.Call != asked.Call || c.Confirmation != asked.Confirmation) {
			t.Errorf("%s confirms something else", file)
		}
		return
	}
	f, _ := controlv1.DecodeAuthority([]byte(line))
	switch f := f.(type) {
	case controlv1.ConfirmationRequest:
		*asked = f
		d, err := controlv1.Request{Binding: f.Binding, Lease: f.Lease, ID: f.Request, Tool: f.Tool, Schemas: f.Schemas, Arguments: f.Arguments}.Digest()
		if err != nil {
			t.Fatal(err)
		}
		c, err := controlv1.ConfirmationDigest(f.Policy, d)
		id, err2 := controlv1.CallID(d, "")
		if err != nil || err2 != nil || c != f.Confirmation || id != f.Call {
			t.Errorf("%s asks for another digest than its own", file)
		}
	case controlv1.Call:
		if a, ok := f.Authorization.(controlv1.AsConfirmed); ok && (a.Confirmation != asked.Confirmation || f.Arguments != asked.Arguments) {
			t.Errorf("%s sends something else than was asked", file)
		}
	}
}
