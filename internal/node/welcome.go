package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"chaperone/internal/credential"
)

// Welcome is what a person needs to begin.
type Welcome struct {
	Origin       string   `json:"origin"`
	Enrolment    string   `json:"enrolment,omitzero"` // the one-time link; its secret is in the fragment
	EnrolmentFor string   `json:"enrolment_for,omitzero"`
	Home         string   `json:"home"`
	Chromium     string   `json:"chromium,omitzero"` // "" where no page may offer tools yet
	Client       string   `json:"mcp_client"`
	Notes        []string `json:"notes,omitempty"`
}

// Welcome answers how to begin. Where nobody has enrolled it makes a fresh link,
// and the ones of earlier starts die by their own time.
func (n *Node) Welcome(ctx context.Context) (Welcome, error) {
	w := Welcome{
		Origin: n.config.PublicOrigin,
		Home:   n.home,
		Client: `{"mcpServers":{"chaperone":{"type":"http","url":"` + n.config.PublicOrigin + `/mcp"}}}`,
		Notes:  slices.Clone(n.notes),
	}
	if n.config.Public() && n.config.Reviewed.By == "" {
		w.Notes = append(w.Notes, "Pages offer no tools here: on a public origin that needs reviewed: {by, date} in chaperone.yaml.")
	} else {
		w.Chromium = "chromium --enable-features=WebMCP " + n.config.PublicOrigin
	}
	if n.provider == nil {
		return w, nil
	}
	enrolled, err := n.credentials.HasPeople(ctx)
	if err != nil || enrolled {
		return w, err
	}
	secret, err := n.credentials.Enrolment(ctx, "")
	if err != nil {
		return w, err
	}
	w.Enrolment = EnrolmentLink(n.config, secret)
	w.EnrolmentFor = fmt.Sprintf("%d minutes", credential.EnrolmentTime/time.Minute)
	return w, nil
}

// EnrolmentLink answers the address that a one-time secret opens. The secret is in
// the fragment, which a browser keeps to itself.
func EnrolmentLink(c Config, secret string) string { return c.PublicOrigin + "/idp/enrol#" + secret }
