package controlv1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingHoldsACredential reads every type of the packages under attended/: no
// field can hold a cookie, a token or a raw arm receipt. A field that holds text
// is of an element type, or among those named here.
func TestNothingHoldsACredential(t *testing.T) {
	banned := []string{"cookie", "token", "secret", "bearer", "password", "credential", "armreceipt", "rawarm", "authorizationheader", "apikey"}
	seen := 0
	for _, pkg := range []string{".", "../ledger", "../live"} {
		files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				s, ok := n.(*ast.StructType)
				if !ok {
					return true
				}
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						seen++
						for _, word := range banned {
							if strings.Contains(strings.ToLower(name.Name), word) && holdsText(field.Type) {
								t.Errorf("%s: a field %s can hold a credential", file, name.Name)
							}
						}
					}
				}
				return true
			})
		}
	}
	if seen < 100 {
		t.Errorf("only %d fields were read", seen)
	}
}

// holdsText tells whether a type can hold text of any kind.
func holdsText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		switch e.Name {
		case "bool", "int", "int64", "uint64":
			return false
		}
	case *ast.ArrayType:
		return holdsText(e.Elt) || true
	}
	return true
}
