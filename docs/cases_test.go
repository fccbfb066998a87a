package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"chaperone/docs"
)

// TestCasesExist holds the pages that name tests to tests that are there.
func TestCasesExist(t *testing.T) {
	have := testsBelow(t, "..")
	for file, least := range map[string]int{"cases.md": 150, "threat-model.md": 40, "qualification.md": 10} {
		page, err := fs.ReadFile(docs.Pages, file)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`([a-z0-9]+\\.Test\\w+)`").FindAllStringSubmatch(string(page), -1)
		if len(named) < least {
			t.Fatalf("%s names %d tests only", file, len(named))
		}
		for _, m := range named {
			if !have[m[1]] {
				t.Errorf("%s: %s doesn't exist", file, m[1])
			}
		}
	}
}

// testsBelow answers every test function by its folder and its name.
func testsBelow(t *testing.T, root string) map[string]bool {
	have := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				have[filepath.Base(filepath.Dir(path))+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}
