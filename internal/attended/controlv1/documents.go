package controlv1

import (
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/canon"
	"chaperone/internal/ref"
)

// Document is one live document as its caller is told of it (section 5).
type Document struct {
	Ref          ref.Document
	Origin       Origin
	Route        ID
	Generation   Generation
	Catalog      Catalog
	ArmExpiresMS int64
}

// Documents is the answer of list_documents.
type Documents struct{ All []Document }

// Encode answers the list's canonical bytes: {"documents": […]}, each with its
// tools' whole descriptors.
func (d Documents) Encode() ([]byte, error) {
	all := []any{}
	for _, one := range d.All {
		if one.Ref.IsZero() || one.Origin.text == "" || one.Route.IsZero() || one.Generation.IsZero() || one.Catalog.IsZero() || one.ArmExpiresMS < 1 {
			return nil, empty
		}
		tools := []any{}
		for _, t := range one.Catalog.Tools() {
			text, err := t.Encode()
			if err != nil {
				return nil, err
			}
			tools = append(tools, canon.Text(text))
		}
		all = append(all, map[string]any{"document_ref": one.Ref.String(), "origin": one.Origin.text, "route_id": one.Route.text,
			"registration_generation": one.Generation.n, "catalog_digest": one.Catalog.Digest().text, "arm_expires_at_ms": one.ArmExpiresMS, "tools": tools})
	}
	return canon.Marshal(map[string]any{"documents": all})
}

// MaxDocuments is the size that a client takes of a list, in bytes.
const MaxDocuments = 4 << 20

const maxDocuments = 1000 // live at once

// DecodeDocuments reads a list, as a client does.
func DecodeDocuments(data []byte) (Documents, error) {
	var d Documents
	err := decode(data, MaxDocuments, list("documents", 0, maxDocuments, func(text jsontext.Value) error {
		var one Document
		var tools []Tool
		var claimed Digest
		err := decode(text, MaxDocuments, of("document_ref", &one.Ref, ref.Parse[ref.DocumentKind]), of("origin", &one.Origin, ParseOrigin),
			of("route_id", &one.Route, ParseID), generation("registration_generation", &one.Generation), of("catalog_digest", &claimed, ParseDigest),
			moment("arm_expires_at_ms", &one.ArmExpiresMS), list("tools", 1, MaxTools, func(text jsontext.Value) error {
				t, err := DecodeTool(text)
				tools = append(tools, t)
				return err
			}))
		if err != nil {
			return err
		}
		if one.Catalog, err = NewCatalog(tools); err != nil {
			return err
		}
		if one.Catalog.Digest() != claimed {
			return invalid("catalog_digest", "isn't the digest of the tools")
		}
		d.All = append(d.All, one)
		return nil
	}))
	if err != nil {
		return Documents{}, err
	}
	return d, nil
}
