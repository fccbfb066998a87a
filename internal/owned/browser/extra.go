package browser

import "github.com/go-json-experiment/json/jsontext"

// Limits of section 6's answers.
const (
	DefaultSnapshotBytes = 64 << 10 // of Snapshot.MaxBytes 0
	MaxSnapshotBytes     = 1 << 20
	MaxNetworkLog        = 500     // requests kept for one tab
	MaxPageToolBytes     = 4 << 10 // of a page tool's fenced text
	MaxUploadBytes       = 64 << 20
	MaxStateBytes        = 4 << 20
)

// The actions of section 6. They are no part of owned-browser-v1: only the MCP,
// CLI and REST surfaces offer them. Where an action takes a selector it takes a
// CSS selector or a reference of a snapshot, "ref=e12".
type (
	// Snapshot asks for the page as indented lines `role "name" [ref=e12]`.
	Snapshot struct {
		Interactive bool   `json:"interactive,omitzero"` // only what can be acted on
		MaxBytes    int    `json:"max_bytes,omitzero"`   // 0: DefaultSnapshotBytes
		After       string `json:"after,omitzero"`       // "e80": go on behind that reference
	}
	// WaitFor waits until exactly one condition holds: a selector's state, a text
	// in the page, or the tab's URL.
	WaitFor struct {
		Selector  string `json:"selector,omitzero"`
		State     string `json:"state,omitzero"` // visible (default), hidden, attached or detached
		Text      string `json:"text,omitzero"`  // visible text, white space collapsed
		URL       string `json:"url,omitzero"`   // a glob: * within a segment, ** across
		TimeoutMS int64  `json:"timeout_ms,omitzero"`
	}
	// Press presses one key or chord, in the focused element or in Selector.
	Press struct {
		Key       string `json:"key"` // "Enter", "Control+A", "Shift+Tab", "x"
		Selector  string `json:"selector,omitzero"`
		TimeoutMS int64  `json:"timeout_ms,omitzero"`
	}
	// SelectOption selects exactly these options of a select, by value or label.
	SelectOption struct {
		Selector  string   `json:"selector"`
		Values    []string `json:"values"`
		TimeoutMS int64    `json:"timeout_ms,omitzero"`
	}
	// Upload puts files of the host's own folder into a file input. A name is
	// bare: no folder, no path.
	Upload struct {
		Selector  string   `json:"selector"`
		Files     []string `json:"files"`
		TimeoutMS int64    `json:"timeout_ms,omitzero"`
	}
	// Downloads lists the run's downloads, the refused ones too.
	Downloads struct{}
	// SaveDownload saves one of them into the host's folder.
	SaveDownload struct {
		ID string `json:"id"`
	}
	// SetDialogs chooses what becomes of the dialogs that follow.
	SetDialogs struct {
		Mode DialogMode `json:"mode"` // dismiss, accept or hold
	}
	// AnswerDialog settles a held dialog.
	AnswerDialog struct {
		Accept bool   `json:"accept"`
		Text   string `json:"text,omitzero"` // of a prompt
	}
	// NetworkLog lists the active tab's last requests.
	NetworkLog struct {
		Clear bool `json:"clear,omitzero"`
	}
	// Frames lists the active tab's frames.
	Frames struct{}
	// PageTools lists the tools that the page registered (WebMCP).
	PageTools struct{}
	// CallPageTool runs one of them.
	CallPageTool struct {
		Tool      string         `json:"tool"`
		Frame     string         `json:"frame,omitzero"` // of page_tools; needed where two frames have the name
		Arguments jsontext.Value `json:"arguments,omitzero"`
		TimeoutMS int64          `json:"timeout_ms,omitzero"`
	}
	// ImportState sets cookies and storage from File, a bare name in the host's
	// folder, or from State itself.
	ImportState struct {
		File  string         `json:"file,omitzero"`
		State jsontext.Value `json:"state,omitzero"`
	}
	// CloseTab closes one tab; "" is the active one.
	CloseTab struct {
		TabID string `json:"tab_id,omitzero"`
	}
)

// The names of section 6's actions, as a scope's "actions" and the surfaces
// write them.
const (
	ActionSnapshot     = "snapshot"
	ActionWaitFor      = "wait_for"
	ActionPress        = "press"
	ActionSelectOption = "select_option"
	ActionUpload       = "upload"
	ActionDownloads    = "downloads"
	ActionSaveDownload = "download"
	ActionSetDialogs   = "dialogs"
	ActionAnswerDialog = "answer_dialog"
	ActionNetworkLog   = "network_log"
	ActionFrames       = "frames"
	ActionPageTools    = "page_tools"
	ActionCallPageTool = "call_page_tool"
	ActionImportState  = "import_state"
	ActionCloseTab     = "close_tab"
)

// Extra lists the names of section 6's actions.
var Extra = []string{
	ActionSnapshot, ActionWaitFor, ActionPress, ActionSelectOption, ActionUpload, ActionDownloads, ActionSaveDownload,
	ActionSetDialogs, ActionAnswerDialog, ActionNetworkLog, ActionFrames, ActionPageTools, ActionCallPageTool,
	ActionImportState, ActionCloseTab,
}

func (Snapshot) Name() string     { return ActionSnapshot }
func (WaitFor) Name() string      { return ActionWaitFor }
func (Press) Name() string        { return ActionPress }
func (SelectOption) Name() string { return ActionSelectOption }
func (Upload) Name() string       { return ActionUpload }
func (Downloads) Name() string    { return ActionDownloads }
func (SaveDownload) Name() string { return ActionSaveDownload }
func (SetDialogs) Name() string   { return ActionSetDialogs }
func (AnswerDialog) Name() string { return ActionAnswerDialog }
func (NetworkLog) Name() string   { return ActionNetworkLog }
func (Frames) Name() string       { return ActionFrames }
func (PageTools) Name() string    { return ActionPageTools }
func (CallPageTool) Name() string { return ActionCallPageTool }
func (ImportState) Name() string  { return ActionImportState }
func (CloseTab) Name() string     { return ActionCloseTab }
