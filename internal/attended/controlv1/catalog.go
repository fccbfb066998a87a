package controlv1

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Catalog is an ordered set of 1 to 64 tools whose ids differ after folding too.
// The zero Catalog is none.
type Catalog struct {
	tools          []Tool
	catalog, scope Digest
}

// NewCatalog makes a catalog of tools in their order and computes its digests.
func NewCatalog(tools []Tool) (Catalog, error) {
	if len(tools) < 1 || len(tools) > MaxTools {
		return Catalog{}, invalid("tools", "are fewer than 1 or more than 64")
	}
	seen := map[string]bool{}
	for _, t := range tools {
		if t.IsZero() {
			return Catalog{}, invalid("tools", "have an empty one")
		}
		if seen[Fold(t.id)] {
			return Catalog{}, invalid("tools", "have two whose ids are alike")
		}
		seen[Fold(t.id)] = true
	}
	c := Catalog{tools: slices.Clone(tools)}
	var err error
	if c.catalog, err = catalogDigest(tools); err != nil {
		return Catalog{}, under("tools", err)
	}
	if c.scope, err = toolScopeDigest(tools); err != nil {
		return Catalog{}, under("tools", err)
	}
	return c, nil
}

// Tools answers the tools in their order; the caller may keep the slice.
func (c Catalog) Tools() []Tool { return slices.Clone(c.tools) }

// Len answers how many there are.
func (c Catalog) Len() int { return len(c.tools) }

// IsZero tells whether c is none.
func (c Catalog) IsZero() bool { return len(c.tools) == 0 }

// Digest answers the catalog's digest.
func (c Catalog) Digest() Digest { return c.catalog }

// Scope answers the tool scope's digest.
func (c Catalog) Scope() Digest { return c.scope }

// Tool answers the tool with an id, the zero Tool for none.
func (c Catalog) Tool(id ID) Tool {
	for _, t := range c.tools {
		if t.id == id.text {
			return t
		}
	}
	return Tool{}
}

// Scoped is one entry of a tool scope: what finalize pins before the page has
// registered.
type Scoped struct {
	ID      ID
	Schemas Digest
}

// ScopeDigest answers the tool scope's digest over entries in their order.
func ScopeDigest(entries []Scoped) (Digest, error) {
	if len(entries) < 1 || len(entries) > MaxTools {
		return Digest{}, invalid("tools", "are fewer than 1 or more than 64")
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if e.ID.IsZero() || e.Schemas.IsZero() || seen[Fold(e.ID.text)] {
			return Digest{}, invalid("tools", "have an empty one or two whose ids are alike")
		}
		seen[Fold(e.ID.text)] = true
	}
	return scopeDigest(entries)
}

// tools reads a catalog's tools.
func tools(name string, into *[]Tool) member {
	return list(name, 1, MaxTools, func(v jsontext.Value) error {
		t, err := DecodeTool(v)
		*into = append(*into, t)
		return err
	})
}
