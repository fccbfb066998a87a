package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// pages are the documents that people read, by their path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, glob := range []string{"*.md", "docs/*.md", "spec/*.md", "examples/*.md"} {
		files, err := filepath.Glob(filepath.Join("../..", glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out[strings.TrimPrefix(file, "../../")] = string(data)
		}
	}
	if len(out) < 9 {
		t.Fatalf("only %d pages found: the globs are wrong", len(out))
	}
	return out
}

var (
	fences = regexp.MustCompile("(?s)```.*?```")
	spans  = regexp.MustCompile("`([^`\n]+)`")
)

// TestPagesNameWhatExists reads every command line in the pages' code, and every
// flag and make target that stands alone there.
func TestPagesNameWhatExists(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`(?m)^([a-z]+):`).FindAllStringSubmatch(string(makefile), -1)
	read := 0
	for page, text := range pages(t) {
		for _, line := range code(text) {
			words := strings.Fields(line)
			for i, word := range words {
				switch {
				case word == "chaperone" || strings.HasSuffix(word, "/chaperone") && i == 0:
					read++
					checkLine(t, page, line, words[i+1:])
				case word == "make" && i == 0 && len(words) > 1:
					if !slices.ContainsFunc(targets, func(m []string) bool { return m[1] == words[1] }) {
						t.Errorf("%s: `%s`: no such target", page, line)
					}
				case i == 0 && strings.HasPrefix(word, "--") && word != "--": // that ends a command's own flags
					if !anywhere(newRoot(&app{}), word) {
						t.Errorf("%s: `%s`: no command has this flag", page, line)
					}
				}
			}
		}
	}
	if read < 20 {
		t.Errorf("only %d command lines found: the expressions are wrong", read)
	}
}

// TestExamplesParse gives every example of every help to the command that it is of.
func TestExamplesParse(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		lines := strings.Split(strings.ReplaceAll(c.Example, "\\\n", ""), "\n")
		for _, line := range lines {
			words := strings.Fields(line)
			if len(words) > 0 && words[0] == "chaperone" {
				checkLine(t, c.CommandPath()+" -h", strings.TrimSpace(line), words[1:])
			}
		}
		if c.HasParent() && c.Example == "" && c.Runnable() && !c.HasSubCommands() && !c.Hidden {
			t.Errorf("%s: its help has no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&app{}))
}

// code is the lines of a page's fenced blocks, and its spans.
func code(text string) []string {
	var out []string
	for _, block := range fences.FindAllString(text, -1) {
		out = append(out, strings.Split(block, "\n")...)
	}
	for _, m := range spans.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		out = append(out, m[1])
	}
	return out
}

// checkLine wants a command's words to name a subcommand and flags that exist.
func checkLine(t *testing.T, where, line string, words []string) {
	t.Helper()
	cmd := newRoot(&app{})
	for i, word := range words {
		if strings.ContainsAny(word, "|>;#&") && !strings.ContainsAny(word, "'=") {
			return // another command, or a remark
		}
		if word == "--" {
			return // what follows is another program's
		}
		if strings.HasPrefix(word, "-") {
			name, _, _ := strings.Cut(strings.TrimRight(word, ",.:)"), "=")
			if !has(cmd, name) {
				t.Errorf("%s: `%s`: %s has no flag %s", where, line, cmd.CommandPath(), name)
			}
			continue
		}
		at := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
		switch {
		case at >= 0:
			cmd = cmd.Commands()[at]
		case cmd.HasAvailableSubCommands() && (i == 0 || cmd.HasParent()): // else it may be a global flag's value
			t.Errorf("%s: `%s`: %s has no command %s", where, line, cmd.CommandPath(), word)
			return
		}
	}
}

func has(c *cobra.Command, flag string) bool {
	if flag == "-h" || flag == "--help" {
		return true
	}
	name := strings.TrimPrefix(flag, "--")
	return c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil
}

// anywhere says whether c or any command below it has the flag.
func anywhere(c *cobra.Command, flag string) bool {
	found := has(c, strings.Split(flag, "=")[0])
	for _, sub := range c.Commands() {
		found = found || anywhere(sub, flag)
	}
	return found
}
