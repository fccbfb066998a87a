package browser

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// Bounds of section 6's parameters.
const (
	maxSelector = 4 << 10
	maxNames    = 100 // values of a select, files of an upload
	maxLimitMS  = 24 * 3600 * 1000
)

// DecodeExtra reads the params of one of section 6's actions, strictly: an
// unknown, duplicate or case-folded name, null, a fraction in an integer's place
// and trailing data are refused. Empty params mean {}. The error is a *Failure
// that names the parameter and how to write it; it repeats no value.
func DecodeExtra(action string, raw []byte) (ownedv1.Action, error) {
	read, known := decoders[action]
	if !known {
		return nil, failed(refusal.Failed, "no such action")
	}
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if len(raw) > ownedv1.MaxMessage {
		return nil, failed(refusal.TooLarge, "params are over %d MiB", ownedv1.MaxMessage>>20)
	}
	return read(raw)
}

var decoders = map[string]func([]byte) (ownedv1.Action, error){
	ActionSnapshot: as(func(a *Snapshot) string {
		return first(
			wrong(a.MaxBytes < 0 || a.MaxBytes > MaxSnapshotBytes, "max_bytes is 1 to 1048576; 0 means the default"),
			wrong(a.After != "" && !isRef(a.After), "after is a reference such as e80"),
		)
	}),
	ActionWaitFor: as(func(a *WaitFor) string {
		given := 0
		for _, s := range []string{a.Selector, a.Text, a.URL} {
			if s != "" {
				given++
			}
		}
		states := map[string]bool{"": true, "visible": true, "hidden": true, "attached": true, "detached": true}
		return first(
			wrong(given != 1, "give exactly one of selector, text and url"),
			wrong(!states[a.State], "state is one of visible, hidden, attached, detached"),
			wrong(a.State != "" && a.Selector == "", "state belongs to a selector"),
			wrong(len(a.Selector) > maxSelector || len(a.Text) > maxSelector || len(a.URL) > maxSelector, "a condition has at most 4096 bytes"),
			limitMS(a.TimeoutMS),
		)
	}),
	ActionPress: as(func(a *Press) string {
		_, ok := parseChord(a.Key)
		return first(
			wrong(!ok, "key is a key or a chord: Enter, Tab, ArrowDown, x, Control+A"),
			wrong(len(a.Selector) > maxSelector, "selector has at most 4096 bytes"), limitMS(a.TimeoutMS),
		)
	}),
	ActionSelectOption: as(func(a *SelectOption) string {
		return first(selector(a.Selector), wrong(a.Values == nil || len(a.Values) > maxNames, "values is a list of at most 100 values or labels"), limitMS(a.TimeoutMS))
	}),
	ActionUpload: as(func(a *Upload) string {
		for _, name := range a.Files {
			if bareName(name) != nil {
				return "files are bare names of files in the host's folder: no folder, no path"
			}
		}
		return first(selector(a.Selector), wrong(len(a.Files) == 0 || len(a.Files) > maxNames, "files is a list of 1 to 100 names"), limitMS(a.TimeoutMS))
	}),
	ActionDownloads:    as(func(*Downloads) string { return "" }),
	ActionSaveDownload: as(func(a *SaveDownload) string { return wrong(a.ID == "" || len(a.ID) > 128, "id is that of a download") }),
	ActionSetDialogs: as(func(a *SetDialogs) string {
		return wrong(a.Mode != DialogsDismiss && a.Mode != DialogsAccept && a.Mode != DialogsHold, "mode is one of dismiss, accept, hold")
	}),
	ActionAnswerDialog: as(func(a *AnswerDialog) string { return wrong(len(a.Text) > 64<<10, "text has at most 64 KiB") }),
	ActionNetworkLog:   as(func(*NetworkLog) string { return "" }),
	ActionFrames:       as(func(*Frames) string { return "" }),
	ActionPageTools:    as(func(*PageTools) string { return "" }),
	ActionCallPageTool: as(func(a *CallPageTool) string {
		_, err := toolArguments(a.Arguments)
		return first(
			wrong(!toolName(a.Tool), "tool is a name of page_tools"), wrong(len(a.Frame) > 128, "frame is an id of page_tools"),
			wrong(err != nil, "arguments is a JSON object of at most 64 KiB"), limitMS(a.TimeoutMS),
		)
	}),
	ActionImportState: as(func(a *ImportState) string {
		return first(
			wrong((a.File == "") == (a.State == nil), "give exactly one of file and state"),
			wrong(a.File != "" && bareName(a.File) != nil, "file is the bare name of a file in the host's folder"),
			wrong(a.State != nil && a.State.Kind() != '{', "state is an object {cookies, origins}"),
		)
	}),
	ActionCloseTab: as(func(a *CloseTab) string { return wrong(len(a.TabID) > 128, "tab_id is that of a tab") }),
}

// as reads params into an action and checks it: check answers what is wrong.
func as[A ownedv1.Action](check func(*A) string) func([]byte) (ownedv1.Action, error) {
	return func(raw []byte) (ownedv1.Action, error) {
		var a A
		if err := noNull(raw); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &a, json.RejectUnknownMembers(true)); err != nil {
			// The decoder's own words may quote a value.
			return nil, failed(refusal.Failed, "params of %s: a name that it doesn't take, a value of another type, or no strict JSON", a.Name())
		}
		if why := check(&a); why != "" {
			return nil, failed(refusal.Failed, "%s", why)
		}
		return a, nil
	}
}

// noNull refuses null in the place of a parameter, which decoding takes as its
// absence.
func noNull(raw []byte) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return failed(refusal.Failed, "params are one JSON object, without a name twice")
	}
	for _, v := range members {
		if v.Kind() == 'n' {
			return failed(refusal.Failed, "a parameter is null: leave it out instead")
		}
	}
	return nil
}

func first(whys ...string) string {
	for _, why := range whys {
		if why != "" {
			return why
		}
	}
	return ""
}

func wrong(is bool, why string) string {
	if is {
		return why
	}
	return ""
}

func selector(s string) string {
	return wrong(s == "" || len(s) > maxSelector, "selector is a CSS selector or a reference such as ref=e12")
}

func limitMS(ms int64) string {
	return wrong(ms < 0 || ms > maxLimitMS, fmt.Sprintf("timeout_ms is 0 to %d", maxLimitMS))
}

func isRef(s string) bool {
	if len(s) < 2 || len(s) > 16 || s[0] != 'e' {
		return false
	}
	for _, c := range s[1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
