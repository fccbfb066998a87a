package site

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"chaperone/docs"
)

//go:embed docs.css
var docsStyle []byte

// start is the documentation's first page.
const start = "server"

// manual is the documentation of this very build, rendered once.
type manual struct {
	pages map[string][]byte
	style *asset
}

type chapter struct{ Name, Title string }

var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Title}} · Chaperone</title>
<link rel="icon" href="{{.Icon}}" type="image/svg+xml">
<link rel="stylesheet" href="{{.App}}">
<link rel="stylesheet" href="{{.Style}}">
<script src="{{.Theme}}"></script>
</head>
<body>
<div class="docs">
<nav aria-label="Documentation"><a href="/">Chaperone</a>{{range .All}} <a href="/docs/{{.Name}}"{{if eq .Name $.Name}} aria-current="page"{{end}}>{{.Title}}</a>{{end}}</nav>
<main>{{.Body}}</main>
</div>
</body>
</html>
`))

// readManual renders every page. A page that can't be rendered is our own fault
// and ends the start.
func readManual(all *assets) (*manual, error) {
	m := &manual{pages: map[string][]byte{}}
	var err error
	if m.style, err = newAsset("docs.css", docsStyle); err != nil {
		return nil, err
	}
	names, err := fs.Glob(docs.Pages, "*.md")
	if err != nil {
		return nil, err
	}
	bodies, chapters := map[string]template.HTML{}, []chapter{}
	for _, file := range names {
		source, err := fs.ReadFile(docs.Pages, file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(file, ".md")
		title, body, err := render1(source, names)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		bodies[name], chapters = body, append(chapters, chapter{name, title})
	}
	slices.SortStableFunc(chapters, func(a, b chapter) int {
		return strings.Compare(order(a.Name), order(b.Name))
	})
	for _, c := range chapters {
		var out bytes.Buffer
		err := docsPage.Execute(&out, struct {
			Title, Icon, App, Style, Theme, Name string
			All                                  []chapter
			Body                                 template.HTML
		}{c.Title, all.files["icon.svg"].path, all.files["app.css"].path, m.style.path, all.files["theme.js"].path, c.Name, chapters, bodies[c.Name]})
		if err != nil {
			return nil, err
		}
		m.pages[c.Name] = out.Bytes()
	}
	if m.pages[start] == nil {
		return nil, fmt.Errorf("the documentation has no page %q", start)
	}
	return m, nil
}

// order puts what a newcomer reads first first.
func order(name string) string {
	for i, first := range []string{start, "portal", "mcp", "sign-in", "sources", "scope"} {
		if name == first {
			return fmt.Sprint(i)
		}
	}
	return "9" + name
}

// render1 renders one page, whose own HTML is dropped, and answers its first
// heading. Links to other pages lead to them here; those to files that aren't
// served lose their address.
func render1(source []byte, names []string) (title string, body template.HTML, err error) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	root := md.Parser().Parse(text.NewReader(source))
	err = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if entering && title == "" {
				title = string(n.Lines().Value(source))
			}
		case *ast.Link:
			if entering {
				n.Destination = served(string(n.Destination), names)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", "", err
	}
	var out bytes.Buffer
	if err := md.Renderer().Render(&out, source, root); err != nil {
		return "", "", err
	}
	html := strings.NewReplacer("<table>", `<div class="wide" tabindex="0" role="region" aria-label="Table"><table>`, "</table>", "</table></div>").Replace(out.String())
	return title, template.HTML(html), nil // ours, without HTML of its own
}

// served answers where a link of a page leads on this server.
func served(to string, names []string) []byte {
	file, fragment, _ := strings.Cut(to, "#")
	switch {
	case file == "", strings.HasPrefix(to, "https://"):
		return []byte(to)
	case slices.Contains(names, file):
		to = "/docs/" + strings.TrimSuffix(file, ".md")
	default:
		return []byte("#") // a file of the repository
	}
	if fragment != "" {
		to += "#" + fragment
	}
	return []byte(to)
}

// serve answers one page of the documentation.
func (s *site) manualPage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("page")
	if name == "" {
		name = start
	}
	body := s.manual.pages[name]
	if body == nil {
		s.missing(w, r)
		return
	}
	protect(w.Header(), toolsNowhere)
	html(w, r, http.StatusOK, body)
}
