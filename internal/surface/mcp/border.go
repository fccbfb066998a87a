package mcp

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
)

const (
	methodHeader = "Mcp-Method"
	nameHeader   = "Mcp-Name"
)

// message is what is decided on before the SDK decodes a body.
type message struct {
	envelope
	name   string // the tool, prompt or resource that is named
	modern bool   // the body itself says 2026-07-28 or newer
}

// params are those members of a request's params that decide something.
type params struct {
	Name      *string        `json:"name"`
	URI       *string        `json:"uri"`
	Arguments jsontext.Value `json:"arguments"`
	Meta      struct {
		Version string `json:"io.modelcontextprotocol/protocolVersion"`
	} `json:"_meta"`
}

// border reads a body strictly, and a call's arguments more strictly still: a
// digest is made of them, so they are of the closed subset (no floats), unless
// loose says that the tool takes others.
func border(body []byte, loose func(name string) bool) (message, *fault) {
	var m message
	var bad *fault
	if m.envelope, bad = read(body); bad != nil {
		return m, bad
	}
	if m.method == "" {
		return m, nil
	}
	var whole struct {
		Params jsontext.Value `json:"params"`
	}
	if err := json.Unmarshal(body, &whole); err != nil {
		return m, invalid("not a JSON-RPC message")
	}
	var p params
	if whole.Params != nil {
		if err := json.Unmarshal(whole.Params, &p); err != nil {
			return m, m.wrong("params have the wrong type")
		}
	}
	m.modern = p.Meta.Version >= newest
	switch m.method {
	case toolCall, "prompts/get":
		if p.Name == nil {
			return m, m.wrong("params.name is missing")
		}
		m.name = *p.Name
	case "resources/read":
		if p.URI == nil {
			return m, m.wrong("params.uri is missing")
		}
		m.name = *p.URI
	}
	if m.method == toolCall && p.Arguments != nil && p.Arguments.Kind() != 'n' { // null is none
		if p.Arguments.Kind() != '{' {
			return m, m.wrong("params.arguments is no object")
		}
		if loose(m.name) {
			return m, nil
		}
		var outside *canon.Error
		if _, err := canon.Canonicalize(p.Arguments); errors.As(err, &outside) {
			return m, m.wrong("params.arguments: " + outside.Why)
		}
	}
	return m, nil
}

func (m message) wrong(text string) *fault {
	return &fault{code: jsonrpc.CodeInvalidParams, text: "invalid params: " + text, id: m.id}
}

// mirrored tells why the headers that mirror the body don't, "" where they do.
// The body decides; a header that says another thing would be what a proxy before
// us went by (section "Headers" of 2026-07-28). Older protocols don't ask for
// them, but one that is there must agree.
func (m message) mirrored(h http.Header) string {
	if m.method == "" {
		return ""
	}
	version, modern := h.Get(versionHeader), h.Get(versionHeader) >= newest
	names := m.method == toolCall || m.method == "prompts/get" || m.method == "resources/read"
	_, method := h[methodHeader]
	_, name := h[nameHeader]
	switch {
	case m.modern && version == "":
		return versionHeader + " is missing"
	case m.modern && !modern:
		return versionHeader + " isn't the body's version"
	case modern && !method:
		return methodHeader + " is missing"
	case method && h.Get(methodHeader) != m.method:
		return methodHeader + " isn't the body's method"
	case modern && names && !name:
		return nameHeader + " is missing"
	case name && h.Get(nameHeader) != m.name:
		return nameHeader + " isn't what the body names"
	}
	return ""
}

// mismatch refuses by the protocol's own code.
func mismatch(w http.ResponseWriter, id jsontext.Value, why string) {
	writeFault(w, http.StatusBadRequest, &fault{code: sdk.CodeHeaderMismatch, text: "header mismatch: " + why, id: id})
}

// writeFault answers a body that never became a call, with a code of ours beside
// the protocol's.
func writeFault(w http.ResponseWriter, status int, f *fault) {
	id := f.id
	if id == nil {
		id = jsontext.Value("null")
	}
	code := refusal.Malformed
	if f.code == sdk.CodeHeaderMismatch {
		code = refusal.HeaderMismatch
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	writeJSON(w, status, appendError(b, f.code, f.text, []byte(`{"code":"`+string(code)+`"}`)))
}
