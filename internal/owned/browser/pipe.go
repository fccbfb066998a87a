package browser

import (
	"bufio"
	"errors"
	"io"
)

// maxFrame is the largest message that is kept, 8 MiB of page text escaped at its
// worst included. What is larger is read past, 64 KiB at a time.
const maxFrame = 24 << 20

// headBytes of an oversized message are kept, to tell what it was.
const headBytes = 4 << 10

// readFrame reads one NUL-terminated message. Of a message over limit it returns
// the head with over set, after the whole of it was read past.
func readFrame(r *bufio.Reader, limit int) (frame []byte, over bool, err error) {
	for {
		part, err := r.ReadSlice(0)
		if !over && len(frame)+len(part) > limit {
			over = true
			frame = append(frame, part...)
			frame = append([]byte(nil), frame[:min(len(frame), headBytes)]...)
		}
		if !over {
			frame = append(frame, part...)
		}
		switch {
		case err == nil:
			if !over {
				frame = frame[:len(frame)-1]
			}
			return frame, over, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(frame) > 0:
			return nil, false, io.ErrUnexpectedEOF
		default:
			return nil, false, err
		}
	}
}
