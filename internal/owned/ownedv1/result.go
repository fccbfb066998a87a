package ownedv1

import (
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// The results of the thirteen actions, with exactly the keys of section 1.
type (
	// LaunchResult lists the tabs' ids in the order they came; Active is null
	// where no tab is active.
	LaunchResult struct {
		Tabs   []string `json:"tabs"`
		Active *string  `json:"active"`
	}
	// TabsResult answers list_tabs.
	TabsResult struct {
		Tabs   []string `json:"tabs"`
		Active *string  `json:"active"`
	}
	// GotoResult tells where the navigation ended. Status is null without an
	// HTTP response.
	GotoResult struct {
		URL    string `json:"url"`
		Status *int   `json:"status"`
		Title  string `json:"title"`
	}
	// ClickResult echoes the selector.
	ClickResult struct {
		Clicked string `json:"clicked"`
		URL     string `json:"url"`
	}
	// TypeResult echoes the selector and counts the text's code points.
	TypeResult struct {
		TypedInto string `json:"typed_into"`
		Chars     int    `json:"chars"`
	}
	// Delta is a distance in CSS pixels.
	Delta struct {
		DX int64 `json:"dx"`
		DY int64 `json:"dy"`
	}
	// ScrollResult echoes what was asked for.
	ScrollResult struct {
		Scrolled Delta  `json:"scrolled"`
		URL      string `json:"url"`
	}
	// ScreenshotResult holds a PNG; Bytes counts it before base64.
	ScreenshotResult struct {
		Format string `json:"format"` // "png"
		Bytes  int    `json:"bytes"`
		Base64 string `json:"base64"`
	}
	// PDFResult holds a PDF; Bytes counts it before base64.
	PDFResult struct {
		Format string `json:"format"` // "pdf"
		Bytes  int    `json:"bytes"`
		Base64 string `json:"base64"`
	}
	// EvalResult holds any JSON value.
	EvalResult struct {
		Result jsontext.Value `json:"result"`
	}
	// ConsoleResult holds the last lines of the active tab.
	ConsoleResult struct {
		Count int      `json:"count"`
		Lines []string `json:"lines"`
	}
	// SourceResult holds the document; Bytes counts the UTF-8 bytes of HTML.
	SourceResult struct {
		URL   string `json:"url"`
		Bytes int    `json:"bytes"`
		HTML  string `json:"html"`
	}
	// SwitchResult names the tab that is active now.
	SwitchResult struct {
		Active string `json:"active"`
	}
	// CloseResult says that the browser is closed.
	CloseResult struct {
		Closed bool `json:"closed"` // true, always
	}
	// FailureResult is the whole result of an action that failed:
	// BROWSER_SCOPE_DENIED or BROWSER_ACTION_FAILED.
	FailureResult struct {
		Error refusal.Code `json:"error"`
	}
)

// Failure answers the code of a result that is exactly {"error": CODE}, or "".
// A result of eval_js can't be mistaken for one: its value stands under
// "result".
func Failure(result []byte) refusal.Code {
	body, err := DecodeErrorBody(result)
	if err != nil || body.Error != refusal.BrowserScopeDenied && body.Error != refusal.BrowserActionFailed {
		return ""
	}
	return body.Error
}
