package browser

import (
	"bufio"
	"errors"
	"io"
)

// maxFrame is the largest message that is kept, 8 MiB of page text escaped at its
// worst included. What is larger is read past, 64 KiB at a time.
const maxFrame = 24 << 20

// headBytes of an oversized message and its last tailBytes are kept, to tell what
// it was: an answer's id and an event's method lead, the session comes last.
const (
	headBytes = 4 << 10
	tailBytes = 128
)

// readFrame reads one NUL-terminated message. Of a message over limit it returns
// head and tail with over set, after the whole of it was read past.
func readFrame(r *bufio.Reader, limit int) (frame []byte, over bool, err error) {
	var tail []byte
	for {
		part, err := r.ReadSlice(0)
		switch {
		case over:
			tail = last(append(tail, part...))
		case len(frame)+len(part) > limit:
			over = true
			frame = append(frame, part...)
			tail = last(frame)
			frame = append([]byte(nil), frame[:min(len(frame), headBytes)]...)
		default:
			frame = append(frame, part...)
		}
		switch {
		case err == nil && over:
			return append(frame, tail[:len(tail)-1]...), true, nil
		case err == nil:
			return frame[:len(frame)-1], false, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(frame) > 0:
			return nil, false, io.ErrUnexpectedEOF
		default:
			return nil, false, err
		}
	}
}

// last copies the end of b.
func last(b []byte) []byte { return append([]byte(nil), b[max(0, len(b)-tailBytes):]...) }
