package rest

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/portal/tool"
	"chaperone/internal/surface/guard"
)

// call runs one of the five tools for the person's own page.
func (a *api) call(w http.ResponseWriter, r *http.Request, name tool.Name, arguments map[string]any) {
	caller, err := owner(r)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	answer, err := a.Desk.Call(r.Context(), caller, string(name), text)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Raw(w, http.StatusOK, answer)
}

// query copies the named parameters of a request into a tool's arguments. Numbers
// that don't read as such go on as text, and the tool's schema refuses them.
func query(r *http.Request, arguments map[string]any, texts, numbers []string) map[string]any {
	q := r.URL.Query()
	for _, name := range texts {
		if v := q.Get(name); v != "" {
			arguments[name] = v
		}
	}
	for _, name := range numbers {
		if v := q.Get(name); v != "" {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				arguments[name] = n
			} else {
				arguments[name] = v
			}
		}
	}
	return arguments
}

func (a *api) collections(w http.ResponseWriter, r *http.Request) {
	a.call(w, r, tool.ListCollections, query(r, map[string]any{}, []string{"cursor"}, []string{"limit"}))
}

func (a *api) items(w http.ResponseWriter, r *http.Request) {
	a.call(w, r, tool.ListItems, query(r, map[string]any{"collection": r.PathValue("collection")},
		[]string{"cursor", "prefix", "query"}, []string{"limit"}))
}

func (a *api) item(w http.ResponseWriter, r *http.Request) {
	a.call(w, r, tool.ReadItem, query(r, map[string]any{"collection": r.PathValue("collection")},
		[]string{"item"}, []string{"max_bytes", "offset"}))
}

func (a *api) writeItem(w http.ResponseWriter, r *http.Request)  { a.mutate(w, r, tool.WriteItem) }
func (a *api) deleteItem(w http.ResponseWriter, r *http.Request) { a.mutate(w, r, tool.DeleteItem) }

// mutate passes the body's members on as the tool's arguments; the path says the
// collection, and a body that says one too is refused.
func (a *api) mutate(w http.ResponseWriter, r *http.Request, name tool.Name) {
	var members map[string]jsontext.Value
	if !guard.Read(w, r, &members) {
		return
	}
	if _, twice := members["collection"]; twice {
		guard.RefuseError(w, tool.Fail(tool.InvalidInput, "path", "/collection", "rule", "additionalProperties"))
		return
	}
	arguments := map[string]any{"collection": r.PathValue("collection")}
	for k, v := range members {
		arguments[k] = v
	}
	a.call(w, r, name, arguments)
}

// createCollection makes a collection of hosted storage.
func (a *api) createCollection(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Title string `json:"title"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	c, err := a.Ledger.Create(r.Context(), guard.Session(r).Actor, in.Title)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusCreated, struct {
		Collection string `json:"collection"`
		Title      string `json:"title"`
	}{c.Collection, c.Title})
}

// dropCollection removes a collection of hosted storage: no grant reaches it any
// more, and one that is made later under its name is another.
func (a *api) dropCollection(w http.ResponseWriter, r *http.Request) {
	if err := a.Ledger.Remove(r.Context(), guard.Session(r).Actor, r.PathValue("collection")); err != nil {
		guard.RefuseError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *api) usage(w http.ResponseWriter, r *http.Request) {
	u, err := a.Ledger.Usage(r.Context(), guard.Session(r).Actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	type of struct {
		Used  int64 `json:"used"`
		Limit int64 `json:"limit"`
	}
	guard.Answer(w, http.StatusOK, struct {
		Items of `json:"items"`
		Bytes of `json:"bytes"`
	}{of{u.Items, u.MaxItems}, of{u.Bytes, u.MaxBytes}})
}
