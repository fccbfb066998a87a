package pagesock

import (
	"fmt"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
)

// offer is finalize's body: what the page that was loaded offers.
type offer struct {
	Route      string `json:"route_id"`
	Generation int64  `json:"registration_generation"`
	Catalog    string `json:"catalog_digest"`
	Tools      []struct {
		ID      string `json:"tool_id"`
		Schemas string `json:"schema_digest"`
	} `json:"tools"`
}

// place makes of it the place that a load of a page is.
func (o offer) place(l load) (p controlv1.Place, err error) {
	bad := func(field string) (controlv1.Place, error) {
		return controlv1.Place{}, fmt.Errorf("%s isn't valid: %w", field, refusal.BadDocument)
	}
	p.Origin, p.Document = l.origin, l.document
	if p.Route, err = controlv1.ParseID(o.Route); err != nil {
		return bad("route_id")
	}
	if p.Generation, err = controlv1.NewGeneration(o.Generation); err != nil {
		return bad("registration_generation")
	}
	if p.Catalog, err = controlv1.ParseDigest(o.Catalog); err != nil {
		return bad("catalog_digest")
	}
	if len(o.Tools) == 0 || len(o.Tools) > controlv1.MaxTools {
		return bad("tools")
	}
	entries := make([]controlv1.Scoped, len(o.Tools))
	for i, t := range o.Tools {
		if entries[i].ID, err = controlv1.ParseID(t.ID); err != nil {
			return bad("tool_id")
		}
		if entries[i].Schemas, err = controlv1.ParseDigest(t.Schemas); err != nil {
			return bad("schema_digest")
		}
	}
	if p.Scope, err = controlv1.ScopeDigest(entries); err != nil {
		return bad("tools")
	}
	return p, nil
}
