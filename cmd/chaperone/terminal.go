package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// columns is how wide text for w should be: a terminal's width within reason, or
// 0 for what is no terminal, since other programs read whole lines.
func columns(w io.Writer) int {
	file, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width == 0 {
		return 0
	}
	return min(max(width, 60), 120)
}

// colours paints for a terminal whose owner didn't ask for none.
func colours(w io.Writer) func(colour, text string) string {
	file, ok := w.(interface{ Fd() uintptr })
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(file.Fd())) {
		return func(_, text string) string { return text }
	}
	return func(colour, text string) string { return "\x1b[" + colour + "m" + text + "\x1b[0m" }
}

// wrapped breaks text between words so that no line is over width, unless a
// word is or width is 0; its first line begins at column at, what follows is
// indented by hang.
func wrapped(text string, at, hang, width int) string {
	var b strings.Builder
	column := at
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i > 0 && width > 0 && column+1+length > width:
			b.WriteString("\n" + strings.Repeat(" ", hang))
			column = hang
		case i > 0:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}

// printable is text without anything that a terminal obeys but a line's end and
// a tab.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
			return '·'
		}
		return r
	}, s)
}

// progress answers what tells steps to a person who watches; nil where nobody does.
func (a *app) progress() func(string) {
	file, ok := a.stderr.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func(step string) { fmt.Fprintln(a.stderr, printable(step)) }
}
