package node_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/surface/guard"
)

// raw is a page's socket as bytes: what a library wouldn't send can be sent.
type raw struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// Opcodes of RFC 6455.
const (
	opMore, opText, opBytes, opClose, opPing, opPong = 0, 1, 2, 8, 9, 10
	fin                                              = 0x80
)

// framed is one frame: its first byte, and the payload behind a mask.
func framed(first byte, payload string) string {
	return head(first, uint64(len(payload)), true) + masked(payload)
}

// head announces length, whatever follows, in as few bytes as it takes.
func head(first byte, length uint64, mask bool) string {
	b := []byte{first}
	switch {
	case length < 126:
		b = append(b, byte(length))
	case length < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(length))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), length)
	}
	if mask {
		b[1] |= 0x80
		b = append(b, 1, 2, 3, 4)
	}
	return string(b)
}

func masked(payload string) string {
	b := []byte(payload)
	for i := range b {
		b[i] ^= byte(i%4 + 1)
	}
	return string(b)
}

// handshake is the page's own opening request; edit changes its lines.
func (p *page) handshake(edit func(lines []string) []string) string {
	lines := []string{"GET /ws/browser-control HTTP/1.1", "Host: " + strings.TrimPrefix(p.s.origin, "http://"), "Origin: " + p.s.origin, "Connection: Upgrade", "Upgrade: websocket",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	for _, name := range append([]string{guard.Cookie}, attendedCookies...) {
		if c := p.agent.Cookie(name); c != "" {
			lines = append(lines, "Cookie: "+name+"="+c)
		}
	}
	if edit != nil {
		lines = edit(lines)
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

func (p *page) dialRaw() *raw {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.s.config.Listen)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	return &raw{p.t, conn, bufio.NewReader(conn)}
}

// upgraded opens a socket by hand.
func (p *page) upgraded() *raw {
	p.t.Helper()
	r := p.dialRaw()
	r.write(p.handshake(nil))
	answer, err := http.ReadResponse(r.in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		p.t.Fatalf("no upgrade: %v %v", answer, err)
	}
	return r
}

// write may fail where the server has hung up already; what is read tells.
func (r *raw) write(text string) {
	r.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(r.conn, text)
}

func (r *raw) say(f controlv1.PageFrame) {
	r.t.Helper()
	data, err := controlv1.EncodePage(f)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(framed(fin|opText, string(data)))
}

var errHungUp = errors.New("hung up without a close")

// next answers the next frame of the server's; none of its is masked or in parts.
func (r *raw) next() (op byte, payload []byte, err error) {
	r.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	var b [2]byte
	if _, err := io.ReadFull(r.in, b[:]); err != nil {
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			return 0, nil, err
		}
		return 0, nil, errHungUp
	}
	n := uint64(b[1])
	switch n {
	case 126:
		var l [2]byte
		io.ReadFull(r.in, l[:])
		n = uint64(binary.BigEndian.Uint16(l[:]))
	case 127:
		var l [8]byte
		io.ReadFull(r.in, l[:])
		n = binary.BigEndian.Uint64(l[:])
	}
	if b[0]&0xf0 != fin || n > controlv1.MaxFrame {
		return 0, nil, fmt.Errorf("the server's own frame is %x, %d bytes", b, n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r.in, payload)
	return b[0] & 0xf, payload, err
}

// told reads up to the server's close, and answers its code and reason.
func (r *raw) told() string {
	for {
		op, payload, err := r.next()
		switch {
		case err != nil:
			return err.Error()
		case op == opClose && len(payload) < 2:
			return "closed without a code"
		case op == opClose:
			return fmt.Sprintf("%d %s", binary.BigEndian.Uint16(payload), payload[2:])
		}
	}
}

// A handshake that isn't exactly one by our own page opens nothing, and leaves the arm
// as it was.
func TestHandshakes(t *testing.T) {
	s := stand(t, nil)
	p := s.settle("Ada").page()
	p.arm()
	add := func(lines ...string) func([]string) []string {
		return func(all []string) []string { return append(all, lines...) }
	}
	set := func(name, value string) func([]string) []string {
		return func(all []string) []string {
			for i, l := range all {
				if strings.HasPrefix(l, name+":") {
					all[i] = name + ": " + value
				}
			}
			return all
		}
	}
	drop := func(name string) func([]string) []string {
		return func(all []string) []string {
			return slices.DeleteFunc(all, func(l string) bool { return strings.HasPrefix(l, name+":") })
		}
	}
	for name, c := range map[string]struct {
		edit   func([]string) []string
		status int
	}{
		"two Hosts":            {add("Host: evil.test"), 400},
		"the Host twice":       {add("Host: " + strings.TrimPrefix(s.origin, "http://")), 400},
		"two Origins":          {add("Origin: https://evil.test"), 403},
		"the Origin twice":     {add("Origin: " + s.origin), 403},
		"no Origin":            {drop("Origin"), 403},
		"a null Origin":        {set("Origin", "null"), 403},
		"a bearer beside":      {add("Authorization: Bearer x"), 403},
		"two keys":             {add("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), 400},
		"no key":               {drop("Sec-WebSocket-Key"), 400},
		"a short key":          {set("Sec-WebSocket-Key", "AAAA"), 400},
		"an old version":       {set("Sec-WebSocket-Version", "8"), 400},
		"h2c":                  {set("Upgrade", "h2c"), 426},
		"no Connection":        {drop("Connection"), 426},
		"a header name of NUL": {add("X\x00: y"), 400},
		"a header without end": {add("X: " + strings.Repeat("y", 2<<20)), 431},
		"a very long cookie":   {add("Cookie: x=" + strings.Repeat("y", 2<<20)), 431},
		"the session twice":    {add("Cookie: " + guard.Cookie + "=" + strings.Repeat("0", 64)), 101}, // and no session then
		"a sub-protocol":       {add("Sec-WebSocket-Protocol: webmcp.control.v1, x"), 101},
		"compression":          {add("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"), 101},
		"many other cookies":   {add("Cookie: " + strings.Repeat("a=b; ", 2000) + "c=d"), 101},
		"HTTP/1.0":             {func(all []string) []string { all[0] = strings.Replace(all[0], "1.1", "1.0", 1); return all }, 426},
		"another method": {func(all []string) []string {
			all[0] = strings.Replace(all[0], "GET", "POST", 1)
			return append(all, "Content-Length: 0")
		}, 405},
		"HEAD":                  {func(all []string) []string { all[0] = strings.Replace(all[0], "GET", "HEAD", 1); return all }, 405},
		"an absolute other URL": {func(all []string) []string { all[0] = "GET http://evil.test/ws/browser-control HTTP/1.1"; return all }, 421},
	} {
		r := p.dialRaw()
		r.write(p.handshake(c.edit))
		r.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		answer, err := http.ReadResponse(r.in, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if answer.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, c.status)
		}
		if h := answer.Header; h.Get("Sec-WebSocket-Protocol")+h.Get("Sec-WebSocket-Extensions") != "" {
			t.Errorf("%s: agreed to %v", name, h)
		}
		if answer.StatusCode != http.StatusSwitchingProtocols && len(answer.Cookies()) > 0 {
			t.Errorf("%s: cookies %v", name, answer.Cookies())
		}
		r.conn.Close()
	}
	p.open() // none of that cost the arm anything
}

// What isn't the protocol's framing, or isn't one of its frames, ends the socket with
// a code and costs the server no memory to speak of.
func TestFrames(t *testing.T) {
	s := stand(t, nil)
	p := s.settle("Ada").page()
	p.arm() // which none of these sockets opens
	const invalid, large, protocol, fault = "4400 invalid_request", "1009 too_large", "1002 ", "1011 browser_channel_unavailable"
	long := strings.Repeat(" ", controlv1.MaxFrame)
	for name, c := range map[string]struct{ bytes, want string }{
		"not masked":                         {head(fin|opText, 2, false) + "{}", fault},
		"a reserved bit":                     {framed(fin|0x40|opText, "{}"), protocol},
		"another reserved bit":               {framed(fin|0x10|opText, "{}"), protocol},
		"a reserved opcode":                  {framed(fin|3, "{}"), protocol},
		"a reserved control opcode":          {framed(fin|11, ""), protocol},
		"a ping in parts":                    {framed(opPing, ""), protocol},
		"a long ping":                        {framed(fin|opPing, strings.Repeat("x", 126)), protocol},
		"a close of one byte":                {framed(fin|opClose, "\x03"), protocol},
		"a close with a code that is none":   {framed(fin|opClose, "\x03\xed"), protocol}, // 1005
		"a continuation of nothing":          {framed(fin|opMore, "{}"), protocol},
		"a message within a message":         {framed(opText, "{") + framed(fin|opText, "}"), protocol},
		"63 bits of length":                  {head(fin|opText, 1<<63-1, true) + masked(long+long), large},
		"64 bits of length":                  {head(fin|opText, 1<<63, true) + masked(long), fault},
		"a gigabyte that is announced":       {head(fin|opText, 1<<30, true) + masked(long+" "), large},
		"one byte more in parts":             {framed(opText, long) + framed(fin|opMore, " "), large},
		"many parts":                         {framed(opText, "") + strings.Repeat(framed(opMore, strings.Repeat(" ", 4096)), 17), large},
		"bytes":                              {framed(fin|opBytes, "{}"), invalid},
		"no UTF-8":                           {framed(fin|opText, "\xff"), invalid},
		"a surrogate in UTF-8":               {framed(fin|opText, "\"\xed\xa0\x80\""), invalid},
		"nothing":                            {framed(fin|opText, ""), invalid},
		"nothing in a thousand parts":        {framed(opText, "") + strings.Repeat(framed(opMore, ""), 1000) + framed(fin|opMore, ""), invalid},
		"as much as fits":                    {framed(fin|opText, long), invalid},
		"deeper than any stack":              {framed(fin|opText, strings.Repeat("[", 60_000)), invalid},
		"a key twice":                        {framed(fin|opText, `{"type":"channel.open","type":"channel.open"}`), invalid},
		"a key twice, once escaped":          {framed(fin|opText, `{"type":"channel.open","\u0074ype":"channel.open"}`), invalid},
		"another protocol":                   {framed(fin|opText, `{"protocol":"webmcp.control.v2","type":"channel.open"}`), invalid},
		"an authority's frame":               {framed(fin|opText, `{"protocol":"webmcp.control.v1","type":"channel.ready"}`), invalid},
		"two values":                         {framed(fin|opText, `{}{}`), invalid},
		"a NUL":                              {framed(fin|opText, "{}\x00"), invalid},
		"a ping between parts":               {framed(opText, "{") + framed(fin|opPing, "x") + framed(fin|opMore, "}"), invalid},
		"a result before anything is opened": {framed(fin|opText, `{"protocol":"webmcp.control.v1","type":"control.result","call_id":"x","status":"succeeded","result":null}`), invalid},
		"its own close":                      {framed(fin|opClose, "\x03\xe8"), "1000 "},
	} {
		r := p.upgraded()
		r.write(c.bytes)
		if got := r.told(); got != c.want && !(c.want == protocol && strings.HasPrefix(got, protocol)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		r.conn.Close()
	}
	p.open()
}

// Frames that carry nothing don't count as the page's, and cost the channel nothing:
// whatever comes between, its answers are heard.
func TestFloods(t *testing.T) {
	s := stand(t, nil)
	o := s.settle("Ada")
	p := o.page()
	p.arm()
	r := p.upgraded()
	generation, err := controlv1.NewGeneration(1)
	if err != nil {
		t.Fatal(err)
	}
	r.say(controlv1.Open{Nonce: p.nonce, Route: p.route, Generation: generation})
	r.say(controlv1.Register{Route: p.route, Generation: generation, Catalog: p.catalog})
	frame := func() controlv1.AuthorityFrame {
		t.Helper()
		for {
			op, payload, err := r.next()
			if err != nil || op == opClose {
				t.Fatalf("%v %q", err, payload)
			}
			if op == opText {
				f, err := controlv1.DecodeAuthority(payload)
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
		}
	}
	frame() // ready
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		for range 200 {
			r.write(strings.Repeat(framed(fin|opPing, strings.Repeat("x", 125))+framed(fin|opPong, ""), 100))
		}
		r.write(framed(fin|opPing, "last"))
	}()
	for pongs := 0; ; {
		op, payload, err := r.next()
		if err != nil || op != opPong {
			t.Fatalf("after %d pongs: %d %q %v", pongs, op, payload, err)
		}
		if pongs++; string(payload) == "last" {
			break
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("20,000 pings left %d bytes", grown)
	}
	c, _ := o.workflow("agent")
	got := p.ask(c, p.called(p.lease(c), "look", "after"))
	call, ok := frame().(controlv1.Call)
	if !ok {
		t.Fatal("no call")
	}
	value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
	if err != nil {
		t.Fatal(err)
	}
	r.say(controlv1.Result{Call: call.Call, Outcome: controlv1.Success{Value: value}})
	if h := <-got; h.err != nil || h.receipt.Status != controlv1.StatusSucceeded {
		t.Errorf("%+v", h)
	}
	// A message of nothing that never ends holds up nobody but its own page, and the
	// end of the arm ends it.
	r.write(framed(opText, "{") + strings.Repeat(framed(opMore, ""), 5000))
	if status, body := p.call("DELETE", attendedArm, nil); status != http.StatusNoContent {
		t.Fatalf("DELETE: %d %s", status, body)
	}
	if told := r.told(); told != "4403 revoked" {
		t.Errorf("the end: %s", told)
	}
}

// A thousand sockets of one session, each with its arm, are as many as one: none opens
// anything but the first that has the nonce, and their end is the arm's.
func TestThousandSockets(t *testing.T) {
	s := stand(t, nil)
	p := s.settle("Ada").page()
	p.arm()
	var all []*raw
	for range 1000 {
		all = append(all, p.upgraded())
	}
	p.open()
	before := runtime.NumGoroutine()
	start := time.Now()
	if status, body := p.call("DELETE", attendedArm, nil); status != http.StatusNoContent {
		t.Fatalf("DELETE: %d %s", status, body)
	}
	p.closed("the one that was open", controlv1.CloseTrust, "revoked")
	for i, r := range all {
		if told := r.told(); told != "4403 revoked" && told != "4408 timeout" {
			t.Fatalf("socket %d: %s", i, told)
		}
		r.conn.Close()
	}
	t.Logf("%d goroutines, closed in %v", before, time.Since(start))
}
