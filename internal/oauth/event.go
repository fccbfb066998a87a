package oauth

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// event is one audit row: what happened to which record, by whom, and where
// known through which client.
type event struct {
	verb          verb
	actor, client string
	subject       string // the family's, request's or client's handle
	code          refusal.Code
	public        []audit.Field
	sealed        []audit.Sealed
}

// tell appends the row in tx. A client's id may be a URL and so goes sealed; in
// clear stands its digest, by which rows of one client are found.
func (b *Book) tell(tx *tx, e event) error {
	if e.client != "" {
		e.public = append(e.public, audit.Digest("client", digestOf(e.client)))
		e.sealed = append(e.sealed, audit.Seal("client_id", e.client))
	}
	return b.log.Append(tx, audit.Event{
		Tenant: b.tenant, Kind: "oauth." + string(e.verb), Actor: audit.Name(e.actor), Subject: e.subject, Code: e.code,
		Public: e.public, Sealed: e.sealed,
	})
}

func digestOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// list is a stored list of texts.
func list(texts []string) string {
	if texts == nil {
		texts = []string{}
	}
	data, err := json.Marshal(texts)
	if err != nil {
		panic("oauth: texts that don't encode: " + err.Error()) // checked to be UTF-8 before
	}
	return string(data)
}

func readList(text string) ([]string, error) {
	var texts []string
	err := json.Unmarshal([]byte(text), &texts)
	return texts, err
}
