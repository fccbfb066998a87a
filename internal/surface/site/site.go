// Package site serves the portal's shell and the files that it is made of
// (spec/portal-tools.md, section 5).
//
// It contains
//
//	site.go     Config, New: which paths there are, and the shell
//	asset.go    the built files under names that carry their content's hash
//	header.go   what every answer carries
//	docs.go     the documentation of this build, rendered at start
//
// The shell is one small HTML document for every page of the portal; it holds no
// text, no session and nothing of an account: its script asks the owner API for
// all that. So it is the same for everybody, and still nobody may keep it
// (no-store), frame it, or run anything in it but the script beside it.
//
// Assets are named NAME.HASH.EXT and may be kept for ever; attended.js, callback.js,
// idp.js and sw.js, which other pages name without knowing the hash, are asked for
// anew each time; /attended.js.integrity tells the hash by which a page may hold the
// first of them fast. Everything is compressed once, at start.
//
// Only the shell may register tools (Permissions-Policy: tools=(self)); an unknown
// path gets a page of its own with tools=().
//
// It calls nothing, sets no cookie, reads no credential and redirects nowhere.
//
// Floor: surface.
package site

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"

	"chaperone/web"
)

// Config is what a site is made of.
type Config struct {
	Origin string // the public origin; over https the browser is told to stay there
	Files  fs.FS  // built files by name; nil: those that are built in
}

// Pages are the shell's paths, as patterns of http.ServeMux. A page that isn't
// here can't be loaded, even if the shell's script would know it.
var Pages = []string{
	"/{$}", "/collections/{collection}", "/collections/{collection}/item", "/automation", "/connections",
	"/connect/{id}", "/agents", "/agents/{run}", "/approvals", "/confirm/{call}", "/audit", "/settings",
}

// site is the mux with the rendered shell behind it.
type site struct {
	mux    *http.ServeMux
	shell  []byte
	lost   []byte
	secure bool
	manual *manual
}

// New makes the handler of all pages and assets. It fails where a file that the
// shell names isn't there.
func New(c Config) (http.Handler, error) {
	files := c.Files
	if files == nil {
		var err error
		if files, err = fs.Sub(web.Dist, "dist"); err != nil {
			return nil, err
		}
	}
	all, err := readAssets(files)
	if err != nil {
		return nil, err
	}
	s := &site{mux: http.NewServeMux(), secure: strings.HasPrefix(c.Origin, "https://")}
	if s.shell, err = render(all, ""); err != nil {
		return nil, err
	}
	if s.lost, err = render(all, "lost"); err != nil {
		return nil, err
	}
	for _, p := range Pages {
		s.mux.HandleFunc("GET "+p, s.page)
	}
	if s.manual, err = readManual(all); err != nil {
		return nil, err
	}
	s.mux.HandleFunc("GET /docs/{$}", s.manualPage)
	s.mux.HandleFunc("GET /docs", s.manualPage)
	s.mux.HandleFunc("GET /docs/{page}", s.manualPage)
	s.mux.Handle("GET "+s.manual.style.path, s.manual.style)
	for _, a := range all.files {
		s.mux.Handle("GET "+a.path, a)
	}
	if a := all.files["attended.js"]; a != nil {
		s.mux.HandleFunc("GET "+a.path+".integrity", integrity(a.plain))
	}
	s.mux.HandleFunc("/", s.missing)
	return s, nil
}

// ServeHTTP answers one request.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.secure {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
	s.mux.ServeHTTP(w, r)
}

// page answers the shell.
func (s *site) page(w http.ResponseWriter, r *http.Request) {
	protect(w.Header(), toolsHere)
	html(w, r, http.StatusOK, s.shell)
}

// integrity tells what a page that isn't ours writes into its script tag, so that it
// runs exactly this build's script or none.
func integrity(script []byte) http.HandlerFunc {
	sum := sha512.Sum384(script)
	line := "sha384-" + base64.StdEncoding.EncodeToString(sum[:]) + "\n"
	return func(w http.ResponseWriter, _ *http.Request) {
		protect(w.Header(), toolsNowhere)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, line)
	}
}

// missing answers for what isn't there: a page for whoever reads pages, a bare
// status for the rest, and for another method what would do.
func (s *site) missing(w http.ResponseWriter, r *http.Request) {
	protect(w.Header(), toolsNowhere)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	html(w, r, http.StatusNotFound, s.lost)
}

func html(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(body) // a reader that has gone is no fault of ours
	}
}

// The one sentence outside the catalogues is for browsers that can't read those.
var document = template.Must(template.New("shell").Parse(`<!doctype html>
<html lang="en"{{with .Page}} data-page="{{.}}"{{end}}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="build" content="{{.Build}}">
<title>Chaperone</title>
<link rel="icon" href="{{.Icon}}" type="image/svg+xml">
<link rel="stylesheet" href="{{.Style}}">
<script src="{{.Theme}}"></script>
<script type="module" src="{{.Script}}"></script>
</head>
<body>
<noscript><p>Chaperone needs JavaScript. <span lang="es">Chaperone necesita JavaScript.</span></p></noscript>
</body>
</html>
`))

// render writes the shell for these assets.
func render(all *assets, page string) ([]byte, error) {
	var out bytes.Buffer
	paths := map[string]string{}
	for _, name := range []string{"icon.svg", "app.css", "theme.js", "app.js"} {
		a, ok := all.files[name]
		if !ok {
			return nil, fmt.Errorf("%s isn't built: run go generate ./web", name)
		}
		paths[name] = a.path
	}
	err := document.Execute(&out, struct{ Page, Build, Icon, Style, Theme, Script string }{
		page, all.build, paths["icon.svg"], paths["app.css"], paths["theme.js"], paths["app.js"],
	})
	return out.Bytes(), err
}
