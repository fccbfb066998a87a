package idp

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"chaperone/internal/credential"
	"chaperone/web"
)

//go:embed assets
var assets embed.FS

var page = template.Must(template.ParseFS(assets, "assets/page.html"))

// policy lets a page run this origin's own script and style, talk to it, and do
// nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// view is what a page shows.
type view struct {
	Lang, Page, Title, Lead string
	Request                 string
	Script, Recoverable     bool
	Words                   string // what the script says, as JSON
	all                     map[string]string
}

// T answers a word of the page's language.
func (v view) T(name string) string { return v.all[name] }

// viewOf makes a page's view in the language that the request prefers.
func viewOf(r *http.Request, name, text string, script bool) view {
	lang := languageOf(r)
	v := view{Lang: lang, Page: name, all: words[lang], Script: script}
	v.Title, v.Lead = v.T(text+"-title"), v.T(text+"-lead")
	if script {
		said := map[string]string{}
		for key, text := range v.all {
			if short, ok := strings.CutPrefix(key, "t-"); ok {
				said[short] = text
			}
		}
		if data, err := json.Marshal(said, json.Deterministic(true)); err == nil { // plain strings: no error
			v.Words = string(data)
		}
	}
	return v
}

// show writes a page whole or not at all.
func show(w http.ResponseWriter, status int, v view) {
	var out bytes.Buffer
	if err := page.Execute(&out, v); err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", v.Lang)
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Vary", "Accept-Language")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the other side hung up
}

// pages are what a person sees.
func (p *Provider) pages(mux *http.ServeMux) {
	mux.HandleFunc("GET /idp/login", p.loginPage)
	mux.HandleFunc("GET /idp/enrol", func(w http.ResponseWriter, r *http.Request) {
		// The link's secret is in the fragment, which a browser never sends.
		show(w, http.StatusOK, viewOf(r, "enrol", "enrol", true))
	})
	mux.HandleFunc("GET /idp/assets/idp.css", func(w http.ResponseWriter, r *http.Request) {
		data, err := assets.ReadFile("assets/idp.css")
		asset(w, "text/css; charset=utf-8", data, err)
	})
	mux.HandleFunc("GET /idp/assets/idp.js", func(w http.ResponseWriter, r *http.Request) {
		data, err := web.Dist.ReadFile("dist/idp.js")
		asset(w, "text/javascript; charset=utf-8", data, err)
	})
}

// asset writes a file that holds nothing of anybody's.
func asset(w http.ResponseWriter, kind string, data []byte, err error) {
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(data) // the other side hung up
}

// loginPage shows the way to prove oneself for one request, to its own browser.
func (p *Provider) loginPage(w http.ResponseWriter, r *http.Request) {
	pending, err := p.people.Request(r.Context(), r.URL.Query().Get("authRequestID"), shown(r))
	if err != nil || pending.Step != credential.Waiting {
		p.refusePage(w, r, http.StatusBadRequest)
		return
	}
	text := "login"
	if !recoverable(pending) {
		text = "stepup"
	}
	v := viewOf(r, "login", text, true)
	v.Request, v.Recoverable = pending.ID, recoverable(pending)
	show(w, http.StatusOK, v)
}

// refusePage says that it didn't work, and how to begin anew.
func (p *Provider) refusePage(w http.ResponseWriter, r *http.Request, status int) {
	show(w, status, viewOf(r, "refused", "refused", false))
}
