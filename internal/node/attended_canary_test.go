package node_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/idptest"
	"chaperone/internal/node"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
	"chaperone/internal/surface/guard"
)

// canaries are words that mustn't be found, by what they are.
type canaries map[string]string

// in tells which stand in a text, as they are or as tools write them.
func (c canaries) in(text []byte) (found []string) {
	for name, word := range c {
		for _, form := range []string{word, base64.StdEncoding.EncodeToString([]byte(word)), base64.RawURLEncoding.EncodeToString([]byte(word)), hex.EncodeToString([]byte(word))} {
			if bytes.Contains(text, []byte(form)) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (c canaries) none(t *testing.T, where string, text []byte) {
	t.Helper()
	for _, name := range c.in(text) {
		t.Errorf("%s: found in %s", name, where)
	}
}

// jar keeps what is written to it.
type jar struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (j *jar) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.data.Write(b)
}

func (j *jar) bytes() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Clone(j.data.Bytes())
}

// refusals keeps what answers other than 200 say.
type refusals struct{ *jar }

func (r refusals) RoundTrip(q *http.Request) (*http.Response, error) {
	a, err := http.DefaultTransport.RoundTrip(q)
	if err == nil && a.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(a.Body)
		a.Body.Close()
		r.Write(data)
		a.Body = io.NopCloser(bytes.NewReader(data))
	}
	return a, err
}

// What was said over attended control stands nowhere afterwards: not the credentials,
// arguments, results and text of a page in anything that the server's home holds, its
// logs, its exports and its refusals; and in the records of attended control, the log
// and the traces not the person, the page's origin or its route either.
func TestCanaries(t *testing.T) {
	var logs, traces, refused jar
	log.SetOutput(&logs)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(body)
		}
		io.Copy(&traces, body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	s, f := elsewhere(t, func(c *node.Config) { c.Telemetry.OTLP = collector.URL })

	secret := canaries{"the access token": "canary-access-" + session.NewSecret(), "the arguments": "canary-arguments", "bad arguments": "canary-bad-arguments",
		"the result": "canary-result", "a bad result": "canary-bad-result", "the page's text": "canary-page-text", "a frame that is none": "canary-frame", "a body that is none": "canary-body"}
	private := canaries{"the person's name": "Canary Person", "the person's subject": "canary-subject", "the origin": s.origin, "the route": "canary-route"}
	f.Do(func(say *idptest.Say) {
		say.Subject = private["the person's subject"]
		say.Claims = func(c map[string]any) { c["name"] = private["the person's name"] }
		say.Tokens = func(c map[string]any) {
			c["access_token"] = secret["the access token"]
			secret["an ID token"] = c["id_token"].(string)
		}
	})
	o := s.guest(t)
	schema := fmt.Appendf(nil, `{"type":"object","description":%q,"properties":{"n":{"type":"string"}},"required":["n"],"additionalProperties":false}`, secret["the page's text"])
	p := o.page(controlv1.Facts{ID: "look", Version: "1", Class: controlv1.Read, Confirmation: controlv1.NoConfirmation, SourceRef: secret["the page's text"], Input: schema, Output: schema},
		controlv1.Facts{ID: "write", Version: "1", Class: controlv1.AccountMutation, Confirmation: controlv1.ExactRequest, SourceRef: "test", Input: schema, Output: schema})
	p.route = ident(t, private["the route"])
	p.armOver()
	for _, name := range append([]string{guard.Cookie}, attendedCookies...) {
		if c := p.agent.Cookie(name); c != "" {
			secret["the cookie "+name] = c
		}
	}
	secret["the open nonce"], secret["the session's key"] = p.nonce.String(), o.secret
	p.open()
	var made struct {
		Token string `json:"token"`
	}
	o.do("POST", "/api/tokens", map[string]any{"name": "agent", "scopes": []string{"kg:write"}, "expires_in_s": 3600, "selection": []any{}}, &made)
	secret["the bearer token"] = made.Token
	carrier, err := client.NewHTTP(s.origin, func(context.Context) (string, error) { return made.Token, nil }, client.HTTPOptions{Transport: refusals{&refused}})
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(carrier)
	l := p.lease(c)
	n := 0
	called := func(tool, argument string) controlv1.ExecuteCall {
		n++
		e := p.called(l, tool, fmt.Sprintf("r%d", n))
		var err error
		if e.Arguments, err = controlv1.ParseValue([]byte(argument), controlv1.MaxArguments); err != nil {
			t.Fatal(err)
		}
		return e
	}
	result := func(word string) controlv1.Success {
		v, err := controlv1.ParseValue(fmt.Appendf(nil, `{"n":%q}`, word), controlv1.MaxResult)
		if err != nil {
			t.Fatal(err)
		}
		return controlv1.Success{Value: v}
	}
	good := fmt.Sprintf(`{"n":%q}`, secret["the arguments"])
	status := func(what string, got <-chan heard, want controlv1.Status) {
		t.Helper()
		if r := <-got; r.err != nil || r.receipt.Status != want {
			t.Fatalf("%s: %+v", what, r)
		}
	}

	got := p.ask(c, called("look", good))
	p.say(controlv1.Result{Call: p.hear().(controlv1.Call).Call, Outcome: result(secret["the result"])})
	status("a read", got, controlv1.StatusSucceeded)
	got = p.ask(c, called("write", good))
	q := p.hear().(controlv1.ConfirmationRequest)
	p.say(controlv1.Confirm{Call: q.Call, Confirmation: q.Confirmation})
	p.say(controlv1.Result{Call: p.hear().(controlv1.Call).Call, Outcome: result(secret["the result"])})
	status("a change", got, controlv1.StatusSucceeded)
	got = p.ask(c, called("write", good))
	q = p.hear().(controlv1.ConfirmationRequest)
	p.say(controlv1.Cancelled{Call: q.Call, Effect: controlv1.NoEffect})
	status("a no", got, controlv1.StatusDenied)
	got = p.ask(c, called("look", good))
	bad, err := controlv1.ParseValue(fmt.Appendf(nil, `{"other":%q}`, secret["a bad result"]), controlv1.MaxResult)
	if err != nil {
		t.Fatal(err)
	}
	p.say(controlv1.Result{Call: p.hear().(controlv1.Call).Call, Outcome: controlv1.Success{Value: bad}})
	status("a bad result", got, controlv1.StatusFailed)
	for _, argument := range []string{fmt.Sprintf(`{"other":%q}`, secret["bad arguments"]), fmt.Sprintf(`{%q:1}`, secret["bad arguments"]), fmt.Sprintf(`[%q]`, secret["bad arguments"])} {
		if _, err := c.Call(t.Context(), called("look", argument)); err == nil {
			t.Error("arguments outside the schema were taken")
		}
	}
	for _, body := range []any{map[string]any{"action": secret["a body that is none"]}, map[string]any{"action": "list_documents", secret["a body that is none"]: 1}, secret["a body that is none"]} {
		code, text := o.send("POST", "/browser/control", body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+made.Token) })
		if code < 400 {
			t.Errorf("%v was answered %d", body, code)
		}
		refused.Write(text)
	}
	_, text := o.send("POST", "/browser/control", map[string]any{"action": "list_documents"}, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+made.Token+"x")
	})
	refused.Write(text)
	if err := p.ws.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"protocol":"webmcp.control.v1","type":%q}`, secret["a frame that is none"])); err != nil {
		t.Fatal(err)
	}
	p.closed("a frame that is none", controlv1.CloseInvalid, "invalid_request")
	if code, _ := o.send("GET", "/metrics", nil, nil); code != http.StatusNotFound {
		t.Errorf("/metrics is answered %d: search it too", code)
	}
	for end := time.Now().Add(30 * time.Second); len(traces.bytes()) == 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}

	// What does stand there is found, so the search works.
	public := canaries{"a lease": l.Lease.String()}
	if found := public.in(s.search(t, secret)); len(found) == 0 { // with the server running: SQLite's log is still beside the file
		t.Error("not even the lease is found in the home")
	}
	s.columns(t, secret, private)
	s.end()
	s.search(t, secret)
	everything := canaries{}
	for _, all := range []canaries{secret, private} {
		for name, word := range all {
			everything[name] = word
		}
	}
	for where, text := range map[string][]byte{"the logs": logs.bytes(), "the traces": traces.bytes(), "the refusals": refused.bytes()} {
		if len(text) == 0 {
			t.Errorf("%s are empty: nothing was searched", where)
		}
		everything.none(t, where, text)
	}
	var export bytes.Buffer
	if _, err := audit.Export(t.Context(), storetest.Open(t, s.config.Database, store.Options{}), audit.ExportOptions{Filter: audit.Filter{Tenant: node.Tenant}}, &export); err != nil {
		t.Fatal(err)
	}
	secret.none(t, "the audit export", export.Bytes())
	if len(public.in(export.Bytes())) == 0 {
		t.Error("not even the lease is found in the export")
	}
	for line := range strings.SplitSeq(export.String(), "\n") {
		var r struct{ Leaf string }
		if json.Unmarshal([]byte(line), &r) == nil && strings.Contains(r.Leaf, "attended.") {
			private.none(t, "an exported record of attended control", []byte(line))
		}
	}
}

// search reads every file of a server's home, and answers all of them.
func (s *server) search(t *testing.T, secret canaries) (all []byte) {
	t.Helper()
	read := 0
	if err := filepath.WalkDir(s.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a socket, or what has just gone
		}
		data, err := os.ReadFile(path)
		if err == nil {
			read++
			secret.none(t, filepath.Base(path), data)
			all = append(all, data...)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if read < 3 {
		t.Errorf("only %d files of the home were read", read)
	}
	return all
}

// columns reads every row of every table, where pages of the file can't hide a word by
// cutting it in two. What is of attended control may not even hold who and where.
func (s *server) columns(t *testing.T, secret, private canaries) {
	t.Helper()
	db := storetest.Open(t, s.config.Database, store.Options{})
	rows := map[string]int{}
	if err := db.View(t.Context(), func(tx *store.Tx) error {
		tables, err := tx.Texts(`select name from sqlite_master where type='table'`)
		if err != nil {
			return err
		}
		for _, table := range tables {
			all, err := tx.Query(`select * from "` + table + `"`)
			if err != nil {
				return err
			}
			names, err := all.Columns()
			values := make([]any, len(names))
			for i := range values {
				values[i] = new(any)
			}
			for err == nil && all.Next() {
				if err = all.Scan(values...); err != nil {
					break
				}
				rows[table]++
				for i, v := range values {
					text := fmt.Append(nil, *v.(*any))
					if raw, ok := (*v.(*any)).([]byte); ok {
						text = raw
					}
					where := table + "." + names[i]
					secret.none(t, where, text)
					if strings.HasPrefix(table, "attended_") || strings.HasPrefix(table, "policy_") || table == "audit_leaf" {
						private.none(t, where, text)
					}
				}
			}
			all.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if rows["attended_call"] < 4 || rows["audit_leaf"] < 10 {
		t.Errorf("rows that were searched: %v", rows)
	}
}
