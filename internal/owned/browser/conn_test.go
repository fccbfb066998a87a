package browser_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// engine plays the far end of the pipe. It answers the opening calls truthfully,
// unless answer takes a call over.
type engine struct {
	net.Conn
	answer func(method string) (frames string, taken bool)
}

func (e engine) serve() {
	var rest []byte
	buffer := make([]byte, 64<<10)
	for {
		n, err := e.Read(buffer)
		if err != nil {
			return
		}
		rest = append(rest, buffer[:n]...)
		for {
			frame, after, found := bytes.Cut(rest, []byte{0})
			if !found {
				break
			}
			rest = after
			var call struct {
				ID      int64  `json:"id"`
				Method  string `json:"method"`
				Session string `json:"sessionId"`
			}
			if err := json.Unmarshal(frame, &call); err != nil {
				return
			}
			if _, err := io.WriteString(e, e.frames(call.ID, call.Method, call.Session)); err != nil {
				return
			}
		}
	}
}

func (e engine) frames(id int64, method, session string) string {
	if e.answer != nil {
		if frames, taken := e.answer(method); taken {
			return strings.ReplaceAll(frames, "ID", fmt.Sprint(id))
		}
	}
	result := `{}`
	before := ""
	if method == "Target.createTarget" {
		result = `{"targetId":"T"}`
		before = `{"method":"Target.attachedToTarget","params":{"sessionId":"S","waitingForDebugger":true,` +
			`"targetInfo":{"targetId":"T","type":"page","title":"","url":"","attached":true,"canAccessOpener":false}}}` + "\x00"
	}
	return fmt.Sprintf(`%s{"id":%d,"result":%s,"sessionId":%q}`+"\x00", before, id, result, session)
}

// openOn opens a browser on a played engine.
func openOn(t *testing.T, limit time.Duration, answer func(string) (string, bool)) (*browser.Browser, error) {
	t.Helper()
	near, far := net.Pipe()
	go engine{far, answer}.serve() // ends with the pipe
	s, err := scope.FromHosts("test", "127.0.0.1:*")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	b, err := browser.Open(ctx, browser.Config{Conn: near, Scope: s})
	if b != nil {
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return b, err
}

// Frames from the browser are hostile: what isn't the protocol ends the run with a
// code, and what is only unknown is skipped.
func TestHostileFrames(t *testing.T) {
	for _, test := range []struct {
		name, frames string
		want         refusal.Code // "": the run goes on
	}{
		{"unknown event", `{"method":"No.such","params":{"x":[1]}}` + "\x00", ""},
		{"unknown session", `{"method":"Page.loadEventFired","params":{},"sessionId":"other"}` + "\x00", ""},
		{"unknown members", `{"method":"Page.frameDetached","more":1,"params":{"frameId":"F","reason":"new","x":1},"sessionId":"S"}` + "\x00", ""},
		{"lone surrogate", `{"method":"No.such","params":{"x":"\ud800"}}` + "\x00", ""},
		{"an oversized event", `{"method":"No.such","params":"` + strings.Repeat("x", 30<<20) + `"}` + "\x00", ""},
		{"an attachment of nothing", `{"method":"Target.attachedToTarget","params":{"sessionId":"X"}}` + "\x00", ""},
		{"no JSON", "hello\x00", refusal.Malformed},
		{"an empty frame", "\x00", refusal.Malformed},
		{"an array", "[]\x00", refusal.Malformed},
		{"neither answer nor event", `{"params":{}}` + "\x00", refusal.Malformed},
		{"both", `{"id":1,"method":"x"}` + "\x00", refusal.Malformed},
		{"a negative id", `{"id":-1,"result":{}}` + "\x00", refusal.Malformed},
		{"an id of another type", `{"id":"1","result":{}}` + "\x00", refusal.Malformed},
		{"an answer to no call", `{"id":99999,"result":{}}` + "\x00", refusal.Malformed},
		{"a name twice", `{"id":1,"id":1,"result":{}}` + "\x00", refusal.Malformed},
		{"an event of another shape", `{"method":"Page.frameNavigated","params":{"frame":[]},"sessionId":"S"}` + "\x00", refusal.Malformed},
		{"a paused request of another shape", `{"method":"Fetch.requestPaused","params":{"request":1}}` + "\x00", refusal.Malformed},
		{"trailing data", `{"method":"Inspector.targetCrashed"} {}` + "\x00", refusal.Malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := openOn(t, 10*time.Second, func(method string) (string, bool) {
				if method != "Target.setAutoAttach" {
					return "", false
				}
				return test.frames + `{"id":ID,"result":{}}` + "\x00", true
			})
			if err == nil && test.want != "" { // it came after Open was done
				<-b.Done()
			}
			if err == nil {
				err = b.Err()
			}
			if got := refusal.Of(err); got != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// An answer over the cap fails its own call; the run goes on.
func TestOversizedAnswer(t *testing.T) {
	_, err := openOn(t, 10*time.Second, func(method string) (string, bool) {
		return `{"id":ID,"result":{"x":"` + strings.Repeat("y", 30<<20) + `"}}` + "\x00", method == "Fetch.enable"
	})
	if !errors.Is(err, refusal.TooLarge) {
		t.Errorf("got %v", err)
	}
}

// An engine that ends, or falls silent, ends Open.
func TestEngineThatDoesNotAnswer(t *testing.T) {
	_, err := openOn(t, 300*time.Millisecond, func(string) (string, bool) { return "", true })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silent: %v", err)
	}
	near, far := net.Pipe()
	far.Close()
	s, err := scope.FromHosts("test", "127.0.0.1:*")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := browser.Open(context.Background(), browser.Config{Conn: near, Scope: s}); refusal.Of(err) != refusal.EngineExited {
		t.Errorf("ended: %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	for _, frame := range []string{
		`{"method":"Page.frameAttached","params":{"frameId":"F","parentFrameId":"T"},"sessionId":"S"}`,
		`{"method":"Page.frameNavigated","params":{"frame":{"id":"T","loaderId":"L","url":"http://127.0.0.1/"},"type":"Navigation"},"sessionId":"S"}`,
		`{"method":"Page.frameDetached","params":{"frameId":"T","reason":"swap"},"sessionId":"S"}`,
		`{"method":"Target.attachedToTarget","params":{"sessionId":"X","targetInfo":{"targetId":"F","type":"iframe"},"waitingForDebugger":true},"sessionId":"S"}`,
		`{"method":"Target.detachedFromTarget","params":{"sessionId":"S"}}`,
		`{"method":"Inspector.targetCrashed","params":{},"sessionId":"S"}`,
		`{"method":"Fetch.requestPaused","params":{"requestId":"R","request":{"url":"http://x.test/","method":"GET"},"frameId":"T","resourceType":"Document","networkId":"L"}}`,
		`{"method":"Page.javascriptDialogOpening","params":{"url":"","frameId":"T","message":"m","type":"alert","hasBrowserHandler":false},"sessionId":"S"}`,
		`{"method":"Runtime.consoleAPICalled","params":{"type":"log","args":[{"type":"object","preview":{"subtype":"array","overflow":true,"properties":[{"name":"0","type":"number","value":"1"}]}}]},"sessionId":"S"}`,
		`{"method":"Runtime.exceptionThrown","params":{"exceptionDetails":{"text":"Uncaught","exception":{"type":"object","description":"Error: x"}}},"sessionId":"S"}`,
		`{"method":"Browser.downloadWillBegin","params":{"frameId":"T","guid":"G","url":"","suggestedFilename":".."}}`,
		`{"method":"Browser.downloadProgress","params":{"guid":"G","totalBytes":1,"receivedBytes":1,"state":"completed"}}`,
		`{"id":1,"result":{},"sessionId":"S"}`,
		"\x00", `{"method":"\ud800"}`,
	} {
		f.Add([]byte(frame))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		b, err := openOn(t, 10*time.Second, func(method string) (string, bool) {
			if method != "Runtime.runIfWaitingForDebugger" {
				return "", false
			}
			return string(frame) + "\x00" + `{"id":ID,"result":{}}` + "\x00", true
		})
		// Any bytes either leave a run that works or end it; none hangs or panics.
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		for _, a := range []ownedv1.Action{ownedv1.Launch{Headless: true}, ownedv1.ListTabs{}, ownedv1.ConsoleLogs{}} {
			if _, err := b.Do(ctx, a); err != nil && refusal.Of(err) == "" {
				t.Errorf("%s: %v", a.Name(), err)
			}
		}
	})
}
