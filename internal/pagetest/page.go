package pagetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Look is how a page is looked at. The zero value is 1280 by 800, light, English.
type Look struct {
	Width, Height int
	Dark          bool
	Still         bool   // the person wants less motion
	Language      string // "en" or "es"; "" is en
}

// object is a command's parameters.
type object map[string]any

// Profile is a browser context: its own cookies and storage, shared by its pages.
type Profile struct {
	engine *Engine
	id     string
}

// Page is one tab.
type Page struct {
	Profile *Profile

	t       testing.TB
	engine  *Engine
	target  string
	session string

	mu       sync.Mutex // guards what events fill
	faults   []string
	requests []string
	received int64 // bytes over the network
	tools    map[string]Tool
	answers  map[string]chan Answer
	early    map[string]Answer
	frame    string
	chooser  chan int // the node that asks for a file
}

// Profile makes a fresh browser context.
func (e *Engine) Profile() *Profile {
	e.t.Helper()
	var made struct {
		ID string `json:"browserContextId"`
	}
	if err := e.call("", "Target.createBrowserContext", object{"disposeOnDetach": true}, &made); err != nil {
		e.t.Fatal(err)
	}
	return &Profile{e, made.ID}
}

// Page opens a tab in a context of its own.
func (e *Engine) Page(look Look) *Page {
	e.t.Helper()
	return e.Profile().Page(look)
}

// Page opens a tab. Its faults are told when the test ends.
func (p *Profile) Page(look Look) *Page {
	t := p.engine.t
	t.Helper()
	var made struct {
		Target string `json:"targetId"`
	}
	if err := p.engine.call("", "Target.createTarget", object{"url": "about:blank", "browserContextId": p.id}, &made); err != nil {
		t.Fatal(err)
	}
	return p.attach(made.Target, look)
}

// Opened waits for a tab that a page has opened by itself, at an address that begins
// so, and answers it.
func (p *Profile) Opened(address string, look Look) *Page {
	t := p.engine.t
	t.Helper()
	for range 500 {
		var all struct {
			Targets []struct {
				ID      string `json:"targetId"`
				Kind    string `json:"type"`
				URL     string `json:"url"`
				Context string `json:"browserContextId"`
			} `json:"targetInfos"`
		}
		if err := p.engine.call("", "Target.getTargets", nil, &all); err != nil {
			t.Fatal(err)
		}
		for _, it := range all.Targets {
			if it.Kind == "page" && it.Context == p.id && strings.HasPrefix(it.URL, address) {
				return p.attach(it.ID, look)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("no tab was opened at %s", address)
	return nil
}

func (p *Profile) attach(target string, look Look) *Page {
	t := p.engine.t
	t.Helper()
	var made struct {
		Session string `json:"sessionId"`
	}
	if err := p.engine.call("", "Target.attachToTarget", object{"targetId": target, "flatten": true}, &made); err != nil {
		t.Fatal(err)
	}
	page := &Page{Profile: p, t: t, engine: p.engine, target: target, session: made.Session, frame: target,
		chooser: make(chan int, 8), tools: map[string]Tool{}, answers: map[string]chan Answer{}, early: map[string]Answer{}}
	p.engine.wire.listen(made.Session, page.event)
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "WebMCP"} {
		page.Do(domain+".enable", nil, nil)
	}
	page.Look(look)
	t.Cleanup(func() {
		for _, f := range page.Faults() {
			t.Errorf("the page: %s", f)
		}
	})
	return page
}

// Close closes the tab.
func (p *Page) Close() {
	p.t.Helper()
	if err := p.engine.call("", "Target.closeTarget", object{"targetId": p.target}, nil); err != nil {
		p.t.Fatal(err)
	}
}

// Do runs a protocol command in the page; the test ends where it fails.
func (p *Page) Do(method string, params, result any) {
	p.t.Helper()
	if err := p.engine.call(p.session, method, params, result); err != nil {
		p.t.Fatal(err)
	}
}

// event notes what a test may ask for later.
func (p *Page) event(method string, params jsontext.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "Runtime.exceptionThrown":
		p.fault(params, "thrown")
	case "Runtime.consoleAPICalled":
		if strings.Contains(string(params), `"type":"error"`) {
			p.fault(params, "console.error")
		}
	case "Log.entryAdded":
		var e struct {
			Entry struct{ Source, Level, Text, URL string } `json:"entry"`
		}
		// What a server refuses is the test's own business.
		if json.Unmarshal(params, &e, lenient, json.MatchCaseInsensitiveNames(true)) == nil && e.Entry.Level == "error" && e.Entry.Source != "network" {
			p.faults = append(p.faults, e.Entry.Source+": "+e.Entry.Text+" "+e.Entry.URL)
		}
	case "Network.requestWillBeSent":
		var e struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if json.Unmarshal(params, &e, lenient) == nil {
			p.requests = append(p.requests, e.Request.URL)
		}
	case "Network.loadingFinished":
		var e struct {
			Length float64 `json:"encodedDataLength"`
		}
		if json.Unmarshal(params, &e, lenient) == nil {
			p.received += int64(e.Length)
		}
	case "Page.fileChooserOpened":
		var e struct {
			Node int `json:"backendNodeId"`
		}
		if json.Unmarshal(params, &e, lenient) == nil {
			p.chooser <- e.Node
		}
	default:
		p.webmcp(method, params)
	}
}

func (p *Page) fault(params jsontext.Value, what string) {
	text := string(params)
	p.faults = append(p.faults, what+": "+text[:min(len(text), 1500)])
}

// Faults answers and forgets what the page threw, logged as an error or had
// refused by its policy.
func (p *Page) Faults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.faults
	p.faults = nil
	return out
}

// Requests answers the addresses that the page has asked for.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Received answers how many bytes came over the network, headers included.
func (p *Page) Received() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received
}

// Goto loads an address and waits until it has loaded.
func (p *Page) Goto(address string) {
	p.t.Helper()
	var went struct {
		Error string `json:"errorText"`
	}
	p.Do("Page.navigate", object{"url": address}, &went)
	if went.Error != "" {
		p.t.Fatalf("%s: %s", address, went.Error)
	}
	p.Wait("document.readyState === 'complete'")
}

// Back goes back in the tab's history, as the browser's own button does.
func (p *Page) Back() {
	p.t.Helper()
	var history struct {
		Current int `json:"currentIndex"`
		Entries []struct {
			ID int `json:"id"`
		} `json:"entries"`
	}
	p.Do("Page.getNavigationHistory", nil, &history)
	p.Do("Page.navigateToHistoryEntry", object{"entryId": history.Entries[history.Current-1].ID}, nil)
}

// Eval runs an expression in the page, waits for its promise, and reads its value
// into into, which may be nil.
func (p *Page) Eval(expression string, into any) {
	p.t.Helper()
	if err := p.eval(expression, into, false); err != nil {
		p.t.Fatalf("%s: %v", expression[:min(len(expression), 300)], err)
	}
}

// EvalAsUser is Eval with what the protocol calls a user gesture.
func (p *Page) EvalAsUser(expression string, into any) {
	p.t.Helper()
	if err := p.eval(expression, into, true); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
}

func (p *Page) eval(expression string, into any, user bool) error {
	var got struct {
		Result struct {
			Value jsontext.Value `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.engine.call(p.session, "Runtime.evaluate", object{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": user}, &got)
	if err != nil {
		return err
	}
	if got.Exception != nil {
		return fmt.Errorf("%s %s", got.Exception.Text, got.Exception.Exception.Description)
	}
	if into == nil || len(got.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(got.Result.Value, into, lenient)
}

// waits is how long Wait waits; a loaded machine gets time.
const waits = 20 * time.Second

// Wait waits until an expression is true. A navigation meanwhile is no fault.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	var last error
	for end := time.Now().Add(waits); time.Now().Before(end); time.Sleep(15 * time.Millisecond) {
		var yes bool
		if last = p.eval("Boolean("+expression+")", &yes, false); last == nil && yes {
			return
		}
	}
	var text string
	_ = p.eval("document.body.innerText.slice(0, 1500)", &text, false)
	p.t.Fatalf("this didn't come true: %s (%v); the page says:\n%s", expression, last, text)
}

// Text answers what an element shows, "" where there is none.
func (p *Page) Text(selector string) (text string) {
	p.t.Helper()
	p.Eval("document.querySelector("+Quote(selector)+")?.innerText ?? ''", &text)
	return text
}

// See waits until the page shows these words.
func (p *Page) See(words string) {
	p.t.Helper()
	p.Wait("document.body.innerText.includes(" + Quote(words) + ")")
}

// Quote writes text as a JavaScript string.
func Quote(text string) string {
	data, err := json.Marshal(text, jsontext.EscapeForJS(true))
	if err != nil {
		panic(err)
	}
	return string(data)
}
