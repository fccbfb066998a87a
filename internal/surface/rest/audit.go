package rest

import (
	"net/http"
	"slices"
	"strconv"

	"chaperone/internal/refusal"
	"chaperone/internal/surface/guard"
)

// auditor is the role that sees everybody's records; a person else sees their own.
const auditor = "auditor"

// audit answers the newest records of the log, and how the log stands.
func (a *api) audit(w http.ResponseWriter, r *http.Request) {
	s, limit := guard.Session(r), 50
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 200 {
			guard.Refuse(w, refusal.Malformed)
			return
		}
		limit = n
	}
	actor := s.Actor
	if slices.Contains(s.Roles, auditor) {
		actor = ""
	}
	page, err := a.Log.Latest(r.Context(), actor, r.URL.Query().Get("before"), limit)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	type record struct {
		ID      string            `json:"id"`
		AtMS    int64             `json:"at_ms"`
		Kind    string            `json:"kind"`
		Actor   string            `json:"actor,omitzero"`
		Subject string            `json:"subject,omitzero"`
		Code    refusal.Code      `json:"code,omitzero"`
		Public  map[string]any    `json:"public,omitempty"`
		Values  map[string]string `json:"values,omitempty"`
	}
	out := struct {
		Records []record `json:"records"`
		Next    string   `json:"next,omitzero"`
		Tree    struct {
			Size         int64 `json:"size"`
			Unsequenced  int64 `json:"unsequenced"`
			CheckpointMS int64 `json:"checkpoint_ms,omitzero"`
			Covered      int64 `json:"covered"`
		} `json:"tree"`
	}{Records: []record{}, Next: page.Next}
	for _, o := range page.Records {
		out.Records = append(out.Records, record{o.ID, o.At.UnixMilli(), o.Kind, o.Actor, o.Subject, o.Code, o.Public, o.Values})
	}
	out.Tree.Size, out.Tree.Unsequenced = page.Size, page.Unsequenced
	// A checkpoint that isn't there, or that doesn't verify, covers nothing; audit
	// verify tells which it is.
	if c, _, err := a.Log.Newest(); err == nil {
		out.Tree.CheckpointMS, out.Tree.Covered = c.AtMS, c.Size
	}
	guard.Answer(w, http.StatusOK, out)
}
