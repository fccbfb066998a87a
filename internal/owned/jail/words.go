package jail

import (
	"io"
	"strings"
	"sync"
)

// maxWords bounds the kept tail of the engine's error output, bytes.
const maxWords = 4096

// tail keeps the end of what it was given.
type tail struct {
	max int

	mu   sync.Mutex
	data []byte
}

// fill reads r to its end. An engine that writes without end costs no memory.
func (t *tail) fill(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		t.mu.Lock()
		t.data = append(t.data, buf[:n]...)
		if over := len(t.data) - t.max; over > 0 {
			t.data = append(t.data[:0], t.data[over:]...)
		}
		t.mu.Unlock()
		if err != nil {
			return // the end of the box, which is told elsewhere
		}
	}
}

// String is the tail as printable lines: a page must not reach a person's
// terminal with control sequences.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || r >= ' ' && r < 0x7f {
			return r
		}
		return -1
	}, string(t.data))
	return strings.TrimSpace(clean)
}
