package jail_test

import (
	"errors"
	"io"
	"path"
	"strings"
	"testing"

	"chaperone/internal/owned/jail"
	"chaperone/internal/refusal"

	"github.com/google/go-cmp/cmp"
)

func TestUploadAndDownload(t *testing.T) {
	b := startHelper(t, jail.Limits{})
	for _, c := range []struct{ name, want string }{
		{"report.pdf", "/tmp/up/1/report.pdf"},
		{"report.pdf", "/tmp/up/2/report.pdf"},
		{"../../etc/passwd", "/tmp/up/3/passwd"},
		{`C:\temp\x.txt`, "/tmp/up/4/x.txt"},
		{"a\x00b\n.txt", "/tmp/up/5/ab.txt"},
	} {
		got, err := b.WriteFile(c.name, strings.NewReader("content"))
		if err != nil || got != c.want {
			t.Fatalf("%q: got %q %v, want %q", c.name, got, err, c.want)
		}
		if got := b.ask(t, "read "+c.want); got != "content" {
			t.Errorf("the engine reads %q", got)
		}
		r, err := b.OpenFile(got)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if string(data) != "content" || err != nil || r.Close() != nil {
			t.Error(string(data), err)
		}
		if err := b.RemoveFile(got); err != nil {
			t.Error(err)
		}
	}
	if got := b.ask(t, "list /tmp/up"); got != "" {
		t.Errorf("left in the box: %s", got)
	}
	b.ask(t, "write /tmp/down/x")
	r, err := b.OpenFile(jail.DownloadDir + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if data, err := io.ReadAll(r); string(data) != "x" || err != nil {
		t.Error(string(data), err)
	}
	if err := b.RemoveFile(jail.DownloadDir + "/x"); err != nil || b.ask(t, "list /tmp/down") != "" {
		t.Error(err)
	}
}

// TestHostileFiles has the engine put things that aren't files in their places.
func TestHostileFiles(t *testing.T) {
	b := startHelper(t, jail.Limits{})
	for _, ask := range []string{
		"link /etc/passwd /tmp/down/absolute", "link ../home /tmp/down/folder", "link ../../../../etc/passwd /tmp/down/relative",
		"link x /tmp/down/inside", "write /tmp/down/x", "write /tmp/home/secret", "fifo /tmp/down/fifo",
	} {
		if got := b.ask(t, ask); got != "done" {
			t.Fatal(ask, got)
		}
	}
	for _, p := range []string{
		"/tmp/down/absolute", "/tmp/down/relative", "/tmp/down/inside", "/tmp/down/folder/secret", "/tmp/down/fifo", "/tmp/down/../home/secret",
		"/tmp/down", "/tmp/down/", "/etc/passwd", "/tmp/home/secret", "tmp/down/x", "", "/tmp/down/none", "/tmp/down/.",
	} {
		if r, err := b.OpenFile(p); err == nil {
			t.Errorf("%q opened", p)
			r.Close()
		}
		if strings.HasPrefix(p, "/tmp/down/") && path.Dir(p) == "/tmp/down" {
			continue // removing a link or FIFO itself is fine
		}
		if err := b.RemoveFile(p); err == nil {
			t.Errorf("%q removed", p)
		}
	}
	if got := b.ask(t, "read /tmp/home/secret"); got != "x" {
		t.Error(got)
	}
	if err := b.RemoveFile("/tmp/down/absolute"); err != nil {
		t.Error(err)
	}
}

func TestFileSizes(t *testing.T) {
	b := startHelper(t, jail.Limits{FileBytes: 1 << 20, TmpBytes: 3 << 20})
	zeros := func(n int64) io.Reader { return io.LimitReader(endless{}, n) }
	if _, err := b.WriteFile("fits", zeros(1<<20)); err != nil {
		t.Error(err)
	}
	if _, err := b.WriteFile("over", zeros(1<<20+1)); !errors.Is(err, refusal.TooLarge) {
		t.Error(err)
	}
	var err error
	for range 4 {
		if err == nil {
			_, err = b.WriteFile("many", zeros(1<<20))
		}
	}
	if !errors.Is(err, refusal.TooLarge) {
		t.Error(err)
	}
	if diff := cmp.Diff("1 3 4", b.ask(t, "list /tmp/up")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// FuzzFileNames sends any name through a real box: it is refused, or the file
// lies in the upload folder and comes back whole.
func FuzzFileNames(f *testing.F) {
	for _, name := range []string{"a", "../b", "/etc/passwd", ".", "..", "", "a/", `\`, "\xff", strings.Repeat("x", 300), "ü\u202e.txt", "a\x00b"} {
		f.Add(name)
	}
	b := startHelper(f, jail.Limits{})
	f.Fuzz(func(t *testing.T, name string) {
		p, err := b.WriteFile(name, strings.NewReader(name))
		if err != nil {
			if !errors.Is(err, refusal.BadDocument) {
				t.Fatal(err)
			}
			return
		}
		if !strings.HasPrefix(p, jail.UploadDir+"/") || path.Clean(p) != p || strings.Count(p, "/") != 4 {
			t.Fatalf("%q", p)
		}
		r, err := b.OpenFile(p)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil || string(data) != name || r.Close() != nil || b.RemoveFile(p) != nil {
			t.Fatalf("%q %v", data, err)
		}
	})
}

// FuzzOpenFile opens any path: only what lies in the two folders ever opens.
func FuzzOpenFile(f *testing.F) {
	for _, p := range []string{"/tmp/down/x", "/tmp/down/../home/x", "/tmp/down//x", "/tmp/down/link/x", "/tmp/up/1/../../../x", "x", ""} {
		f.Add(p)
	}
	b := startHelper(f, jail.Limits{})
	for _, ask := range []string{"write /tmp/home/x", "write /tmp/x", "link /tmp/home /tmp/down/link", "link / /tmp/up/link"} {
		b.ask(f, ask)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if r, err := b.OpenFile(p); err == nil {
			r.Close()
			t.Fatalf("%q opened", p)
		}
	})
}
