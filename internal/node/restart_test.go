package node_test

import (
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// A server that was ended and started again knows its people, sessions, grants and
// items; what was ended stays ended.
func TestRestart(t *testing.T) {
	s := stand(t, nil)
	o := s.settle("Ada")
	const id = "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a01"
	write := map[string]any{"item": "a.txt", "request_id": id, "content": "kept", "if_absent": true}
	var first, again struct{ Version, Receipt string }
	o.do("PUT", "/api/collections/files/item", write, &first)
	var token struct{ Token string }
	o.do("POST", "/api/tokens", map[string]any{"name": "script", "scopes": []string{"collections"}, "expires_in_s": 3600,
		"selection": []any{map[string]any{"collection": "files", "functions": []string{"item_read"}}}}, &token)
	s.end()
	s.start()
	o.do("PUT", "/api/collections/files/item", write, &again)
	if first != again || first.Receipt == "" {
		t.Errorf("the same request before and after: %v, %v", first, again)
	}
	if text, failed := tool(t, s.mcp(token.Token), "item_read", map[string]any{"collection": "files", "item": "a.txt"}); failed || !strings.Contains(text, "kept") {
		t.Errorf("item_read after the restart: %s", text)
	}
	o.do("POST", "/auth/logout", map[string]any{}, nil)
	s.end()
	s.start()
	o.refused("GET", "/api/session", nil, 401, "session_expired")
}

// Mail that comes in over LMTP is in the person's inbox; for anybody else it is
// refused.
func TestMail(t *testing.T) {
	s := stand(t, nil)
	o := s.settle("Ada Lovelace")
	socket := strings.TrimPrefix(s.config.Sources.Inbox.LMTP, "unix:")
	deliver := func(to string) error {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		return lmtp(textproto.NewConn(conn), to, "Subject: Hello\r\nFrom: bob@example.com\r\n\r\nDear Ada\r\n")
	}
	if err := deliver("ada.lovelace@localhost"); err != nil {
		t.Fatal(err)
	}
	if err := deliver("mallory@localhost"); err == nil || !strings.HasPrefix(err.Error(), "550") {
		t.Errorf("mail for nobody: %v", err)
	}
	var list struct {
		Items []struct {
			Item, Title, Version string
			Metadata             map[string]any
		} `json:"items"`
	}
	o.get("/api/collections/inbox/items", &list)
	if len(list.Items) != 1 || list.Items[0].Title != "Hello" {
		t.Fatalf("inbox: %+v", list)
	}
	m := list.Items[0]
	var done struct{ Outcome, Version string }
	o.do("PUT", "/api/collections/inbox/item", map[string]any{"item": m.Item, "request_id": "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a03",
		"metadata": map[string]any{"seen": true}, "if_version": m.Version}, &done)
	if done.Outcome != "metadata_updated" || done.Version == m.Version {
		t.Errorf("marking it seen: %+v", done)
	}
	o.refused("DELETE", "/api/collections/inbox/item", map[string]any{"item": m.Item, "request_id": "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a04", "if_version": done.Version}, 403, "function_unavailable")
}

// lmtp delivers one message to one recipient.
func lmtp(c *textproto.Conn, to, message string) error {
	step := func(code int, format string, args ...any) error {
		if format != "" {
			if err := c.PrintfLine(format, args...); err != nil {
				return err
			}
		}
		_, _, err := c.ReadResponse(code)
		return err
	}
	for _, s := range []struct {
		code int
		line string
	}{{220, ""}, {250, "LHLO test"}, {250, "MAIL FROM:<bob@example.com>"}, {250, "RCPT TO:<" + to + ">"}, {354, "DATA"}} {
		format := "%s"
		if s.line == "" {
			format = "" // the server speaks first
		}
		if err := step(s.code, format, s.line); err != nil {
			return err
		}
	}
	w := c.DotWriter()
	w.Write([]byte(message))
	if err := w.Close(); err != nil {
		return err
	}
	return step(250, "")
}
