// Command build compiles web/src to web/dist. Run it by `go generate ./web`.
//
// Each file named in entries becomes one ES module of the same name. The output
// depends on the sources and on the version of esbuild in go.mod only, which is
// what lets a test compare it byte by byte.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// entries are the modules that pages load.
var entries = []string{"src/canon.ts"}

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
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root,
		EntryPoints:   entries,
		Outdir:        "dist",
		Bundle:        true,
		Format:        api.FormatESModule,
		Target:        api.ES2022,
		Charset:       api.CharsetUTF8,
		LegalComments: api.LegalCommentsNone,
		LogLevel:      api.LogLevelSilent,
	})
	if wrong := append(result.Errors, result.Warnings...); len(wrong) > 0 {
		told := api.FormatMessages(wrong, api.FormatMessagesOptions{Kind: api.ErrorMessage})
		return nil, errors.New(strings.Join(told, "\n"))
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	return files, nil
}

// write replaces what is in dist.
func write(files map[string][]byte) error {
	if err := os.MkdirAll("dist", 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join("dist", name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
