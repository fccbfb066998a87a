package main

import (
	"bytes"
	"io/fs"
	"testing"

	"chaperone/web"
)

// What is committed is what the sources give.
func TestDistIsBuiltFromSources(t *testing.T) {
	files, err := build("..")
	if err != nil {
		t.Fatal(err)
	}
	committed, err := fs.Glob(web.Dist, "dist/*")
	if err != nil || len(committed) != len(files) {
		t.Errorf("dist holds %v, the sources give %d files: %v", committed, len(files), err)
	}
	for name, want := range files {
		got, err := web.Dist.ReadFile("dist/" + name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("dist/%s isn't what the sources give (%v): run go generate ./web", name, err)
		}
	}
}

// A source that doesn't compile is an error, not an empty file.
func TestBuildFails(t *testing.T) {
	if files, err := build(t.TempDir()); err == nil {
		t.Errorf("no sources gave %v", files)
	}
}
