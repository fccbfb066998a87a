package browser

import (
	"chaperone/internal/owned/ownedv1"
)

// extras are the handlers of click, type and section 6, each in a file of its
// own; see act.go for what a handler is.
var extras = map[string]handler{
	ownedv1.ActionClick: click,
	ownedv1.ActionType:  typeText,
	ActionPress:         pressKey,
	ActionSelectOption:  selectOption,
	ActionSnapshot:      snapshot,
	ActionWaitFor:       waitFor,
	ActionUpload:        upload,
	ActionNetworkLog:    networkLog,
	ActionPageTools:     pageTools,
	ActionCallPageTool:  callPageTool,
	ActionImportState:   importState,
	ActionFrames:        frames,
}

// timeoutMS answers an action's own time limit in milliseconds; 0 is none.
func timeoutMS(a ownedv1.Action) int64 {
	switch a := a.(type) {
	case ownedv1.Goto:
		return a.TimeoutMS
	case ownedv1.Click:
		return a.TimeoutMS
	case ownedv1.Type:
		return a.TimeoutMS
	case WaitFor:
		return a.TimeoutMS
	case Press:
		return a.TimeoutMS
	case SelectOption:
		return a.TimeoutMS
	case Upload:
		return a.TimeoutMS
	case CallPageTool:
		return a.TimeoutMS
	}
	return 0
}
