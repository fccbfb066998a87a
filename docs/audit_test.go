package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// authorities are the packages that append to the log, by the kinds of theirs.
var authorities = map[string]string{
	"session.": "session", "credential.": "credential", "oauth.": "oauth",
	"portal.": "portal/ledger", "item.": "portal/item", "owned_run.": "owned/run", "policy.": "policy", "attended.": "attended/ledger",
}

// computed are the fields whose names aren't written at the call, by package: the
// public ones and the sealed ones. Each is the number of such calls and their names.
var computed = map[string][2]string{
	"owned/run":     {"1 layer scheme", "1 address host rule"},
	"portal/ledger": {"1 connections requests reviews", ""},
	"policy":        {"1 rule_n", ""}, // n from 1
}

// TestAuditPage holds the page of what is logged to the code that logs it.
func TestAuditPage(t *testing.T) {
	told := map[string][2]string{}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+\\.)` \\| ([a-z_, ]*) \\| ([a-z_, ]*) ?\\|$")
	for _, m := range row.FindAllStringSubmatch(read(t, "audit.md"), -1) {
		told[m[1]] = [2]string{strings.TrimSpace(m[2]), strings.TrimSpace(m[3])}
	}
	want := map[string][2]string{}
	for kinds, pkg := range authorities {
		public, sealed := fieldsOf(t, pkg)
		want[kinds] = [2]string{public, sealed}
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("docs/audit.md (-code +page):\n%s", diff)
	}
}

// TestOnlyAuthoritiesLog: whoever appends in this binary has a row in that page.
func TestOnlyAuthoritiesLog(t *testing.T) {
	known := slices.Collect(maps.Values(authorities))
	linked := map[string]bool{}
	link(t, "../cmd/chaperone", linked)
	for dir := range linked {
		pkg := strings.TrimPrefix(dir, "../internal/")
		for _, file := range product(t, dir) {
			if pkg != "audit" && !slices.Contains(known, pkg) && strings.Contains(read(t, file), "audit.Event{") {
				public, sealed := fieldsOf(t, pkg)
				t.Errorf("%s appends to the log: name its kinds in this test, and give docs/audit.md the row | `KIND.` | %s | %s |", file, public, sealed)
			}
		}
	}
	if len(linked) < 20 {
		t.Errorf("the binary is made of %d packages only", len(linked))
	}
}

// link adds the folder and what it imports of this module.
func link(t *testing.T, dir string, into map[string]bool) {
	t.Helper()
	if into[dir] {
		return
	}
	into[dir] = true
	for _, file := range product(t, dir) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if below, ours := strings.CutPrefix(path, "chaperone/"); ours {
				link(t, "../"+below, into)
			}
		}
	}
}

// product answers a folder's Go files without its tests.
func product(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

// fieldsOf answers the names that a package gives to audit's constructors.
func fieldsOf(t *testing.T, pkg string) (public, sealed string) {
	t.Helper()
	files := product(t, "../internal/"+pkg)
	if len(files) == 0 {
		t.Fatalf("%s isn't there", pkg)
	}
	names, unnamed := [2]map[string]bool{{}, {}}, [2]int{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			fn, is := decl.(*ast.FuncDecl)
			if is && fn.Name.Name == "count" { // a shorter name for audit.Count
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is || len(call.Args) != 2 {
					return true
				}
				kind := constructor(call.Fun)
				if kind < 0 {
					return true
				}
				if lit, is := call.Args[0].(*ast.BasicLit); is {
					name, _ := strconv.Unquote(lit.Value)
					names[kind][name] = true
				} else {
					unnamed[kind]++
				}
				return true
			})
		}
	}
	for kind := range names {
		number, more, _ := strings.Cut(computed[pkg][kind], " ")
		if n, _ := strconv.Atoi(number); n != unnamed[kind] {
			t.Errorf("%s: %d fields without a written name; the test knows %d", pkg, unnamed[kind], n)
		}
		for _, name := range strings.Fields(more) {
			names[kind][name] = true
		}
	}
	line := func(kind int) string { return strings.Join(slices.Sorted(maps.Keys(names[kind])), ", ") }
	return line(0), line(1)
}

// constructor tells which kind of field a call makes: 0 public, 1 sealed, -1 none.
func constructor(fun ast.Expr) int {
	switch f := fun.(type) {
	case *ast.SelectorExpr:
		x, is := f.X.(*ast.Ident)
		if !is || x.Name != "audit" {
			return -1
		}
		switch f.Sel.Name {
		case "ID", "Word", "Digest", "Count":
			return 0
		case "Seal":
			return 1
		}
	case *ast.Ident:
		if f.Name == "count" {
			return 0
		}
	}
	return -1
}
