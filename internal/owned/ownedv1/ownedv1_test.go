package ownedv1_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

var (
	identity  = ownedv1.Identity{Protocol: ownedv1.Protocol, EngagementID: "acme-2026", RunID: "run_1", Epoch: strings.Repeat("e", 64)}
	token     = strings.Repeat("b", 64)
	commit    = strings.Repeat("c", 40)
	nonce     = strings.Repeat("d", 64)
	requestID = strings.Repeat("f", 32)
)

func descriptor(now time.Time) ownedv1.Descriptor {
	return ownedv1.Descriptor{
		Identity: identity, Endpoint: ownedv1.UnixEndpoint, Transport: ownedv1.TransportUnix,
		BootstrapToken: token, ExpiresAtMS: now.UnixMilli() + 30_000, HostCommit: commit,
	}
}

func TestCapabilities(t *testing.T) {
	if len(ownedv1.Actions) != 13 || len(ownedv1.Capabilities) != 15 {
		t.Errorf("%d actions, %d capabilities", len(ownedv1.Actions), len(ownedv1.Capabilities))
	}
	for _, name := range ownedv1.Actions {
		a, err := ownedv1.DecodeParams(name, []byte(`{"url":"u","selector":"s","text":"t","expression":"e","tab_id":"i"}`))
		if err != nil || a.Name() != name {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
}

func TestDecodeParams(t *testing.T) {
	for _, c := range []struct {
		action, params string
		want           ownedv1.Action
	}{
		{"launch", `{}`, ownedv1.Launch{Headless: true}},
		{"launch", `{"headless":false}`, ownedv1.Launch{}},
		{"goto", `{"url":"http://a/"}`, ownedv1.Goto{URL: "http://a/", TimeoutMS: 30000}},
		{"goto", `{"url":"","timeout_ms":0}`, ownedv1.Goto{}},
		{"click", `{"selector":"#a","x":[{}]}`, ownedv1.Click{Selector: "#a", TimeoutMS: 15000}},
		{"type", `{"text":"é\n","selector":"#a"}`, ownedv1.Type{Selector: "#a", Text: "é\n", TimeoutMS: 15000}},
		{"type", `{"text":"","selector":"","delay_ms":1,"timeout_ms":2}`, ownedv1.Type{DelayMS: 1, TimeoutMS: 2}},
		{"scroll", `{"dx":-1}`, ownedv1.Scroll{DX: -1}},
		{"screenshot", `{"full_page":true}`, ownedv1.Screenshot{FullPage: true}},
		{"eval_js", `{"expression":"1"}`, ownedv1.EvalJS{Expression: "1"}},
		{"console_logs", `{"clear":true}`, ownedv1.ConsoleLogs{Clear: true}},
		{"page_source", `{}`, ownedv1.PageSource{}},
		{"pdf", `{}`, ownedv1.PDF{}},
		{"list_tabs", `{}`, ownedv1.ListTabs{}},
		{"switch_tab", `{"tab_id":"popup-1"}`, ownedv1.SwitchTab{TabID: "popup-1"}},
		{"close", `{}`, ownedv1.Close{}},
	} {
		got, err := ownedv1.DecodeParams(c.action, []byte(c.params))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s %s: %v\n%s", c.action, c.params, err, diff)
		}
		// What a client encodes is what a host decodes.
		raw, err := ownedv1.EncodeParams(c.want)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ownedv1.DecodeParams(c.action, raw)
		if diff := cmp.Diff(c.want, again); err != nil || diff != "" {
			t.Errorf("%s by way of %s: %v\n%s", c.action, raw, err, diff)
		}
	}
	if a, err := ownedv1.DecodeParams("fly", []byte(`{}`)); a != nil || refusal.Of(err) != refusal.BrowserActionFailed {
		t.Errorf("an unknown action: %v, %v", a, err)
	}
	for _, a := range []ownedv1.Action{ownedv1.EvalJS{Expression: "\xff"}, ownedv1.EvalJS{Expression: strings.Repeat("x", ownedv1.MaxMessage)}} {
		if _, err := ownedv1.EncodeParams(a); refusal.Of(err) != refusal.BrowserActionFailed {
			t.Errorf("params that can't be sent: %v", err)
		}
	}
}

// Results marshal to exactly the keys of section 1, with nothing HTML-escaped
// and no null where the spec has a list.
func TestResults(t *testing.T) {
	main, ok := "main", 200
	for _, c := range []struct {
		result any
		want   string
	}{
		{ownedv1.LaunchResult{Tabs: []string{"main"}, Active: &main}, `{"tabs":["main"],"active":"main"}`},
		{ownedv1.TabsResult{}, `{"tabs":[],"active":null}`},
		{ownedv1.GotoResult{URL: "http://a/?b&c", Status: &ok, Title: "<T>"}, `{"url":"http://a/?b&c","status":200,"title":"<T>"}`},
		{ownedv1.GotoResult{URL: "about:blank"}, `{"url":"about:blank","status":null,"title":""}`},
		{ownedv1.ClickResult{Clicked: "a > b", URL: "u"}, `{"clicked":"a > b","url":"u"}`},
		{ownedv1.TypeResult{TypedInto: "#a", Chars: 3}, `{"typed_into":"#a","chars":3}`},
		{ownedv1.ScrollResult{Scrolled: ownedv1.Delta{DX: 1, DY: -2}, URL: "u"}, `{"scrolled":{"dx":1,"dy":-2},"url":"u"}`},
		{ownedv1.ScreenshotResult{Format: "png", Bytes: 1, Base64: "AA=="}, `{"format":"png","bytes":1,"base64":"AA=="}`},
		{ownedv1.PDFResult{Format: "pdf", Bytes: 1, Base64: "AA=="}, `{"format":"pdf","bytes":1,"base64":"AA=="}`},
		{ownedv1.EvalResult{Result: jsontext.Value(`{"b":1.50,"a":null}`)}, `{"result":{"b":1.50,"a":null}}`},
		{ownedv1.EvalResult{}, `{"result":null}`},
		{ownedv1.ConsoleResult{}, `{"count":0,"lines":[]}`},
		{ownedv1.SourceResult{URL: "u", Bytes: 3, HTML: "a\xffb"}, `{"url":"u","bytes":3,"html":"a` + "\ufffd" + `b"}`},
		{ownedv1.SwitchResult{Active: "main"}, `{"active":"main"}`},
		{ownedv1.CloseResult{Closed: true}, `{"closed":true}`},
		{ownedv1.FailureResult{Error: refusal.BrowserActionFailed}, `{"error":"BROWSER_ACTION_FAILED"}`},
	} {
		got, err := ownedv1.EncodeResult(c.result)
		if err != nil || string(got) != c.want {
			t.Errorf("%T: got %s, %v; want %s", c.result, got, err, c.want)
		}
	}
	if _, err := ownedv1.EncodeResult(ownedv1.EvalResult{Result: jsontext.Value(`{`)}); refusal.Of(err) != refusal.BadDocument {
		t.Errorf("no JSON: %v", err)
	}
	if _, err := ownedv1.EncodeResult(ownedv1.SourceResult{HTML: strings.Repeat("x", ownedv1.MaxMessage)}); refusal.Of(err) != refusal.TooLarge {
		t.Errorf("over 8 MiB: %v", err)
	}
}

// The largest result fits in a message, whatever the identity.
func TestMaxResultFits(t *testing.T) {
	long := ownedv1.Identity{Protocol: ownedv1.Protocol, EngagementID: strings.Repeat("e", 128), RunID: strings.Repeat("r", 128), Epoch: identity.Epoch}
	r := ownedv1.ActionResponse{Identity: long, RequestID: requestID, Sequence: ownedv1.MaxSequence,
		Result: jsontext.Value(`{"html":"` + strings.Repeat("x", ownedv1.MaxResult-11) + `"}`)}
	if data := r.Encode(); len(data) > ownedv1.MaxMessage {
		t.Errorf("%d bytes", len(data))
	}
	p, err := ownedv1.EncodeParams(ownedv1.EvalJS{Expression: strings.Repeat("x", ownedv1.MaxResult-17)})
	if err != nil {
		t.Fatal(err)
	}
	q := ownedv1.ActionRequest{Identity: long, RequestID: requestID, Sequence: ownedv1.MaxSequence, DeadlineMS: 1 << 50, Action: "console_logs", RawParams: p}
	if data := q.Encode(); len(data) > ownedv1.MaxMessage {
		t.Errorf("%d bytes", len(data))
	}
}

func TestFailure(t *testing.T) {
	for result, want := range map[string]refusal.Code{
		`{"error":"BROWSER_ACTION_FAILED"}`:            refusal.BrowserActionFailed,
		`{"error":"BROWSER_SCOPE_DENIED"}`:             refusal.BrowserScopeDenied,
		`{"error":"BROWSER_TIMEOUT"}`:                  "",
		`{"error":"BROWSER_ACTION_FAILED","url":"u"}`:  "",
		`{"result":{"error":"BROWSER_ACTION_FAILED"}}`: "",
		`{"closed":true}`:                              "",
	} {
		if got := ownedv1.Failure([]byte(result)); got != want {
			t.Errorf("%s: got %q, want %q", result, got, want)
		}
	}
}

func TestRefuse(t *testing.T) {
	for status, want := range map[int][2]refusal.Code{ // of an action or cancel, of a handshake
		400: {refusal.BrowserProtocolError, refusal.IncompatibleRuntime},
		401: {refusal.UnauthorizedAdapter, refusal.UnauthorizedAdapter},
		403: {refusal.UnauthorizedAdapter, refusal.UnauthorizedAdapter},
		404: {refusal.BrowserProtocolError, refusal.IncompatibleRuntime},
		405: {refusal.BrowserProtocolError, refusal.IncompatibleRuntime},
		409: {refusal.UnauthorizedAdapter, refusal.UnauthorizedAdapter},
		413: {refusal.BrowserProtocolError, refusal.IncompatibleRuntime},
		415: {refusal.BrowserProtocolError, refusal.IncompatibleRuntime},
		426: {refusal.IncompatibleRuntime, refusal.IncompatibleRuntime},
		504: {refusal.BrowserTimeout, refusal.BrowserTimeout},
	} {
		got := [2]refusal.Code{ownedv1.DoAction.Refuse(status, "", "").Code, ownedv1.Handshake.Refuse(status, "", "").Code}
		if got != want {
			t.Errorf("%d: got %v, want %v", status, got, want)
		}
		body := ownedv1.Cancel.Refuse(status, "f", "w").Body()
		if e, err := ownedv1.DecodeErrorBody(body); err != nil || e.Error != want[0] {
			t.Errorf("%d: body %s: %v, %v", status, body, e, err)
		}
	}
}

func TestIdentityCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ownedv1.Identity)
		status int
	}{
		"same":             {func(*ownedv1.Identity) {}, 0},
		"another protocol": {func(id *ownedv1.Identity) { id.Protocol, id.RunID = "x", "y" }, 426},
		"another run":      {func(id *ownedv1.Identity) { id.RunID = "run_2" }, 403},
		"engagement":       {func(id *ownedv1.Identity) { id.EngagementID = "acme" }, 403},
		"epoch":            {func(id *ownedv1.Identity) { id.Epoch = strings.Repeat("0", 64) }, 403},
	} {
		id := identity
		c.change(&id)
		var bad *ownedv1.Bad
		if err := id.Check(ownedv1.DoAction, identity); errors.As(err, &bad) != (c.status != 0) || bad != nil && bad.Status != c.status {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No error repeats a value: they hold credentials and page text.
func TestErrorsKeepValuesToThemselves(t *testing.T) {
	now := time.Now()
	const secret = "s3cret"
	for name, err := range map[string]error{
		"field": second(ownedv1.DecodeHandshakeRequest([]byte(`{"client_nonce":"` + secret + `"}`))),
		"name":  second(ownedv1.DecodeHandshakeRequest([]byte(`{"` + secret + `":1}`))),
		"text":  second(ownedv1.DecodeDescriptor([]byte(`{"bootstrap_token":"`+secret+`"`), now)),
		"param": second(ownedv1.DecodeParams("goto", []byte(`{"url":["`+secret+`"]}`))),
		"raw":   second(ownedv1.EncodeResult(ownedv1.EvalResult{Result: jsontext.Value(`{"` + secret + `":1,"` + secret + `":1}`)})),
	} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestExpired(t *testing.T) {
	now := time.UnixMilli(5000)
	for ms, want := range map[int64]bool{4999: true, 5000: true, 5001: false} {
		if got := (ownedv1.ActionRequest{DeadlineMS: ms}).Expired(now); got != want {
			t.Errorf("%d: %v", ms, got)
		}
	}
}

// Requests and answers come back as they were.
func TestRoundTrip(t *testing.T) {
	now := time.Now()
	q := ownedv1.ActionRequest{Identity: identity, RequestID: requestID, Sequence: 7, DeadlineMS: now.UnixMilli(), Action: "goto", RawParams: jsontext.Value(`{"url":"<&>"}`)}
	got, err := ownedv1.DecodeActionRequest(q.Encode(), now)
	if err != nil || !bytes.Equal(got.RawParams, q.RawParams) || got.Sequence != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	h := ownedv1.HandshakeRequest{Identity: identity, ClientNonce: nonce}
	if got, err := ownedv1.DecodeHandshakeRequest(h.Encode()); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
	a := ownedv1.HandshakeResponse{Identity: identity, ClientNonce: nonce, SessionToken: token, ExpiresAtMS: 1, HostCommit: commit, Capabilities: ownedv1.Capabilities}
	gotA, err := ownedv1.DecodeHandshakeResponse(a.Encode())
	if diff := cmp.Diff(a, gotA); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
