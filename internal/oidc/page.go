package oidc

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"

	"golang.org/x/text/language"

	"chaperone/internal/refusal"
)

// style of the pages. It stands in them, so that they look right wherever the
// rest of the server's pages come from; the policy names it by its digest.
const style = `:root{color-scheme:light dark}
body{margin:0;min-height:100vh;display:grid;place-items:center;font:100%/1.5 system-ui,"DejaVu Sans",sans-serif;background:#f4f6f8;color:#17202a}
main{box-sizing:border-box;width:calc(100% - 2rem);max-width:27rem;padding:clamp(1.25rem,6vw,2.25rem);background:#fff;border:1px solid #c9d0d7;border-radius:14px}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .5rem}
p{margin:0 0 1rem}
a{color:#0b5cad;display:inline-block;padding:.5rem 0}
small{color:#55616d}
:focus-visible{outline:3px solid currentColor;outline-offset:2px}
@media (prefers-color-scheme:dark){body{background:#10151b;color:#e8edf2}main{background:#1a2129;border-color:#3a444e}a{color:#8fc5fa}small{color:#a9b4c0}}`

// policy lets a page run this origin's own script, look as above, and do nothing
// else.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; script-src 'self'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

var accepted = template.Must(template.New("accepted").Parse(`<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Chaperone</title><style>{{.Style}}</style>
{{if .Key}}<meta name="session-key" content="{{.Key}}">{{end}}
<meta name="next" content="{{.Next}}">
<script type="module" src="/auth/callback.js"></script></head>
<body><main><p>{{.Moment}}</p><noscript><p>{{.Script}}</p></noscript></main></body></html>
`))

var refused = template.Must(template.New("refused").Parse(`<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{{.Title}} · Chaperone</title><style>{{.Style}}</style></head>
<body><main><h1>{{.Title}}</h1><p>{{.Lead}}</p><p><a href="/auth/login?next=/">{{.Again}}</a><br><a href="/">{{.Home}}</a></p>
<p><small>{{.CodeIs}} <code>{{.Code}}</code></small></p></main></body></html>
`))

// text of the two pages.
type text struct {
	Lang, Moment, Script     string
	Title, Lead, Again, Home string
	CodeIs                   string
	Key, Next                string
	Code                     refusal.Code
	Style                    template.CSS // ours, and constant
}

var texts = []text{
	{
		Lang: "en", Moment: "Signed in. One moment…", Script: "Chaperone needs JavaScript.",
		Title: "Signing in didn’t work", Lead: "Nothing was changed. Try again; if it keeps failing, tell the person who runs this server the code below.",
		Again: "Sign in again", Home: "To the start page", CodeIs: "Code:",
	},
	{
		Lang: "es", Moment: "Sesión iniciada. Un momento…", Script: "Chaperone necesita JavaScript.",
		Title: "No se pudo iniciar sesión", Lead: "No ha cambiado nada. Inténtelo de nuevo; si sigue fallando, indique el código a quien administra este servidor.",
		Again: "Iniciar sesión de nuevo", Home: "A la página de inicio", CodeIs: "Código:",
	},
}

var matcher = language.NewMatcher([]language.Tag{language.English, language.Spanish})

// textFor answers the text in the language that a request prefers.
func textFor(r *http.Request) text {
	tags, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return texts[0]
	}
	_, index, _ := matcher.Match(tags...)
	return texts[index]
}

// accepted shows the page that keeps the key and goes on.
func (p *Party) accepted(w http.ResponseWriter, r *http.Request, key, next string) {
	t := textFor(r)
	t.Key, t.Next = key, next
	show(w, http.StatusOK, accepted, t)
}

// statuses of refusals that aren't simply a bad request.
var statuses = map[refusal.Code]int{
	refusal.ProviderError: http.StatusBadGateway, refusal.SessionExpired: http.StatusUnauthorized,
	refusal.OtherPerson: http.StatusForbidden, refusal.BadACR: http.StatusForbidden, refusal.BadAuthTime: http.StatusForbidden,
	refusal.Inactive: http.StatusForbidden,
}

// refuse shows that it didn't work, with the code and nothing of what was sent.
func (p *Party) refuse(w http.ResponseWriter, r *http.Request, err error) {
	noStore(w)
	t := textFor(r)
	status := http.StatusBadRequest
	if t.Code = refusal.Of(err); t.Code == "" {
		t.Code, status = refusal.Failed, http.StatusInternalServerError
		p.log.Error("signing in failed", "error", err)
	} else {
		p.log.Warn("signing in was refused", "code", t.Code)
	}
	if s, ok := statuses[t.Code]; ok {
		status = s
	}
	show(w, status, refused, t)
}

// show writes a page whole or not at all.
func show(w http.ResponseWriter, status int, page *template.Template, t text) {
	t.Style = style
	var out bytes.Buffer
	if err := page.Execute(&out, t); err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Vary", "Accept-Language")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the other side hung up
}

// noStore keeps an answer out of every cache and its address out of every Referer.
func noStore(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}
