package floors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "chaperone/"
	root   = "../.."
)

// source is one Go file of the product (tests left out).
type source struct {
	pkg, file string
	ast       *ast.File
	set       *token.FileSet
}

// sources parses every product file. Folders with a go.mod of their own are
// other modules; testdata and hidden folders aren't the product.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			_, own := os.Stat(filepath.Join(file, "go.mod"))
			if file != root && (own == nil || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		out = append(out, source{filepath.ToSlash(rel), file, f, set})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// product tells whether pkg belongs to the plan at all: examples, but for the one
// that is in the program, and build-time programs don't.
func product(pkg string) bool {
	return pkg == "examples/agent" || !strings.HasPrefix(pkg, "examples/") && !strings.HasPrefix(pkg, "scripts/") && pkg != "web/build"
}

func TestFloors(t *testing.T) {
	level, name := map[string]int{}, map[string]string{}
	for i, f := range floors {
		for _, p := range strings.Fields(f.packages) {
			level[p], name[p] = i, f.name
		}
	}
	commented := map[string]bool{}
	for _, s := range sources(t) {
		if !product(s.pkg) {
			continue
		}
		if _, ok := level[s.pkg]; !ok {
			t.Errorf("%s has no place in the plan (internal/floors/floors.go)", s.pkg)
			continue
		}
		if s.ast.Doc != nil && strings.Contains(s.ast.Doc.Text(), "Floor: "+name[s.pkg]+".") {
			commented[s.pkg] = true
		}
		for _, spec := range s.ast.Imports {
			full, _ := strconv.Unquote(spec.Path.Value)
			it, ours := strings.CutPrefix(full, module)
			if !ours {
				continue
			}
			switch {
			case name[it] == "test kit" && name[s.pkg] != "test kit":
				t.Errorf("%s imports %s, which only tests may", s.pkg, it)
			case level[it] > level[s.pkg]:
				t.Errorf("%s (%s) imports %s (%s), which stands above it", s.pkg, name[s.pkg], it, name[it])
			case level[it] == level[s.pkg] && name[s.pkg] != "test kit" && !slices.Contains(strings.Fields(siblings[s.pkg]), it):
				t.Errorf("%s imports its sibling %s without a declared edge", s.pkg, it)
			case wing(s.pkg) != "" && wing(it) != "" && wing(s.pkg) != wing(it):
				t.Errorf("%s imports %s: wings do not know each other", s.pkg, it)
			case slices.Contains(hidden[it], name[s.pkg]):
				t.Errorf("%s imports %s, which the %s floor may not see", s.pkg, it, name[s.pkg])
			}
		}
	}
	for p := range level {
		if !commented[p] {
			t.Errorf("%s: no package comment that says \"Floor: %s.\"", p, name[p])
		}
	}
}

// wing returns owned, attended or portal, or "" for what all wings share.
func wing(p string) string {
	if s := strings.Split(p, "/"); len(s) == 3 && s[1] != "surface" {
		return s[1]
	}
	return ""
}

// TestPlaces keeps processes, flags and SQL in the packages that own them.
func TestPlaces(t *testing.T) {
	for _, s := range sources(t) {
		if !product(s.pkg) {
			continue
		}
		for _, spec := range s.ast.Imports {
			it, _ := strconv.Unquote(spec.Path.Value)
			places, limited := allowed[it]
			if limited && !within(s.pkg, places) {
				t.Errorf("%s imports %s; only these may: %s", s.file, it, places)
			}
		}
	}
}

// within tells whether pkg is one of places, or below one that ends in /.
func within(pkg, places string) bool {
	return slices.ContainsFunc(strings.Fields(places), func(p string) bool {
		return p == pkg || strings.HasSuffix(p, "/") && strings.HasPrefix(pkg, p)
	})
}

// calls limits functions as allowed limits imports: qualified name -> places.
var calls = map[string]string{
	"net.Listen":       "internal/surface/ internal/node cmd/ internal/owned/jail internal/owned/host internal/owned/corpus internal/storetest internal/sitetest internal/sourcetest internal/idptest",
	"net.ListenPacket": "internal/surface/ cmd/ internal/owned/jail internal/owned/corpus internal/storetest internal/sitetest",
	"net.ListenUnix":   "internal/surface/ internal/owned/host",
	"os.Getenv":        "cmd/ internal/storetest internal/sitetest",
	"os.LookupEnv":     "cmd/ internal/storetest internal/sitetest",
	"os.Environ":       "cmd/ internal/owned/jail internal/storetest internal/sitetest internal/idptest internal/agenttest",
	"log.Fatal":        "",
	"log.Fatalf":       "",
	"os.Exit":          "cmd/ internal/owned/jail internal/storetest",
}

func TestCalls(t *testing.T) {
	for _, s := range sources(t) {
		if !product(s.pkg) {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok || x.Obj != nil {
				return true
			}
			name := x.Name + "." + sel.Sel.Name
			if places, limited := calls[name]; limited && !within(s.pkg, places) {
				t.Errorf("%s: %s; only these may: %s", s.set.Position(n.Pos()), name, places)
			}
			return true
		})
	}
}

// TestWireContract keeps the lowest floor free of input, output, clocks and
// goroutines, so that it can be read as a specification.
func TestWireContract(t *testing.T) {
	banned := []string{"os/exec", "os/signal", "database/sql", "sync"}
	for _, s := range sources(t) {
		if !slices.Contains(strings.Fields(floors[0].packages), s.pkg) {
			continue
		}
		for _, spec := range s.ast.Imports {
			if it, _ := strconv.Unquote(spec.Path.Value); slices.Contains(banned, it) {
				t.Errorf("%s imports %s", s.file, it)
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine on the lowest floor", s.set.Position(n.Pos()))
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && x.Name == "http" && !strings.HasPrefix(n.Sel.Name, "Status") && !strings.HasPrefix(n.Sel.Name, "Method") {
					t.Errorf("%s: http.%s on the lowest floor, which takes only its words", s.set.Position(n.Pos()), n.Sel.Name)
				}
				if ok && x.Name == "time" && slices.Contains([]string{"Now", "Sleep", "After", "NewTimer"}, n.Sel.Name) {
					t.Errorf("%s: time.%s on the lowest floor", s.set.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}
