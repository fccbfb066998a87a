package mcp

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// part is one content part, already in JSON. It embeds one of the SDK's parts
// only to count as one.
type part struct {
	sdk.TextContent
	json []byte
}

// MarshalJSON answers the part as it stands.
func (p *part) MarshalJSON() ([]byte, error) { return p.json, nil }

// textPart is text for the model.
func textPart(text string) *part {
	b := make([]byte, 0, len(text)+len(text)/16+32)
	b = appendString(append(b, `{"type":"text","text":`...), text)
	return &part{json: append(b, '}')}
}

// imagePart is a PNG that is in base64 already.
func imagePart(base64 string) *part {
	b := make([]byte, 0, len(base64)+64)
	b = append(b, `{"type":"image","mimeType":"image/png","data":"`...)
	b = append(b, base64...)
	return &part{json: append(b, `"}`...)}
}

// pdfPart is a PDF that is in base64 already. Its name is an id, not a path:
// nothing was written anywhere.
func pdfPart(uri, base64 string) *part {
	b := make([]byte, 0, len(base64)+128)
	b = append(b, `{"type":"resource","resource":{"mimeType":"application/pdf","uri":`...)
	b = append(appendString(b, uri), `,"blob":"`...)
	b = append(b, base64...)
	return &part{json: append(b, `"}}`...)}
}

// compact is the middleware that writes results of tools/call byte by byte. The
// SDK's own way escapes every < of a page's source into six bytes and encodes
// each part three times.
func compact(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		if tool, ok := result.(*sdk.CallToolResult); ok && err == nil {
			call, ok := req.(*sdk.CallToolRequest)
			return &written{tool, ok && call.ProtocolVersion() >= "2026-07-28"}, nil
		}
		return result, err
	}
}

// written is a tool's result with an encoding of its own.
type written struct {
	*sdk.CallToolResult
	modern bool // 2026-07-28: results name their type
}

// MarshalJSON writes the result of section "tools/call" of the protocol.
func (w *written) MarshalJSON() ([]byte, error) {
	b := []byte(`{"content":[`)
	for i, c := range w.Content {
		if i > 0 {
			b = append(b, ',')
		}
		data, err := c.MarshalJSON()
		if err != nil {
			return nil, err
		}
		b = append(b, data...)
	}
	b = append(b, ']')
	for _, member := range []struct {
		name  string
		value any
		on    bool
	}{
		{"structuredContent", w.StructuredContent, w.StructuredContent != nil},
		{"isError", true, w.IsError},
		{"resultType", "complete", w.modern},
		{"_meta", w.Meta, w.Meta != nil},
	} {
		if !member.on {
			continue
		}
		data, ready := member.value.(json.RawMessage) // JSON of our own, as it is
		if !ready {
			var err error
			if data, err = json.Marshal(member.value); err != nil {
				return nil, err
			}
		}
		b = append(appendString(append(b, ','), member.name), ':')
		b = append(b, data...)
	}
	return append(b, '}'), nil
}

// offered is the middleware that refuses what this server has no capability
// for: the SDK would answer empty lists.
func offered(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch method {
		case "prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list",
			"resources/subscribe", "resources/unsubscribe", "completion/complete", "logging/setLevel":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
		}
		return next(ctx, method, req)
	}
}
