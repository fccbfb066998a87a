package bench

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	"chaperone/internal/canon"
)

// faster is how many times faster than the other encoder ours must be.
const faster = 3

// document makes JSON text of size bytes, about: tool descriptors with their
// schemas, which is what we hash most, with keys out of order.
func document(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"tools":[`)
	for i := 0; b.Len() < size-400; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"version":"1.0.%d","tool_id":"shop.cart-%s","input_schema":{"type":"object","required":["item","count"],"properties":{"item":{"type":"string","maxLength":64,"description":"Der Name, \"w\u00f6rtlich\" – 雪 😀"},"count":{"type":"integer","minimum":1,"maximum":9007199254740991}},"additionalProperties":false},"mutation_class":"read","confirmation_policy":"none","required_roles":["reader"]}`,
			i, strings.Repeat("x", i%7))
	}
	b.WriteString(`],"authority":"browser-local"}`)
	return b.Bytes()
}

var sizes = []int{500, 15_500, 150_000}

// Ours gives the same bytes, and is at least three times faster at every size.
func TestCanonicalIsFaster(t *testing.T) {
	for _, size := range sizes {
		text := document(size)
		ours, err := canon.Canonicalize(text)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := jcs.Transform(text)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours, theirs) {
			t.Errorf("%d bytes: the two encodings differ", len(text))
		}
		a, b := best(func() { canon.Canonicalize(text) }, func() { jcs.Transform(text) })
		t.Logf("%d bytes: canon %s, jcs %s, %.1f times", len(text), a, b, float64(b)/float64(a))
		if b < faster*a {
			t.Errorf("%d bytes: canon takes %s and jcs %s: less than %d times faster", len(text), a, b, faster)
		}
	}
}

// best times two works by turns, so that both meet the same machine, and answers
// each one's quickest run: whatever else the machine does only ever adds.
func best(a, b func()) (time.Duration, time.Duration) {
	quickest := [2]time.Duration{time.Hour, time.Hour}
	for range 40 {
		for i, work := range []func(){a, b} {
			n := 0
			begin := time.Now()
			for time.Since(begin) < 2*time.Millisecond {
				work()
				n++
			}
			quickest[i] = min(quickest[i], time.Since(begin)/time.Duration(n))
		}
	}
	return quickest[0], quickest[1]
}

func BenchmarkCanon(b *testing.B) { run(b, canon.Canonicalize) }

func BenchmarkJCS(b *testing.B) { run(b, jcs.Transform) }

func run(b *testing.B, encode func([]byte) ([]byte, error)) {
	for _, size := range sizes {
		text := document(size)
		b.Run(fmt.Sprint(len(text)), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := encode(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
