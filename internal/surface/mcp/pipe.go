package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// transport makes the one [pipe] of a server.
type transport struct {
	ctx   context.Context
	in    io.Reader
	out   io.Writer
	queue *queue
}

func (t *transport) Connect(context.Context) (sdk.Connection, error) {
	p := &pipe{ctx: t.ctx, lines: make(chan line), closed: make(chan struct{}), out: t.out, queue: t.queue}
	go p.scan(t.in)
	return p, nil
}

// pipe is the SDK's connection: one message a line, checked before it is
// decoded, written without being encoded twice.
type pipe struct {
	ctx    context.Context // done: reading ends as if the client had left
	lines  chan line
	closed chan struct{}
	once   sync.Once
	queue  *queue

	mu  sync.Mutex // a line is written whole
	out io.Writer
}

// line is one line of input, or why there is none.
type line struct {
	data []byte
	err  error
}

var errTooLong = errors.New("line too long")

// scan reads lines until the input ends. It may outlive the pipe by one read,
// since a read of standard input can't be interrupted; it then holds nothing.
func (p *pipe) scan(in io.Reader) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		data, err := readLine(r)
		if err == nil && len(data) == 0 {
			continue // blank lines are no messages
		}
		select {
		case p.lines <- line{data, err}:
		case <-p.closed:
			return
		case <-p.ctx.Done():
			return
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
	}
}

// readLine answers the next line without its end. One that is over the limit is
// skipped to its end, so that the line after it is read from its start.
func readLine(r *bufio.Reader) ([]byte, error) {
	var data []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			data = append(data, part...)
			if long = len(data) > maxMessage; long {
				data = nil
			}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(data) > 0: // a last line without its end
			return trim(data), nil
		case err != nil:
			return nil, err
		case long:
			return nil, errTooLong
		default:
			return trim(data), nil
		}
	}
}

func trim(data []byte) []byte {
	for len(data) > 0 && (data[len(data)-1] == '\n' || data[len(data)-1] == '\r' || data[len(data)-1] == ' ') {
		data = data[:len(data)-1]
	}
	return data
}

// callID is the header under which a tool call's id reaches its handler: extra
// headers are the one thing that the SDK carries from a connection to there.
const callID = "Chaperone-Call"

// Read answers the next good message. A bad line is answered here.
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var next line
		select {
		case next = <-p.lines:
		case <-p.closed:
			return nil, io.EOF
		case <-p.ctx.Done():
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		msg, err := p.decode(next)
		var bad *fault
		switch {
		case err == nil:
			return msg, p.place(ctx, msg)
		case !errors.As(err, &bad):
			return nil, err
		}
		if err := p.reject(bad.id, bad); err != nil {
			return nil, err
		}
	}
}

// decode turns a line into a message and puts a tool call into the queue.
func (p *pipe) decode(next line) (jsonrpc.Message, error) {
	if errors.Is(next.err, errTooLong) {
		return nil, invalid(fmt.Sprintf("message over %d bytes", maxMessage))
	}
	if next.err != nil {
		return nil, next.err
	}
	head, bad := read(next.data)
	if bad != nil {
		bad.id = p.queue.asker(next.data)
		return nil, bad
	}
	msg, err := jsonrpc.DecodeMessage(next.data)
	if err != nil {
		return nil, invalid("not a JSON-RPC message")
	}
	req, ok := msg.(*jsonrpc.Request)
	switch {
	case !ok || !req.IsCall():
		return msg, nil
	case req.Method != toolCall:
		bad = p.queue.pass(req.ID)
	default:
		bad = p.queue.join(req.ID)
		req.Extra = &sdk.RequestExtra{Header: http.Header{callID: {string(head.id)}}}
	}
	if bad != nil {
		return nil, bad
	}
	return msg, nil
}

const toolCall = "tools/call"

// place waits for the place of a request without a turn; its answer ends it.
func (p *pipe) place(ctx context.Context, msg jsonrpc.Message) error {
	if req, ok := msg.(*jsonrpc.Request); !ok || !req.IsCall() || req.Method == toolCall {
		return nil
	}
	select {
	case p.queue.places <- struct{}{}:
		return nil
	case <-p.closed:
		return io.EOF
	case <-p.ctx.Done():
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}

// idOf reads a call's id back from its header; see [callID].
func idOf(extra *sdk.RequestExtra) jsonrpc.ID {
	if extra == nil {
		return jsonrpc.ID{}
	}
	raw := extra.Header[callID]
	if len(raw) != 1 {
		return jsonrpc.ID{}
	}
	id, err := readID([]byte(raw[0]))
	if err != nil {
		return jsonrpc.ID{}
	}
	return id
}

// reject answers what never became a call.
func (p *pipe) reject(id jsontext.Value, f *fault) error {
	if id == nil {
		id = jsontext.Value("null")
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	return p.writeLine(appendError(b, f.code, f.text, nil))
}

// Write sends a message and ends its call's turn. A result is copied as it is:
// encoding the whole message anew would read a page's source three times more.
func (p *pipe) Write(_ context.Context, msg jsonrpc.Message) error {
	resp, ok := msg.(*jsonrpc.Response)
	if !ok {
		data, err := jsonrpc.EncodeMessage(msg)
		if err != nil {
			return err
		}
		return p.writeLine(data)
	}
	defer p.queue.answer(resp.ID)()
	b := make([]byte, 0, len(resp.Result)+128)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = appendID(b, resp.ID)
	if resp.Error != nil {
		code, text, data := wording(resp.Error)
		return p.writeLine(appendError(b, code, text, data))
	}
	b = append(b, `,"result":`...)
	b = append(b, resp.Result...)
	return p.writeLine(append(b, '}'))
}

// wording answers an error for the wire. The SDK wraps its own errors in texts
// that quote the parameters; only the fixed part goes out.
func wording(err error) (code int64, text string, data json.RawMessage) {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return wire.Code, wire.Message, wire.Data
	}
	if errors.Is(err, context.Canceled) {
		return jsonrpc.CodeInternalError, "cancelled before it started", nil
	}
	return jsonrpc.CodeInvalidRequest, "invalid request: initialize once and first, or name the protocol version in _meta", nil
}

func appendID(b []byte, id jsonrpc.ID) []byte {
	switch v := id.Raw().(type) {
	case int64:
		return strconv.AppendInt(b, v, 10)
	case string:
		return appendString(b, v)
	}
	return append(b, "null"...)
}

func appendError(b []byte, code int64, text string, data json.RawMessage) []byte {
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, code, 10)
	b = append(b, `,"message":`...)
	b = appendString(b, text)
	if len(data) > 0 {
		b = append(append(b, `,"data":`...), data...)
	}
	return append(b, "}}"...)
}

func (p *pipe) writeLine(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.out.Write(append(b, '\n'))
	return err
}

// Close ends reading. The streams belong to the caller.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// SessionID is empty: one pipe is one session.
func (p *pipe) SessionID() string { return "" }
