package node

import (
	"net/http"

	"chaperone/internal/portal/operation"
	"chaperone/internal/session"
)

// Parts answers what the benchmark compares: the whole handler, and the two things
// that a bare one couldn't do without.
func (n *Node) Parts() (http.Handler, *session.Book, *operation.Desk) {
	return n.handler, n.sessions, n.desk
}

// AroundCommits sets what stands around each commit of the nodes that are opened
// afterwards.
func AroundCommits(f func(commit func() error) error) { commit = f }
