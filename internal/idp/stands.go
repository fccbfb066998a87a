package idp

import (
	"context"
	"fmt"
	"strings"

	"chaperone/internal/refusal"
)

// Stands tells whether an access token of ours is good, for that subject: what
// introspection tells of it, asked of the people's own book. [refusal.Inactive] is an
// exact no; an error without a code is no answer.
func (p *Provider) Stands(ctx context.Context, access, subject string) error {
	no := fmt.Errorf("the token isn't good: %w", refusal.Inactive)
	text, err := p.op.Crypto().Decrypt(access)
	id, _, ok := strings.Cut(text, ":")
	if err != nil || !ok {
		return no
	}
	t, err := p.people.Token(ctx, id)
	if err == nil && (t.Person != subject || t.Client != ClientID) {
		err = no
	}
	return err
}
