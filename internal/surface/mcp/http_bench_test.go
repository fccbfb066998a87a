package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/identity"
	"chaperone/internal/portal/operation"
)

// BenchmarkItemRead is one item_read of 2026-07-28 over loopback HTTP: through the
// whole of /mcp, and through the SDK's own handler, which runs the same operation
// with nothing before it: no token, no strict reading, no mirror.
func BenchmarkItemRead(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		content := strings.Repeat("0123456789abcde\n", size/16)
		w := newWorld(b, worldOptions{limits: operation.Limits{Parallel: 64, Rate: 1e9, Burst: 1e9, Deadline: time.Minute}})
		token, connection := w.token(everything)
		w.put(token, "item.txt", content)
		name := map[int]string{1 << 10: "1KB", 64 << 10: "64KB"}[size]
		b.Run(name+"/chaperone", func(b *testing.B) { ask(b, w.origin+"/mcp", token, size) })
		b.Run(name+"/bare-sdk", func(b *testing.B) { ask(b, bare(b, w, connection), "", size) })
	}
}

// bare is the SDK's handler over the same operation.
func bare(b *testing.B, w *world, connection string) string {
	b.Helper()
	person, err := identity.New(identity.Claims{Tenant: "local", Actor: w.ada.Actor, Scopes: []string{"collections"}, Agent: "bare"})
	must(b, err)
	server := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "item_read", Description: "Reads.", InputSchema: json.RawMessage(anyInput)},
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			data, err := w.desk.Call(ctx, operation.Caller{Principal: person, Transport: operation.Bearer, Connection: connection}, "item_read", r.Params.Arguments)
			if err != nil {
				return nil, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(data)}}, StructuredContent: json.RawMessage(data)}, nil
		})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	b.Cleanup(h.Close)
	return h.URL
}

// ask asks b.N times on one connection.
func ask(b *testing.B, url, token string, size int) {
	body, headers := message(1, "tools/call", map[string]any{"name": "item_read", "arguments": map[string]any{"collection": "files", "item": "item.txt"}})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for b.Loop() {
		req, err := http.NewRequest("POST", url, strings.NewReader(body))
		must(b, err)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		must(b, err)
		data, err := io.ReadAll(resp.Body)
		must(b, err)
		resp.Body.Close()
		if resp.StatusCode != 200 || len(data) < size || bytes.Contains(data, []byte(`"isError":true`)) {
			b.Fatalf("%d %.300s", resp.StatusCode, data)
		}
	}
}
