package idptest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Chromium is a real browser without a screen, with one tab and, once Passkeys
// was called, a virtual authenticator.
type Chromium struct {
	t       testing.TB
	cmd     *exec.Cmd
	to      *os.File
	session string // of the tab

	mu      sync.Mutex // over what follows
	next    int
	waiting map[int]chan answer
	Console []string // what the page's console said, errors and policy reports too
}

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// shells are where Debian's browser without a screen may be.
var shells = []string{"chromium-headless-shell", "/usr/lib/chromium/chromium-headless-shell"}

// NewChromium starts a browser; it ends with the test.
func NewChromium(t testing.TB) *Chromium {
	t.Helper()
	path := ""
	for _, shell := range shells {
		if found, err := exec.LookPath(shell); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no chromium-headless-shell: run `scripts/need.sh test`, or apt-get install chromium-headless-shell")
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &Chromium{t: t, to: to, waiting: map[int]chan answer{}}
	c.cmd = exec.Command(path, "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "--no-first-run", "--disable-gpu",
		"--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--no-sandbox", "--hide-scrollbars", "about:blank")
	c.cmd.ExtraFiles = []*os.File{theirs, theirOut} // descriptors 3 and 4
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	theirOut.Close()
	var reading sync.WaitGroup
	reading.Go(func() { c.read(from) })
	t.Cleanup(func() {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // its own group, all of it ours
		_ = c.cmd.Wait()
		to.Close()
		reading.Wait()
		from.Close()
	})
	var target struct {
		ID string `json:"targetId"`
	}
	c.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		ID string `json:"sessionId"`
	}
	c.call("", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	c.session = attached.ID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		c.Call(domain+".enable", nil, nil)
	}
	return c
}

// read hands out what the browser says until it ends.
func (c *Chromium) read(from *os.File) {
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := lines.ReadBytes(0)
		if err != nil {
			c.mu.Lock()
			for id, ch := range c.waiting {
				close(ch)
				delete(c.waiting, id)
			}
			c.mu.Unlock()
			return
		}
		var m struct {
			ID     int             `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			answer
		}
		if json.Unmarshal(bytes.TrimRight(line, "\x00"), &m) != nil {
			continue
		}
		c.mu.Lock()
		if ch := c.waiting[m.ID]; ch != nil {
			ch <- m.answer
			delete(c.waiting, m.ID)
		}
		if m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" || m.Method == "Runtime.consoleAPICalled" {
			c.Console = append(c.Console, string(m.Params))
		}
		c.mu.Unlock()
	}
}

// Call runs one command in the tab.
func (c *Chromium) Call(method string, params, out any) {
	c.t.Helper()
	c.call(c.session, method, params, out)
}

func (c *Chromium) call(session, method string, params, out any) {
	c.t.Helper()
	if err := c.try(session, method, params, out); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

func (c *Chromium) try(session, method string, params, out any) error {
	ch := make(chan answer, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = ch
	c.mu.Unlock()
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if session != "" {
		message["sessionId"] = session
	}
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := c.to.Write(append(data, 0)); err != nil {
		return err
	}
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case a, ok := <-ch:
		switch {
		case !ok:
			return errors.New("the browser is gone")
		case a.Error != nil:
			return errors.New(a.Error.Message)
		case out != nil:
			return json.Unmarshal(a.Result, out)
		}
		return nil
	case <-timer.C:
		return errors.New("no answer in 30 s")
	}
}

// Passkeys adds a virtual authenticator that verifies its user at once, and
// answers its id.
func (c *Chromium) Passkeys() string {
	c.t.Helper()
	c.Call("WebAuthn.enable", map[string]any{}, nil)
	var made struct {
		ID string `json:"authenticatorId"`
	}
	c.Call("WebAuthn.addVirtualAuthenticator", map[string]any{"options": map[string]any{
		"protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true,
		"isUserVerified": true, "automaticPresenceSimulation": true,
	}}, &made)
	return made.ID
}

// Open navigates the tab.
func (c *Chromium) Open(url string) {
	c.t.Helper()
	c.Call("Page.navigate", map[string]any{"url": url}, nil)
}

// Eval answers a JavaScript expression's value, awaited.
func (c *Chromium) Eval(expression string, out any) error {
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	err := c.try(c.session, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &got)
	switch {
	case err != nil:
		return err
	case got.Exception != nil:
		return fmt.Errorf("%s: %s", expression, got.Exception.Text)
	case out != nil && got.Result.Value != nil:
		return json.Unmarshal(got.Result.Value, out)
	}
	return nil
}

// Text answers an expression's value as text, "" where it has none yet.
func (c *Chromium) Text(expression string) string {
	var s string
	if err := c.Eval("String("+expression+")", &s); err != nil {
		return ""
	}
	return s
}

// Until waits until an expression is true, and fails the test with what the page
// shows where it isn't within 20 seconds.
func (c *Chromium) Until(expression string) {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
		var is bool
		if err := c.Eval("!!("+expression+")", &is); err == nil && is {
			return
		}
	}
	c.mu.Lock()
	said := strings.Join(c.Console, "\n")
	c.mu.Unlock()
	c.t.Fatalf("never true: %s\nat %s\n%s\n%s", expression, c.Text("location.href"), c.Text("document.body.innerText"), said)
}

// Screenshot writes what the tab shows, at that width and colour scheme, to a
// PNG file.
func (c *Chromium) Screenshot(file string, width, height int, scheme string) {
	c.t.Helper()
	c.Look(width, height, scheme)
	var shot struct {
		Data string `json:"data"`
	}
	c.Call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		c.t.Error(err)
	}
}

// Look sets the tab's size and colour scheme.
func (c *Chromium) Look(width, height int, scheme string) {
	c.t.Helper()
	c.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	c.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Speak sets which languages the browser asks for.
func (c *Chromium) Speak(languages string) {
	c.t.Helper()
	c.Call("Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]any{"Accept-Language": languages}}, nil)
}
