package proxy

import (
	"io"
	"net"
	"time"
)

// relay copies between two TCP connections until both directions have ended,
// and closes both. Both sides are bare *net.TCPConn so that the kernel moves
// the bytes.
func relay(a, b *net.TCPConn) {
	done := make(chan struct{})
	go func() {
		pour(a, b)
		close(done)
	}()
	pour(b, a)
	<-done
	a.Close()
	b.Close()
}

// pour copies src into dst and passes the end on. Who has said everything gets
// a while to hear the rest; a broken direction breaks the other one too.
func pour(dst, src *net.TCPConn) {
	if _, err := io.Copy(dst, src); err != nil {
		src.Close()
		dst.Close()
		return
	}
	dst.CloseWrite()
	dst.SetReadDeadline(time.Now().Add(lingerTimeout))
}
