package mcp

import (
	"encoding/json"
	"net/http"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Read answers how the border judges a line: "" for a message.
func Read(line []byte) string {
	if _, bad := read(line); bad != nil {
		return bad.text
	}
	return ""
}

// Parse answers how a tool's arguments are judged, and the params made of them.
func Parse(name string, raw []byte) (json.RawMessage, error) {
	for i := range tools {
		if tools[i].name == name {
			args, err := tools[i].parse(raw)
			if err != nil {
				return nil, err
			}
			return args.encode(), nil
		}
	}
	panic("no tool " + name)
}

// Names lists the tools.
func Names() (names []string) {
	for _, t := range tools {
		names = append(names, t.name)
	}
	return names
}

// NewWithFixtures is NewHTTP whose SDK server has what tests register.
func NewWithFixtures(cfg HTTPConfig, opts *sdk.ServerOptions, register func(*sdk.Server)) *HTTP {
	h := newHTTP(cfg, opts, true)
	register(h.server)
	return h
}

// Border answers how a body is judged: "" for a message, and the name in it.
func Border(body []byte) (name string, fault string) {
	m, bad := border(body, func(string) bool { return false })
	if bad != nil {
		return "", bad.text
	}
	return m.name, ""
}

// Mirrored answers how headers are judged against a body that passed.
func Mirrored(body []byte, h http.Header) string {
	m, bad := border(body, func(string) bool { return false })
	if bad != nil {
		return bad.text
	}
	return m.mirrored(h)
}

// ParseForm answers how a form of the token endpoint is judged.
func ParseForm(body string) (url.Values, error) { return parseForm(body) }
