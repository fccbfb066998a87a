// Command build compiles web/src to web/dist. Run it by `go generate ./web`.
//
// Each script and style that lies directly in src/ becomes one file of the same
// name, with what it imports from the folders below in it; pictures are copied.
// The output depends on the sources and on the version of esbuild in go.mod only,
// which is what lets a test compare it byte by byte. Minified, since every page
// loads it; src/ is what a person reads.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	files, err := build(".")
	if err == nil {
		err = write(files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

// build compiles the sources of the web folder at dir and answers the files of
// dist/ by their names.
func build(dir string) (map[string][]byte, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := pictures(root)
	if err != nil {
		return nil, err
	}
	entries, err := entries(root)
	if err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir:     root,
		EntryPoints:       entries,
		Outdir:            "dist",
		Bundle:            true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		Charset:           api.CharsetUTF8,
		LegalComments:     api.LegalCommentsNone,
		MinifyWhitespace:  true,
		MinifySyntax:      true,
		MinifyIdentifiers: true,
		LogLevel:          api.LogLevelSilent,
	})
	if wrong := append(result.Errors, result.Warnings...); len(wrong) > 0 {
		told := api.FormatMessages(wrong, api.FormatMessagesOptions{Kind: api.ErrorMessage})
		return nil, errors.New(strings.Join(told, "\n"))
	}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	return files, nil
}

// entries are the scripts and styles directly in src/.
func entries(root string) ([]string, error) {
	var all []string
	for _, pattern := range []string{"src/*.ts", "src/*.css"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, errors.New("no sources in " + filepath.Join(root, "src"))
	}
	slices.Sort(all)
	return all, nil
}

func pictures(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	found, err := filepath.Glob(filepath.Join(root, "src/*.svg"))
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[filepath.Base(path)] = data
	}
	return files, err
}

// write replaces what is in dist. Files are never missing meanwhile, since another
// build may be reading them.
func write(files map[string][]byte) error {
	if err := os.MkdirAll("dist", 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join("dist", name), data, 0o644); err != nil {
			return err
		}
	}
	old, err := filepath.Glob("dist/*")
	for _, path := range old {
		if _, ok := files[filepath.Base(path)]; !ok {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
