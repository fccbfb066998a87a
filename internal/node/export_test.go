package node

import (
	"context"
	"net/http"

	attended "chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/oidc"
	"chaperone/internal/portal/operation"
	"chaperone/internal/session"
	"chaperone/internal/store"
)

// Parts answers what the benchmark compares: the whole handler, and the two things
// that a bare one couldn't do without.
func (n *Node) Parts() (http.Handler, *session.Book, *operation.Desk) {
	return n.handler, n.sessions, n.desk
}

// AroundCommits sets what stands around each commit of the nodes that are opened
// afterwards.
func AroundCommits(f func(commit func() error) error) { commit = f }

// Attended answers what attended control stands on, for benchmarks.
func (n *Node) Attended() (*live.Authority, *attended.Book, *store.DB) {
	return n.control, n.attended, n.db
}

// Invite answers the secret of a link for somebody more.
func (n *Node) Invite(ctx context.Context) (string, error) { return n.credentials.Enrolment(ctx, "") }

// Party answers the relying party.
func (n *Node) Party() *oidc.Party { return n.party }
