package native

import (
	"io"
	"net/http"
)

const page = `<!doctype html><meta charset="utf-8"><title>Probe</title>
<form id="form"><button id="button" type="submit">Go</button></form>
<script>
var clicked = null, submitted = null;
document.getElementById("button").addEventListener("click", (e) => { clicked = e.isTrusted; });
document.getElementById("form").addEventListener("submit", (e) => { e.preventDefault(); submitted = e.isTrusted; });
// tool registers one that answers what it was given, with what to change of it.
function tool(change, options) {
  return document.modelContext.registerTool({name: "probe", description: "A probe.", inputSchema: {type: "object", properties: {a: {type: "string"}}, additionalProperties: false},
    execute: async (input) => ({ok: true, input}), ...change}, options);
}
async function run(input, options) {
  const found = (await document.modelContext.getTools()).find((t) => t.name === "probe");
  return await document.modelContext.executeTool(found, input, options);
}
</script>`

// Handler serves the pages: / where tools may be registered, /denied where the
// page's policy forbids it.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { send(w, "tools=(self)") })
	mux.HandleFunc("GET /denied", func(w http.ResponseWriter, _ *http.Request) { send(w, "tools=()") })
	return mux
}

func send(w http.ResponseWriter, policy string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Permissions-Policy", policy)
	io.WriteString(w, page) // a browser that has gone is no fault of ours
}
