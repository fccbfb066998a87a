package browser

import (
	"io"
	"io/fs"
	"time"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/scope"
)

// DialogMode says what becomes of a page's dialogs.
type DialogMode string

const (
	// DialogsDismiss dismisses each dialog at once. The zero mode means it.
	DialogsDismiss DialogMode = "dismiss"
	// DialogsAccept accepts each at once, a prompt with its default.
	DialogsAccept DialogMode = "accept"
	// DialogsHold leaves each open until AnswerDialog; other actions fail with
	// dialog_open meanwhile. A "Leave this page?" is accepted in every mode.
	DialogsHold DialogMode = "hold"
)

// Config is what a browser is opened with. Conn and Scope are required.
type Config struct {
	Conn    io.ReadWriteCloser // the engine's debugging pipe; Close closes it
	Scope   *scope.Scope
	Record  func(scope.Record) // of each decision; called while the pipe is read, so it mustn't block
	Timeout time.Duration      // of an action whose context has no deadline; 0: 30 s
	Dialogs DialogMode

	Uploads     fs.FS  // the host's folder; nil: no uploads, no state from a file
	Files       Files  // the box's files; nil: no uploads, no downloads
	Saving      Saver  // nil: downloads are denied
	DownloadDir string // in the box, where the engine may write; needed with Saving
	MaxResult   int    // bytes of one result as JSON; 0: what fits in an owned-browser-v1 answer
}

// Files reads and writes files inside the box. The paths are the box's own.
type Files interface {
	WriteFile(name string, r io.Reader) (path string, err error)
	OpenFile(path string) (io.ReadCloser, error) // no symlinks, beneath its folder
	RemoveFile(path string) error
}

// Saver takes finished downloads out of the box. Save returns the name that the
// file was saved under; the suggested one is the page's and can't be trusted.
type Saver interface {
	Save(suggested string, r io.Reader) (saved string, err error)
}

// Answer is what an action has achieved.
type Answer struct {
	Result any   // one of ownedv1's results, or one of section 6; it marshals to exactly its keys
	Notes  Notes // what else is to be told; never part of a wire result
}

// Notes is what happened beside an action, since the answer before.
type Notes struct {
	Tab          string     `json:"tab,omitzero"`           // the tab acted on
	Dialogs      []Dialog   `json:"dialogs,omitempty"`      // at most 20
	NewTabs      []string   `json:"new_tabs,omitempty"`     // in the order they came
	GoneTabs     []string   `json:"gone_tabs,omitempty"`    // closed or crashed
	TabsRefused  int        `json:"tabs_refused,omitzero"`  // popups over the limit, closed at once
	Downloads    []Download `json:"downloads,omitempty"`    // at most 20
	Blocked      []Blocked  `json:"blocked,omitempty"`      // at most 100 hosts and rules
	FontsPending bool       `json:"fonts_pending,omitzero"` // the shot didn't wait for a font
	Reformatted  bool       `json:"reformatted,omitzero"`   // the page changed what was typed
}

// Dialog is one dialog of a page. Message and Default are the page's text, cut
// to 1,000 bytes each.
type Dialog struct {
	Tab     string `json:"tab"`
	Type    string `json:"type"` // alert, confirm, prompt or beforeunload
	Message string `json:"message"`
	Default string `json:"default,omitzero"`
	Outcome string `json:"outcome"` // dismissed, accepted or open
}

// Download is one file that a page offered.
type Download struct {
	ID    string `json:"id"`
	Tab   string `json:"tab,omitzero"`
	Name  string `json:"name"`           // as the site suggested, cut to 255 bytes
	Size  int64  `json:"size"`           // bytes announced or received; -1: not known
	State string `json:"state"`          // refused, started, saved or failed
	Saved string `json:"saved,omitzero"` // the name it was saved under
}

// Blocked counts requests that the scope denied for one host and rule.
type Blocked struct {
	Host  string `json:"host"`
	Rule  string `json:"rule"`
	Count int    `json:"count"`
}

// resultBytes is the largest result as JSON: a wire answer less its envelope.
const resultBytes = ownedv1.MaxMessage - 4<<10
