package mcp_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The conformance suite looks for tools, prompts and resources by name. These are
// they: no part of the product, registered on the product's own chain.

type handler = func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)

func said(format string, a ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, a...)}}}
}

func shows(content ...sdk.Content) handler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: content}, nil
	}
}

func decode64(s string) []byte {
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return data
}

// A red pixel, and a WAV without a sample.
var (
	pixel   = decode64("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
	silence = decode64("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
)

func textResource(uri, text string) sdk.Content {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: "text/plain", Text: text}}
}

// registerFixtures adds all of them.
func registerFixtures(s *sdk.Server) {
	registerContent(s)
	registerAsking(s)
	registerMultiRound(s)
	registerChanges(s)
	registerResources(s)
	registerPrompts(s)
}

const anyInput = `{"type":"object"}`

func add(s *sdk.Server, name, schema string, h handler) {
	s.AddTool(&sdk.Tool{Name: name, Description: "A fixture of the conformance suite.", InputSchema: json.RawMessage(schema)},
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return h(ctx, r) })
}

func registerContent(s *sdk.Server) {
	image, audio := &sdk.ImageContent{Data: pixel, MIMEType: "image/png"}, &sdk.AudioContent{Data: silence, MIMEType: "audio/wav"}
	add(s, "test_simple_text", anyInput, shows(&sdk.TextContent{Text: "This is a simple text response for testing."}))
	add(s, "test_image_content", anyInput, shows(image))
	add(s, "test_audio_content", anyInput, shows(audio))
	add(s, "test_embedded_resource", anyInput, shows(textResource("test://embedded-resource", "This is an embedded resource")))
	add(s, "test_multiple_content_types", anyInput, shows(&sdk.TextContent{Text: "Three kinds"}, image, textResource("test://embedded-in-multiple", "This too")))
	add(s, "test_error_handling", anyInput, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := said("this tool fails on purpose")
		r.IsError = true
		return r, nil
	})
	add(s, "test_tool_with_logging", anyInput, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			if i > 0 {
				time.Sleep(50 * time.Millisecond)
			}
			r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: text}) //nolint:errcheck,staticcheck // a feature that older protocols have
		}
		return said("logged"), nil
	})
	add(s, "test_logging_tool", anyInput, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "logged"}) //nolint:errcheck,staticcheck // likewise
		return said("logged where asked for"), nil
	})
	add(s, "test_tool_with_progress", anyInput, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		token := r.Params.GetProgressToken()
		for _, done := range []float64{0, 50, 100} {
			r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}) //nolint:errcheck // the suite counts them
			time.Sleep(50 * time.Millisecond)
		}
		return said("%v", token), nil
	})
	add(s, "test_reconnection", anyInput, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if r.Extra != nil && r.Extra.CloseSSEStream != nil {
			r.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		}
		time.Sleep(100 * time.Millisecond)
		return said("reconnected"), nil
	})
	add(s, "test_x_mcp_header", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`,
		shows(&sdk.TextContent{Text: "mirrored"}))
	add(s, "test_streaming_elicitation", anyInput, shows(&sdk.TextContent{Text: "nothing but this result"}))
	add(s, "json_schema_2020_12_tool", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
		"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
		"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},
			"phone":{"type":"string"},"email":{"type":"string"}},
		"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
		"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},
		"additionalProperties":false}`, shows(&sdk.TextContent{Text: "called"}))
	add(s, "test_missing_capability", anyInput, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if c := r.ClientCapabilities(); c != nil && c.Sampling != nil {
			return said("sampling is there"), nil
		}
		data, err := json.Marshal(sdk.MissingRequiredClientCapabilityData{RequiredCapabilities: &sdk.ClientCapabilities{Sampling: &sdk.SamplingCapabilities{}}})
		if err != nil {
			return nil, err
		}
		return nil, &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "sampling is needed", Data: data}
	})
}

// asks is the older protocols' question of a tool, with its schema.
func asks(message, schema string) handler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if message == "" {
			var in struct{ Message string }
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			message = in.Message
		}
		got, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)})
		if err != nil {
			return nil, err
		}
		return said("Elicitation result: action=%s, content=%v", got.Action, got.Content), nil
	}
}

func registerAsking(s *sdk.Server) {
	add(s, "test_sampling", `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`,
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in struct{ Prompt string }
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			got, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 100, //nolint:staticcheck // a feature that older protocols have
				Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: in.Prompt}}}})
			if err != nil {
				return nil, err
			}
			text, ok := got.Content.(*sdk.TextContent)
			if !ok {
				return nil, errors.New("no text was sampled")
			}
			return said("LLM response: %s", text.Text), nil
		})
	add(s, "test_elicitation", `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
		asks("", `{"type":"object","properties":{"username":{"type":"string"}},"required":["username"]}`))
	add(s, "test_elicitation_sep1034_defaults", anyInput, asks("Defaults", `{"type":"object","properties":{
		"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`))
	add(s, "test_elicitation_sep1330_enums", anyInput, asks("Enums", `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`))
}

// elicit is the question of one text.
func elicit(member string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: "Which " + member + "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"` + member + `":{"type":"string"}},"required":["` + member + `"]}`)}
}

func sample() *sdk.CreateMessageParams {
	return &sdk.CreateMessageParams{MaxTokens: 50, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "Greet"}}}} //nolint:staticcheck // a fixture
}

func confirmation() *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: "Confirm", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`)}
}

func needs(state string, requests sdk.InputRequestMap) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: requests, RequestState: state}
}

// accepted answers what a person gave, nil for anything else.
func accepted(r sdk.InputResponseMap, key string) map[string]any {
	if e, ok := r[key].(*sdk.ElicitResult); ok && e != nil && e.Action == "accept" {
		return e.Content
	}
	return nil
}

func sampled(r sdk.InputResponseMap, key string) (string, bool) {
	m, ok := r[key].(*sdk.CreateMessageWithToolsResult)
	if !ok || m == nil {
		return "", false
	}
	for _, c := range m.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			return t.Text, true
		}
	}
	return "", true
}

// seal and unseal make a state that a client can't change.
var sealKey = []byte("a key of the fixtures")

func seal(text string) string {
	m := hmac.New(sha256.New, sealKey)
	m.Write([]byte(text))
	return text + "." + hex.EncodeToString(m.Sum(nil))
}

func unseal(state string) (string, error) {
	text, _, _ := strings.Cut(state, ".")
	if !hmac.Equal([]byte(seal(text)), []byte(state)) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the request state isn't ours"}
	}
	return text, nil
}

func registerMultiRound(s *sdk.Server) {
	round := func(name string, h func(*sdk.CallToolRequest, sdk.InputResponseMap) (*sdk.CallToolResult, error)) {
		add(s, "test_input_required_result_"+name, anyInput, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return h(r, r.Params.InputResponses)
		})
	}
	round("elicitation", func(_ *sdk.CallToolRequest, in sdk.InputResponseMap) (*sdk.CallToolResult, error) {
		if name, _ := accepted(in, "user_name")["name"].(string); name != "" {
			return said("Hello, %s!", name), nil
		}
		return needs("", sdk.InputRequestMap{"user_name": elicit("name")}), nil
	})
	round("sampling", func(_ *sdk.CallToolRequest, in sdk.InputResponseMap) (*sdk.CallToolResult, error) {
		if text, ok := sampled(in, "capital_question"); ok {
			return said("Sampling response: %s", text), nil
		}
		return needs("", sdk.InputRequestMap{"capital_question": sample()}), nil
	})
	round("list_roots", func(_ *sdk.CallToolRequest, in sdk.InputResponseMap) (*sdk.CallToolResult, error) {
		if roots, ok := in["client_roots"].(*sdk.ListRootsResult); ok && roots != nil { //nolint:staticcheck // a fixture
			return said("%d roots", len(roots.Roots)), nil
		}
		return needs("", sdk.InputRequestMap{"client_roots": &sdk.ListRootsParams{}}), nil //nolint:staticcheck // a fixture
	})
	for _, name := range []string{"request_state", "tampered_state"} {
		round(name, func(r *sdk.CallToolRequest, in sdk.InputResponseMap) (*sdk.CallToolResult, error) {
			if r.Params.RequestState != "" {
				if _, err := unseal(r.Params.RequestState); err != nil {
					return nil, err
				}
				if accepted(in, "confirm") != nil {
					return said("state-ok"), nil
				}
			}
			return needs(seal(name), sdk.InputRequestMap{"confirm": confirmation()}), nil
		})
	}
	round("multiple_inputs", func(_ *sdk.CallToolRequest, in sdk.InputResponseMap) (*sdk.CallToolResult, error) {
		name, _ := accepted(in, "user_name")["name"].(string)
		text, greeted := sampled(in, "greeting")
		roots, listed := in["client_roots"].(*sdk.ListRootsResult) //nolint:staticcheck // a fixture
		if name != "" && greeted && listed && roots != nil {
			return said("%s %s, %d roots", text, name, len(roots.Roots)), nil
		}
		return needs(seal("multiple"), sdk.InputRequestMap{"user_name": elicit("name"), "greeting": sample(), "client_roots": &sdk.ListRootsParams{}}), nil //nolint:staticcheck // a fixture
	})
	round("multi_round", func(r *sdk.CallToolRequest, in sdk.InputResponseMap) (*sdk.CallToolResult, error) {
		if r.Params.RequestState == "" {
			return needs(seal("one"), sdk.InputRequestMap{"step1": elicit("name")}), nil
		}
		state, err := unseal(r.Params.RequestState)
		if err != nil {
			return nil, err
		}
		if state == "one" {
			name, _ := accepted(in, "step1")["name"].(string)
			return needs(seal("two "+name), sdk.InputRequestMap{"step2": elicit("color")}), nil
		}
		color, _ := accepted(in, "step2")["color"].(string)
		return said("%s likes %s", strings.TrimPrefix(state, "two "), color), nil
	})
	round("capabilities", func(r *sdk.CallToolRequest, in sdk.InputResponseMap) (*sdk.CallToolResult, error) {
		requests := sdk.InputRequestMap{}
		c := r.ClientCapabilities()
		if c != nil && c.Elicitation != nil {
			requests["user_name"] = elicit("name")
		}
		if c != nil && c.Sampling != nil {
			requests["greeting"] = sample()
		}
		if len(in) > 0 || len(requests) == 0 {
			return said("nothing to ask"), nil
		}
		return needs("", requests), nil
	})
}

// registerChanges adds tools that change what is offered while somebody listens.
func registerChanges(s *sdk.Server) {
	add(s, "test_trigger_tool_change", anyInput, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		add(s, "passing_tool", anyInput, shows())
		return said("changed"), nil
	})
	add(s, "test_trigger_prompt_change", anyInput, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.AddPrompt(&sdk.Prompt{Name: "passing_prompt", Description: "Comes and goes."}, prompt("passing"))
		return said("changed"), nil
	})
}

const watched = "test://watched-resource"

func registerResources(s *sdk.Server) {
	content := func(kind, text string, blob []byte) sdk.ResourceHandler {
		return func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: kind, Text: text, Blob: blob}}}, nil
		}
	}
	s.AddResource(&sdk.Resource{Name: "static-text", URI: "test://static-text", MIMEType: "text/plain", Description: "A text."}, content("text/plain", "This is the content of the static text resource.", nil))
	s.AddResource(&sdk.Resource{Name: "static-binary", URI: "test://static-binary", MIMEType: "image/png", Description: "A pixel."}, content("image/png", "", pixel))
	s.AddResource(&sdk.Resource{Name: "watched-resource", URI: watched, MIMEType: "text/plain", Description: "One that changes."}, content("text/plain", "Watched resource content", nil))
	s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "template", URITemplate: "test://template/{id}/data", MIMEType: "application/json", Description: "By id."},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			data, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: string(data)}}}, err
		})
}

func prompt(text string, more ...sdk.Content) sdk.PromptHandler {
	return func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		result := &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}
		for _, c := range more {
			result.Messages = append([]*sdk.PromptMessage{{Role: "user", Content: c}}, result.Messages...)
		}
		return result, nil
	}
}

func registerPrompts(s *sdk.Server) {
	s.AddPrompt(&sdk.Prompt{Name: "test_simple_prompt", Description: "Without arguments."}, prompt("This is a simple prompt for testing."))
	s.AddPrompt(&sdk.Prompt{Name: "test_prompt_with_image", Description: "With an image."}, prompt("Look at the image.", &sdk.ImageContent{Data: pixel, MIMEType: "image/png"}))
	s.AddPrompt(&sdk.Prompt{Name: "test_prompt_with_arguments", Description: "With two arguments.", Arguments: []*sdk.PromptArgument{{Name: "arg1", Description: "First", Required: true}, {Name: "arg2", Description: "Second", Required: true}}},
		func(ctx context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return prompt(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", r.Params.Arguments["arg1"], r.Params.Arguments["arg2"]))(ctx, r)
		})
	s.AddPrompt(&sdk.Prompt{Name: "test_prompt_with_embedded_resource", Description: "With a resource.", Arguments: []*sdk.PromptArgument{{Name: "resourceUri", Description: "Which", Required: true}}},
		func(ctx context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return prompt("Look at the resource.", textResource(r.Params.Arguments["resourceUri"], "Embedded resource content for testing."))(ctx, r)
		})
	s.AddPrompt(&sdk.Prompt{Name: "test_input_required_result_prompt", Description: "Asks first."}, func(ctx context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		if c := accepted(r.Params.InputResponses, "user_context"); c != nil {
			return prompt(fmt.Sprintf("Context: %v", c["context"]))(ctx, r)
		}
		return &sdk.GetPromptResult{InputRequests: sdk.InputRequestMap{"user_context": elicit("context")}}, nil
	})
}

// fixtureOptions are what the fixtures need of the server.
func fixtureOptions() *sdk.ServerOptions {
	return &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}}, //nolint:staticcheck // a feature that older protocols have
		CompletionHandler: func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}, nil
		},
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	}
}
