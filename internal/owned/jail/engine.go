package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// installEngine is the command that installs the engine.
const installEngine = "apt-get install -y chromium-headless-shell"

// UsualEngine is where Debian's package chromium-headless-shell puts the browser.
const UsualEngine = "/usr/lib/chromium/chromium-headless-shell"

// engines are looked for in this order. A desktop Chromium is none: it wants a
// display, and a box has none. Nor is Debian's /usr/bin/chromium: that
// script adds flags of its own.
var engines = []string{
	UsualEngine,
	"/usr/lib/chromium-browser/chromium-headless-shell",
	"/usr/lib64/chromium-browser/headless_shell",
}

// FindEngine answers the engine's executable: path if one is given, else the first
// that is installed. Where there is none the error is a [Missing] with the command
// that installs it.
func FindEngine(path string) (string, error) {
	if path != "" {
		return checkEngine(path)
	}
	for _, candidate := range engines {
		if found, err := checkEngine(candidate); err == nil {
			return found, nil
		}
	}
	return "", &Missing{What: "no headless Chromium is installed", Mend: installEngine}
}

// checkEngine resolves a path to a program that a box can execute. A wrapper
// script isn't one: a box has no shell, and a wrapper adds flags nobody reviewed.
func checkEngine(path string) (string, error) {
	real, err := filepath.Abs(path)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err == nil {
		err = checkELF(real)
	}
	if err != nil {
		return "", &Missing{What: fmt.Sprintf("the engine %s can't be used", path), Mend: installEngine, Err: err}
	}
	return real, nil
}

// checkELF says whether the file is an executable program.
func checkELF(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return errors.New("not an executable file")
	}
	var magic [4]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != "\x7fELF" {
		return errors.New("not an ELF program; name the browser itself, not a script that starts it")
	}
	return nil
}
