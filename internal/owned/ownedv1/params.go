package ownedv1

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// Action is one action with its parameters decoded and its defaults applied.
type Action interface {
	Name() string // the action's name on the wire
}

// Default time limits of section 1, in milliseconds. A limit of 0, or one beyond
// the request's deadline, means the deadline.
const (
	DefaultGotoTimeoutMS  = 30_000
	DefaultInputTimeoutMS = 15_000
)

// The parameters of the thirteen actions. They marshal to the action's params.
type (
	Launch struct {
		Headless bool `json:"headless"` // default true
	}
	Goto struct {
		URL       string `json:"url"`
		TimeoutMS int64  `json:"timeout_ms"`
	}
	Click struct {
		Selector  string `json:"selector"`
		TimeoutMS int64  `json:"timeout_ms"`
	}
	Type struct {
		Selector  string `json:"selector"`
		Text      string `json:"text"`
		DelayMS   int64  `json:"delay_ms"` // waited after typing
		TimeoutMS int64  `json:"timeout_ms"`
	}
	Scroll struct { // CSS pixels, relative
		DX int64 `json:"dx"`
		DY int64 `json:"dy"`
	}
	Screenshot struct {
		FullPage bool `json:"full_page"`
	}
	EvalJS struct {
		Expression string `json:"expression"`
	}
	ConsoleLogs struct {
		Clear bool `json:"clear"`
	}
	PageSource struct{}
	PDF        struct{}
	ListTabs   struct{}
	SwitchTab  struct {
		TabID string `json:"tab_id"`
	}
	Close struct{}
)

func (Launch) Name() string      { return ActionLaunch }
func (Goto) Name() string        { return ActionGoto }
func (Click) Name() string       { return ActionClick }
func (Type) Name() string        { return ActionType }
func (Scroll) Name() string      { return ActionScroll }
func (Screenshot) Name() string  { return ActionScreenshot }
func (EvalJS) Name() string      { return ActionEvalJS }
func (ConsoleLogs) Name() string { return ActionConsoleLogs }
func (PageSource) Name() string  { return ActionPageSource }
func (PDF) Name() string         { return ActionPDF }
func (ListTabs) Name() string    { return ActionListTabs }
func (SwitchTab) Name() string   { return ActionSwitchTab }
func (Close) Name() string       { return ActionClose }

// DecodeParams reads the params of an action: nothing is coerced, unknown names
// are skipped and absent ones get the spec's default. The answer is a value (not
// a pointer) of one of the thirteen types. A fault is a *Bad with the code
// BROWSER_ACTION_FAILED that names the parameter; an unknown action is one too.
func DecodeParams(action string, raw []byte) (Action, error) {
	a, err := decodeParams(action, raw)
	if err != nil {
		return nil, badAnswer(refusal.BrowserActionFailed, err)
	}
	return a, nil
}

// EncodeParams marshals an action's parameters for a request. Text that isn't
// valid UTF-8, and parameters that no message can hold, are a *Bad with the code
// BROWSER_ACTION_FAILED.
func EncodeParams(a Action) (jsontext.Value, error) {
	data, err := json.Marshal(a)
	if err == nil && len(data) <= MaxResult {
		return data, nil
	}
	why := "don't fit in one message"
	if err != nil {
		why = "aren't valid UTF-8"
	}
	return nil, &Bad{Code: refusal.BrowserActionFailed, Field: "params", Why: why}
}

func decodeParams(action string, raw []byte) (Action, error) {
	read := func(members ...member) error { return decode(raw, lenient, members...) }
	limit := func(into *int64) member { return integer("timeout_ms", into, 0, MaxSequence).or() }
	pixels := func(name string, into *int64) member {
		return integer(name, into, -MaxSequence, MaxSequence).or()
	}
	switch action {
	case ActionLaunch:
		a := Launch{Headless: true}
		err := read(boolean("headless", &a.Headless).or())
		return a, err
	case ActionGoto:
		a := Goto{TimeoutMS: DefaultGotoTimeoutMS}
		err := read(str("url", &a.URL, nil), limit(&a.TimeoutMS))
		return a, err
	case ActionClick:
		a := Click{TimeoutMS: DefaultInputTimeoutMS}
		err := read(str("selector", &a.Selector, nil), limit(&a.TimeoutMS))
		return a, err
	case ActionType:
		a := Type{TimeoutMS: DefaultInputTimeoutMS}
		err := read(str("selector", &a.Selector, nil), str("text", &a.Text, nil),
			integer("delay_ms", &a.DelayMS, 0, MaxSequence).or(), limit(&a.TimeoutMS))
		return a, err
	case ActionScroll:
		var a Scroll
		err := read(pixels("dx", &a.DX), pixels("dy", &a.DY))
		return a, err
	case ActionScreenshot:
		var a Screenshot
		err := read(boolean("full_page", &a.FullPage).or())
		return a, err
	case ActionEvalJS:
		var a EvalJS
		err := read(str("expression", &a.Expression, nil))
		return a, err
	case ActionConsoleLogs:
		var a ConsoleLogs
		err := read(boolean("clear", &a.Clear).or())
		return a, err
	case ActionSwitchTab:
		var a SwitchTab
		err := read(str("tab_id", &a.TabID, nil))
		return a, err
	case ActionPageSource:
		return PageSource{}, read()
	case ActionPDF:
		return PDF{}, read()
	case ActionListTabs:
		return ListTabs{}, read()
	case ActionClose:
		return Close{}, read()
	}
	return nil, &fault{"action", "isn't one of the thirteen"}
}
