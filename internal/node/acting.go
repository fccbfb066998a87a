package node

import (
	"log/slog"

	"chaperone/internal/surface/guard"
)

// acting is attended control as agents reach it, over MCP and REST. Where it isn't
// constructed nothing of it is available.
func (n *Node) acting() *guard.Control {
	c := &guard.Control{Families: n.tokens, Connections: n.ledger, Log: slog.Default()}
	if n.control != nil {
		c.Authority = n.control
	}
	return c
}
