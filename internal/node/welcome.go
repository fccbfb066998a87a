package node

import (
	"context"
	"strings"
	"time"

	"chaperone/internal/credential"
)

// Welcome is what a person needs to begin.
type Welcome struct {
	Origin       string   `json:"origin"`
	Enrolment    string   `json:"enrolment,omitzero"` // the one-time link; its secret is in the fragment
	EnrolmentFor string   `json:"enrolment_for,omitzero"`
	Chromium     string   `json:"chromium"`
	Client       string   `json:"mcp_client"`
	Notes        []string `json:"notes,omitempty"`
}

// Welcome answers how to begin. Where nobody has enrolled it makes a fresh link,
// and the ones of earlier starts die by their own time.
func (n *Node) Welcome(ctx context.Context) (Welcome, error) {
	w := Welcome{
		Origin:   n.config.PublicOrigin,
		Chromium: "chromium --enable-features=WebMCP " + n.config.PublicOrigin,
		Client:   `{"mcpServers":{"chaperone":{"type":"http","url":"` + n.config.PublicOrigin + `/mcp"}}}`,
		Notes:    n.notes,
	}
	if n.credentials == nil {
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
	w.EnrolmentFor = strings.TrimSuffix(credential.EnrolmentTime.Round(time.Minute).String(), "0s")
	return w, nil
}

// EnrolmentLink answers the address that a one-time secret opens. The secret is in
// the fragment, which a browser keeps to itself.
func EnrolmentLink(c Config, secret string) string { return c.PublicOrigin + "/idp/enrol#" + secret }
