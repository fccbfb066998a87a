package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/jail"
)

var serviceName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// mark is the first line of an override file, by which the next launch knows it.
const mark = "# Written by chaperone launch, which replaces it next time: change it elsewhere.\n"

// compose writes the override file and prints the line that uses it.
func (l *launching) compose(ctx context.Context, binds []jail.Bind, owner uint32) error {
	if err := forwarded(); err != nil {
		return err
	}
	files := l.project()
	known := len(files) == 0
	for _, name := range files {
		data, err := input(ctx, "Compose file", name, nil)
		if err != nil {
			return err
		}
		p, err := readProject(data)
		if err == nil {
			err = l.checkProject(p, filepath.Dir(files[0]), binds, owner)
		}
		if err != nil {
			return fmt.Errorf("the Compose file %s: %w", name, err)
		}
		if p.partial() {
			l.unchecked(name + " takes in other files (include, extends), which weren't checked for mounts that overlap")
		}
		_, ok := p.Services[l.services[0]]
		known = known || ok || p.Include != nil
	}
	if !known {
		return fmt.Errorf("no service %s in %s: name one that is there, or the file that has it by --compose-file", l.services[0], strings.Join(files, ", "))
	}
	text, err := override(l.engagement, l.services[0], binds)
	if err != nil {
		return err
	}
	if err := writeOwn(l.composeOut, text); err != nil {
		return err
	}
	if len(files) == 0 {
		l.unchecked("no Compose file was found here, so none was checked for mounts that overlap; name it with --compose-file")
		files = []string{"compose.yaml"}
	}
	return l.printLine(append(files, l.composeOut))
}

// unchecked tells a person what they have to see to themselves.
func (l *launching) unchecked(what string) { fmt.Fprintln(l.app.stderr, "chaperone:", printable(what)) }

// project lists the project's Compose files as Compose itself would find them.
// Named by -f, it takes no override file by itself any more; so that one is named too.
func (l *launching) project() (files []string) {
	if len(l.composeFiles) > 0 {
		return l.composeFiles
	}
	if list := os.Getenv("COMPOSE_FILE"); list != "" {
		separator := os.Getenv("COMPOSE_PATH_SEPARATOR")
		if separator == "" {
			separator = string(os.PathListSeparator)
		}
		return strings.Split(list, separator)
	}
	for _, names := range [][]string{
		{"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"},
		{"compose.override.yaml", "compose.override.yml", "docker-compose.override.yml", "docker-compose.override.yaml"},
	} {
		for _, name := range names {
			if _, err := os.Stat(name); err == nil {
				files = append(files, name)
				break
			}
		}
		if len(files) == 0 {
			return nil
		}
	}
	return files
}

// override is the text of the override file. Compose adds its volumes to the
// service's own, by their targets.
func override(engagement, service string, binds []jail.Bind) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# Engagement %s: its browsers' registrations, read-only, for this service alone.\nservices:\n  %s:\n    volumes:\n", mark, engagement, yamlText(service))
	for _, bind := range binds {
		if !utf8.ValidString(bind.Source) {
			return "", fmt.Errorf("the path %q isn't UTF-8, which a Compose file must be: use another", bind.Source)
		}
		fmt.Fprintf(&b, `      - type: bind
        source: %s
        target: %s
        read_only: true
        bind:
          create_host_path: false
`, yamlText(bind.Source), yamlText(jail.MountDir+"/"+bind.Name))
	}
	return b.String(), nil
}

// yamlText is text as YAML's double-quoted string, whose escapes JSON's are, and
// with Compose's own escape of the dollar.
func yamlText(text string) string {
	data, _ := json.Marshal(strings.ReplaceAll(text, "$", "$$")) // a string always marshals
	return string(data)
}

// writeOwn writes the file whole or not at all, over one of its own or none.
func writeOwn(path, text string) (err error) {
	flags := uint(unix.RENAME_NOREPLACE)
	switch found, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return cantRead("override file", path, err)
	case !found.Mode().IsRegular() || !marked(path):
		return fmt.Errorf("%s is there and not from chaperone launch: name another --compose-out, or remove it", path)
	default:
		flags = 0
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".chaperone-*.yaml")
	if err != nil {
		return fmt.Errorf("can't write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("can't write %s: %w", path, err), os.Remove(draft.Name()))
		}
	}()
	_, err = draft.WriteString(text)
	// It holds no secret, and Compose may run as somebody else.
	if err = errors.Join(err, draft.Chmod(0o644), draft.Sync(), draft.Close()); err != nil {
		return err
	}
	return unix.Renameat2(unix.AT_FDCWD, draft.Name(), unix.AT_FDCWD, path, flags)
}

// marked tells whether the file is one that a launch wrote.
func marked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(mark))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == mark
}

// printLine prints the line that starts the project with the override last.
func (l *launching) printLine(files []string) error {
	command := []string{"docker", "compose"}
	for _, name := range files {
		command = append(command, "-f", name)
	}
	command = append(command, "up")
	if l.app.json {
		return json.NewEncoder(l.app.stdout).Encode(struct {
			File    string   `json:"file"`
			Command []string `json:"command"`
		}{l.composeOut, command})
	}
	for i, word := range command {
		if !regexp.MustCompile(`^[A-Za-z0-9_./+:=@%-]+$`).MatchString(word) {
			command[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	_, err := fmt.Fprintln(l.app.stdout, strings.Join(command, " "))
	return err
}
