package canon_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
	"chaperone/web"
)

// The twin is the page's encoder as it is served, in one Node process.
type twin struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startTwin(t testing.TB) *twin {
	t.Helper()
	module, err := web.Dist.ReadFile("dist/canon.js")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "testdata/twin.mjs", "data:text/javascript;base64,"+base64.StdEncoding.EncodeToString(module))
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("the page's encoder runs in Node here (apt-get install nodejs): %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the page's encoder: %v\n%s", err, said.Bytes())
		}
	})
	return &twin{in, bufio.NewReaderSize(out, 1<<20)}
}

// compare puts documents to both encoders, in one batch, and tells where they
// differ: in the bytes, the digest, or the code of the refusal.
func (w *twin) compare(t testing.TB, documents [][]byte) {
	t.Helper()
	go func() { // the pipe holds less than a batch
		var batch bytes.Buffer
		for _, d := range documents {
			batch.WriteString(hex.EncodeToString(d) + "\n")
		}
		w.in.Write(batch.Bytes())
	}()
	for _, d := range documents {
		line, err := w.out.ReadString('\n')
		if err != nil {
			t.Fatalf("the page's encoder ended at %q: %v", d, err)
		}
		theirs := strings.TrimSuffix(line, "\n")
		ours := "no "
		if canonical, err := canon.Canonicalize(d); err == nil {
			ours = "ok " + hex.EncodeToString(canonical) + " " + canon.Digest(canonical)
		} else if ours += string(refusal.Of(err)); !utf8.Valid(d) {
			ours = "no bad_document" // a page has no text of it to find another fault in
		}
		if ours != theirs {
			t.Errorf("%q:\n  Go   %s\n  page %s", d, readable(ours), readable(theirs))
		}
	}
}

func readable(answer string) string {
	words := strings.Fields(answer)
	if raw, err := hex.DecodeString(words[1]); words[0] == "ok" && err == nil {
		return fmt.Sprintf("ok %q %s", raw, words[2])
	}
	return answer
}

func TestTwinVectors(t *testing.T) {
	v := loadVectors(t)
	var documents [][]byte
	for _, x := range append(v.accepted(), v.refused(t)...) {
		documents = append(documents, []byte(x.Text))
	}
	startTwin(t).compare(t, documents)
}

// generated is how many documents a plain test run compares; FuzzTwin goes on
// from there.
const generated = 8000

func TestTwinAgrees(t *testing.T) {
	w := startTwin(t)
	g := &generator{rand.New(rand.NewPCG(1, 2))}
	documents := make([][]byte, 0, generated)
	accepted := 0
	for range generated {
		d := g.document()
		if _, err := canon.Canonicalize(d); err == nil {
			accepted++
		}
		documents = append(documents, d)
	}
	w.compare(t, documents)
	// A generator that makes only one kind of document proves nothing.
	if accepted < generated/5 || accepted > generated*4/5 {
		t.Errorf("%d of %d documents are within the subset", accepted, generated)
	}
}

// FuzzTwin compares a document and the ones that its seed makes of it.
func FuzzTwin(f *testing.F) {
	v := loadVectors(f)
	for i, x := range append(v.accepted(), v.refused(f)...) {
		f.Add([]byte(x.Text), uint64(i))
	}
	w := startTwin(f)
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		g := &generator{rand.New(rand.NewPCG(seed, 0))}
		documents := [][]byte{text}
		for range 16 {
			documents = append(documents, g.mutate(bytes.Clone(text)))
		}
		for range 4 {
			documents = append(documents, g.document())
		}
		w.compare(t, documents)
	})
}

// generator makes documents that are within the subset or just outside it.
type generator struct{ *rand.Rand }

func (g *generator) document() []byte {
	var b bytes.Buffer
	g.value(&b, 0)
	if g.IntN(2) == 0 {
		return g.mutate(b.Bytes())
	}
	return b.Bytes()
}

func (g *generator) value(b *bytes.Buffer, depth int) {
	g.space(b)
	kind := g.IntN(8)
	if depth > 5 {
		kind = g.IntN(4)
	}
	switch kind {
	case 0:
		b.WriteString([]string{"null", "true", "false"}[g.IntN(3)])
	case 1:
		b.WriteString(g.number())
	case 2, 3:
		g.string(b)
	case 4, 5:
		b.WriteByte('[')
		for i := range g.IntN(5) {
			if i > 0 {
				b.WriteByte(',')
			}
			g.value(b, depth+1)
		}
		b.WriteByte(']')
	default:
		b.WriteByte('{')
		for i := range g.IntN(6) {
			if i > 0 {
				b.WriteByte(',')
			}
			g.space(b)
			if g.IntN(3) == 0 {
				fmt.Fprintf(b, "%q", fmt.Sprint(g.IntN(200))) // integer-like, and sometimes twice
			} else {
				g.string(b)
			}
			g.space(b)
			b.WriteByte(':')
			g.value(b, depth+1)
		}
		b.WriteByte('}')
	}
	g.space(b)
}

func (g *generator) space(b *bytes.Buffer) {
	if g.IntN(8) == 0 {
		b.WriteByte(" \t\r\n"[g.IntN(4)])
	}
}

func (g *generator) number() string {
	switch g.IntN(20) {
	case 0:
		return []string{"1.0", "-0", "1e2", "01", "-", "9007199254740992", "-9007199254740993", "1E-1", "99999999999999999999999"}[g.IntN(9)]
	case 1:
		return []string{"9007199254740991", "-9007199254740991", "0"}[g.IntN(3)]
	}
	return fmt.Sprint(g.Int64N(1<<54) - 1<<53)
}

// string writes a string of pieces that tell encoders and orders apart.
func (g *generator) string(b *bytes.Buffer) {
	pieces := []string{"a", "B", "key", "é", "雪", "\ud7ff", "\ue000", "\uffff", "😀", "\U00010000", "\U0010ffff", "\u2028", "\x7f",
		`\u00e9`, `\ud83d\ude00`, `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u001F`, `\uFFFF`, `\ue000`, "<", "&", " "}
	b.WriteByte('"')
	for range g.IntN(4) {
		b.WriteString(pieces[g.IntN(len(pieces))])
	}
	if g.IntN(60) == 0 {
		b.WriteString([]string{`\ud800`, `\udc00`, `\ud800\ud800`, "\xff", "\xed\xa0\x80", "\x01", `\x`, `\u12`}[g.IntN(8)])
	}
	b.WriteByte('"')
}

// mutate changes a few bytes: one changed, dropped, doubled, or put from
// elsewhere.
func (g *generator) mutate(text []byte) []byte {
	for range 1 + g.IntN(2) {
		if len(text) == 0 {
			return []byte{byte(g.IntN(256))}
		}
		i := g.IntN(len(text))
		switch g.IntN(5) {
		case 0:
			text[i] = byte(g.IntN(256))
		case 1:
			text[i] = `{}[]":,\0-.eE "u`[g.IntN(16)]
		case 2:
			text = append(text[:i], text[i+1:]...)
		case 3:
			text = append(text[:i+1], text[i:]...)
		case 4:
			text[i] = text[g.IntN(len(text))]
		}
	}
	return text
}
