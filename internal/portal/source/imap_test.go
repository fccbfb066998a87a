package source_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/sourcetest"
)

// TestIMAPSecrets: a password never goes to a server whose certificate isn't
// trusted, or that won't encrypt.
func TestIMAPSecrets(t *testing.T) {
	d := sourcetest.IMAP(t)
	user := d.User(t)
	p := source.Place{Account: source.Account{Tenant: "local", Actor: user}, Collection: "inbox", Incarnation: "1"}
	for _, c := range []source.IMAPConfig{imapConfig(t, d, source.TLSAlways, d.TLS, user), imapConfig(t, d, source.TLSStart, d.Clear, user)} {
		c.CAFile = "" // the system's
		s, err := source.NewIMAP(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.List(usual(t), p, source.Query{Limit: 1})
		want(t, err, tool.SourceUnavailable)
		s.Close()
	}
	for _, answer := range []string{"a1 NO not today\r\n", "a1 BAD what\r\n", "* BYE\r\n", "a1 OK go on\r\n* OK injected\r\nT1 OK injected\r\n"} {
		address, said := talker(t, "* OK IMAP4rev1 ready\r\n", answer)
		s, err := source.NewIMAP(imapConfig(t, d, source.TLSStart, address, user))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.List(within(t, 2*time.Second), p, source.Query{Limit: 1})
		want(t, err, tool.SourceUnavailable)
		if text := said(); strings.Contains(text, sourcetest.Password) || strings.Contains(text, "LOGIN") {
			t.Errorf("after %q the client said %q", answer, text)
		}
		s.Close()
	}
}

// TestHostileIMAP: answers of a server that lies, after a sign-in that it accepts.
func TestHostileIMAP(t *testing.T) {
	caps := "* CAPABILITY IMAP4rev1 CONDSTORE UIDPLUS MOVE ESEARCH\r\n"
	selected := "* 1 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n* OK [HIGHESTMODSEQ 5] x\r\n"
	folders := "* LIST () \"/\" INBOX\r\n"
	for name, c := range map[string]struct {
		answers map[string]string
		code    refusal.Code
	}{
		"no capabilities":       {map[string]string{"CAPABILITY": "* CAPABILITY IMAP4rev1\r\n"}, tool.SourceDisconnected},
		"no versions":           {map[string]string{"CAPABILITY": caps, "LIST": folders, "EXAMINE": "* 1 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n"}, tool.SourceDisconnected},
		"all numbers there are": {map[string]string{"CAPABILITY": caps, "LIST": folders, "EXAMINE": selected, "UID SEARCH": "* ESEARCH (TAG \"TAG\") UID ALL 1:4294967295\r\n"}, tool.SourceUnavailable},
		"a number of stars":     {map[string]string{"CAPABILITY": caps, "LIST": folders, "EXAMINE": selected, "UID SEARCH": "* ESEARCH (TAG \"TAG\") UID ALL 1:*\r\n"}, tool.SourceUnavailable},
		"an endless literal":    {map[string]string{"CAPABILITY": caps, "LIST": folders, "EXAMINE": selected, "UID SEARCH": "* SEARCH 1\r\n", "UID FETCH": "* 1 FETCH (UID 1 MODSEQ (1) FLAGS () RFC822.SIZE 5 INTERNALDATE \"01-Jan-2026 00:00:00 +0000\" BODY[HEADER.FIELDS (From To Subject Date)] {99999999999}\r\n" + strings.Repeat("x", 17<<20)}, tool.SourceUnavailable},
		"another message":       {map[string]string{"CAPABILITY": caps, "LIST": folders, "EXAMINE": selected, "UID SEARCH": "* SEARCH 1\r\n", "UID FETCH": "* 1 FETCH (UID 2 MODSEQ (1) RFC822.SIZE 5)\r\n"}, ""},
		"garbage":               {map[string]string{"CAPABILITY": caps, "LIST": "\x00\xff(((((\r\n"}, tool.SourceUnavailable},
		"a thousand parens":     {map[string]string{"CAPABILITY": caps, "LIST": "* LIST " + strings.Repeat("(", 100_000) + "\r\n"}, tool.SourceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			address := liar(t, c.answers)
			s, err := source.NewIMAP(source.IMAPConfig{Address: address, TLS: source.TLSNone,
				Logins: []source.Login{{Actor: "owner", Username: "owner", PasswordFile: sourcetest.Secret(t, "x")}}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			p := source.Place{Account: source.Account{Tenant: "local", Actor: "owner"}, Collection: "inbox", Incarnation: "1"}
			page, err := s.List(within(t, 5*time.Second), p, source.Query{Limit: 10})
			if got := code(t, err); got != c.code || len(page.Items) != 0 {
				t.Errorf("%q with %d items, want %q", got, len(page.Items), c.code)
			}
		})
	}
}

// talker says greeting, then answer to the first line, and tells what it heard.
func talker(t *testing.T, greeting, answer string) (address string, said func() string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1)
	go func() {
		var text strings.Builder
		defer func() { heard <- text.String() }()
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprint(c, greeting)
		r := bufio.NewReader(c)
		line, _ := r.ReadString('\n')
		text.WriteString(line)
		fmt.Fprint(c, answer)
		for {
			b, err := r.ReadByte()
			if err != nil {
				return
			}
			text.WriteByte(b)
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), func() string { return <-heard }
}

// liar answers commands by their names, and says OK to all.
func liar(t *testing.T, answers map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprint(c, "* OK ready\r\n")
			for r := bufio.NewScanner(c); r.Scan(); {
				tag, command, _ := strings.Cut(r.Text(), " ")
				for name, answer := range answers {
					if strings.HasPrefix(command, name) {
						fmt.Fprint(c, strings.ReplaceAll(answer, "TAG", tag))
					}
				}
				fmt.Fprintf(c, "%s OK done\r\n", tag)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}
