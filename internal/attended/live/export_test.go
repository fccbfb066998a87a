package live

import (
	"context"

	"chaperone/internal/identity"
)

// Tainted tells whether the record says that an agent was told something by way of
// another node.
func (a *Authority) Tainted(ctx context.Context, who identity.Principal) bool {
	return a.heard(ctx, reader{a.Principal(who), who.Agent()})
}

// Passed decodes a question of another node's.
func Passed(topic string, body []byte) { decodePassed(topic, body) }
