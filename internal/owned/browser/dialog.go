package browser

import (
	"context"

	"github.com/chromedp/cdproto/page"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

const maxDialogText = 1000

// dialogOpened settles a dialog at once, as the mode says, without asking
// anybody: a page that shows one stands still. "Leave this page?" is accepted in
// every mode, or no navigation would ever end.
func dialogOpened(s *session, e page.EventJavascriptDialogOpening) {
	t := s.tab
	if t == nil {
		s.post(page.HandleJavaScriptDialog.Method, page.HandleJavaScriptDialogParams{})
		return
	}
	d := Dialog{
		Tab: t.name, Type: string(e.Type), Message: cutText(e.Message, maxDialogText),
		Default: cutText(e.DefaultPrompt, maxDialogText), Outcome: "dismissed",
	}
	t.console.add("dialog", d.Type+": "+d.Message)
	accept := e.Type == page.DialogTypeBeforeunload || s.b.dialogs == DialogsAccept
	if accept {
		d.Outcome = "accepted"
	}
	if !accept && s.b.dialogs == DialogsHold {
		d.Outcome = "open"
		t.dialog, t.dialogS = &d, s
		s.b.notes.Dialogs = keep(s.b.notes.Dialogs, d, 20)
		if t.acting != nil {
			t.acting.cancel(refusal.DialogOpen) // it would stand still as the page does
		}
		s.b.wake()
		return
	}
	answer := page.HandleJavaScriptDialogParams{Accept: accept}
	if accept {
		answer.PromptText = e.DefaultPrompt
	}
	s.post(page.HandleJavaScriptDialog.Method, answer)
	s.b.notes.Dialogs = keep(s.b.notes.Dialogs, d, 20)
	s.b.wake()
}

func dialogClosed(s *session, _ page.EventJavascriptDialogClosed) {
	if s.tab != nil && s.tab.dialogS == s {
		s.tab.dialog, s.tab.dialogS = nil, nil
		s.b.wake()
	}
}

// DialogModeResult answers SetDialogs.
type DialogModeResult struct {
	Mode DialogMode `json:"mode"`
}

// AnsweredResult answers AnswerDialog.
type AnsweredResult struct {
	Answered Dialog `json:"answered"`
}

// setDialogs takes no turn: it must work while an action is stuck.
func setDialogs(_ context.Context, on *act, a ownedv1.Action) (any, error) {
	mode := a.(SetDialogs).Mode
	switch mode {
	case DialogsDismiss, DialogsAccept, DialogsHold:
	default:
		return nil, failed(refusal.Failed, "mode is one of dismiss, accept, hold")
	}
	on.b.mu.Lock()
	defer on.b.mu.Unlock()
	on.b.dialogs = mode
	return DialogModeResult{mode}, nil
}

// answerDialog settles a held dialog. It takes no turn either, so it is never
// queued behind the call that is stuck on the dialog.
func answerDialog(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	b := on.b
	b.mu.Lock()
	var held *tab
	for _, t := range b.tabs {
		if t.dialog != nil && (held == nil || t == b.active) {
			held = t
		}
	}
	var d Dialog
	var s *session
	if held != nil {
		d, s = *held.dialog, held.dialogS
	}
	b.mu.Unlock()
	if held == nil {
		return nil, failed(refusal.NotFound, "no dialog is open")
	}
	p := a.(AnswerDialog)
	on.sent = true
	err := s.Call(ctx, page.HandleJavaScriptDialog.Method,
		page.HandleJavaScriptDialogParams{Accept: p.Accept, PromptText: p.Text}, nil)
	if err != nil {
		return nil, err
	}
	d.Outcome = "dismissed"
	if p.Accept {
		d.Outcome = "accepted"
	}
	b.mu.Lock()
	held.dialog, held.dialogS = nil, nil
	b.wake()
	b.mu.Unlock()
	return AnsweredResult{d}, nil
}
