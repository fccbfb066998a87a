package mcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// sessions binds the sessions of older protocols to the grant that began them. A
// session's id outside is the SDK's own and a MAC over it and the connection, so
// another grant's is told from a forgery by nobody, and nothing is kept: the
// key lives as long as the SDK's sessions do, in this process.
//
//	NODE.RANDOM.MAC
type sessions struct{ key [sha256.Size]byte }

func newSessions() (s sessions) {
	rand.Read(s.key[:])
	return s
}

// newSessionID is the SDK's own part: the node, which others forward to, and 130
// random bits.
func newSessionID(node string) string { return node + "." + rand.Text() }

// NodeOf answers the node that a session's id names, for forwarding; "" for an id
// that names none.
func NodeOf(session string) string {
	node, _, _ := strings.Cut(session, ".")
	return node
}

func (s sessions) mac(inner, connection string) string {
	m := hmac.New(sha256.New, s.key[:])
	m.Write([]byte(connection + "\x00" + inner))
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// inner answers the SDK's id of a session, "" where none is named, and whether
// this connection may name it.
func (s sessions) inner(outer, connection string) (string, bool) {
	if outer == "" {
		return "", true
	}
	at := strings.LastIndexByte(outer, '.')
	if at < 0 || !hmac.Equal([]byte(outer[at+1:]), []byte(s.mac(outer[:at], connection))) {
		return "", false
	}
	return outer[:at], true
}

// naming writes the outer id in place of the SDK's.
func (s sessions) naming(w http.ResponseWriter, connection string) http.ResponseWriter {
	return &namer{ResponseWriter: w, name: func(inner string) string { return inner + "." + s.mac(inner, connection) }}
}

// namer names the session before the headers go out.
type namer struct {
	http.ResponseWriter
	name  func(inner string) string
	named bool
}

func (n *namer) once() {
	if inner := n.Header().Get(sessionHeader); !n.named && inner != "" {
		n.Header().Set(sessionHeader, n.name(inner))
	}
	n.named = true
}

// WriteHeader names the session first.
func (n *namer) WriteHeader(status int) { n.once(); n.ResponseWriter.WriteHeader(status) }

// Write names the session first.
func (n *namer) Write(b []byte) (int, error) { n.once(); return n.ResponseWriter.Write(b) }

// Flush names the session first.
func (n *namer) Flush() {
	n.once()
	if f, ok := n.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap lets a response controller reach the writer's other abilities.
func (n *namer) Unwrap() http.ResponseWriter { return n.ResponseWriter }
