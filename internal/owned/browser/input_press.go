package browser

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/chromedp/cdproto/input"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// key is one key of a keyboard: what a page is told of it.
type key struct {
	name string // KeyboardEvent.key
	code string // KeyboardEvent.code
	vk   int64  // the Windows virtual key code, which pages see as keyCode
	text string // what it types, "" for none
}

// Modifier bits of the protocol.
const (
	alt     = 1
	control = 2
	meta    = 4
	shift   = 8
)

var modifiers = map[string]int64{"Alt": alt, "Control": control, "Ctrl": control, "Meta": meta, "Shift": shift}

var modifierKeys = []struct {
	bit int64
	key
}{
	{control, key{"Control", "ControlLeft", 17, ""}}, {shift, key{"Shift", "ShiftLeft", 16, ""}},
	{alt, key{"Alt", "AltLeft", 18, ""}}, {meta, key{"Meta", "MetaLeft", 91, ""}},
}

// keys are the named keys. What types one character is made by character.
var keys = map[string]key{
	"Enter":     {"Enter", "Enter", 13, "\r"},
	"Tab":       {"Tab", "Tab", 9, ""},
	"Space":     {" ", "Space", 32, " "},
	"Escape":    {"Escape", "Escape", 27, ""},
	"Backspace": {"Backspace", "Backspace", 8, ""},
	"Delete":    {"Delete", "Delete", 46, ""},
	"Insert":    {"Insert", "Insert", 45, ""},
	"Home":      {"Home", "Home", 36, ""}, "End": {"End", "End", 35, ""},
	"PageUp": {"PageUp", "PageUp", 33, ""}, "PageDown": {"PageDown", "PageDown", 34, ""},
	"ArrowLeft": {"ArrowLeft", "ArrowLeft", 37, ""}, "ArrowUp": {"ArrowUp", "ArrowUp", 38, ""},
	"ArrowRight": {"ArrowRight", "ArrowRight", 39, ""}, "ArrowDown": {"ArrowDown", "ArrowDown", 40, ""},
	"ContextMenu": {"ContextMenu", "ContextMenu", 93, ""},
	"F1":          {"F1", "F1", 112, ""}, "F2": {"F2", "F2", 113, ""}, "F3": {"F3", "F3", 114, ""},
	"F4": {"F4", "F4", 115, ""}, "F5": {"F5", "F5", 116, ""}, "F6": {"F6", "F6", 117, ""},
	"F7": {"F7", "F7", 118, ""}, "F8": {"F8", "F8", 119, ""}, "F9": {"F9", "F9", 120, ""},
	"F10": {"F10", "F10", 121, ""}, "F11": {"F11", "F11", 122, ""}, "F12": {"F12", "F12", 123, ""},
	"Control": modifierKeys[0].key, "Shift": modifierKeys[1].key, "Alt": modifierKeys[2].key, "Meta": modifierKeys[3].key,
}

// chord is one key pressed while modifiers are held.
type chord struct {
	held int64
	key  key
}

// parseChord reads "Enter", "x", "Control+A", "Control+Shift+ArrowLeft" or
// "Control++". Names are written as KeyboardEvent.key has them.
func parseChord(s string) (chord, bool) {
	var c chord
	for {
		name, rest, more := strings.Cut(s, "+")
		bit, held := modifiers[name]
		if !more || rest == "" || !held {
			break
		}
		if c.held&bit != 0 {
			return chord{}, false
		}
		c.held |= bit
		s = rest
	}
	if k, named := keys[s]; named {
		c.key = k
	} else if k, one := character(s); one {
		c.key = k
		if c.held&shift != 0 && c.key.text != "" {
			c.key.name = strings.ToUpper(c.key.name)
			c.key.text = c.key.name
		}
	} else {
		return chord{}, false
	}
	if c.held&(control|alt|meta) != 0 {
		c.key.text = "" // a shortcut types nothing
		if c.held&shift == 0 {
			c.key.name = lowered(c.key.name)
		}
	}
	return c, true
}

// lowered makes "Control+A" the key that a person presses for it.
func lowered(name string) string {
	if utf8.RuneCountInString(name) == 1 {
		return strings.ToLower(name)
	}
	return name
}

// character is the key that types one printable character.
func character(s string) (key, bool) {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 || size != len(s) || r == utf8.RuneError || !unicode.IsPrint(r) {
		return key{}, false
	}
	k := key{name: s, text: s}
	switch upper := unicode.ToUpper(r); {
	case upper >= 'A' && upper <= 'Z':
		k.code, k.vk = "Key"+string(upper), int64(upper)
	case r >= '0' && r <= '9':
		k.code, k.vk = "Digit"+s, int64(r)
	case r == ' ':
		k.code, k.vk = "Space", 32
	}
	return k, true
}

// press sends the events of a chord: its modifiers down, the key down and up, the
// modifiers up.
func (on *act) press(ctx context.Context, s *session, c chord) error {
	var events []any
	held := int64(0)
	event := func(kind input.DispatchKeyEventType, k key, text string) {
		events = append(events, input.DispatchKeyEventParams{
			Type: kind, Modifiers: held, Text: text, UnmodifiedText: text, Code: k.code, Key: k.name, WindowsVirtualKeyCode: k.vk,
		})
	}
	down := func(k key) {
		kind := input.DispatchKeyEventTypeRawKeyDown
		if k.text != "" {
			kind = input.DispatchKeyEventTypeKeyDown
		}
		event(kind, k, k.text)
	}
	for _, m := range modifierKeys {
		if c.held&m.bit != 0 {
			held |= m.bit
			down(m.key)
		}
	}
	down(c.key)
	event(input.DispatchKeyEventTypeKeyUp, c.key, "")
	for i := len(modifierKeys) - 1; i >= 0; i-- {
		if m := modifierKeys[i]; c.held&m.bit != 0 {
			held &^= m.bit
			event(input.DispatchKeyEventTypeKeyUp, m.key, "")
		}
	}
	return on.send(ctx, s, input.CommandDispatchKeyEvent, events...)
}

// PressResult answers Press.
type PressResult struct {
	Pressed string `json:"pressed"`
	URL     string `json:"url"`
}

// pressKey presses a chord in the focused element, or in one that it focuses.
func pressKey(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	p := a.(Press)
	c, ok := parseChord(p.Key)
	if !ok {
		return nil, failed(refusal.Failed, "no such key; write Enter, Tab, ArrowDown, x or a chord such as Control+A")
	}
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	s := t.s
	if p.Selector != "" {
		f, v, err := t.seek(ctx, p.Selector, "focusOn", func() []any { return []any{p.Selector, left(ctx)} })
		if err != nil {
			return nil, err
		}
		if !v.Done {
			return nil, missing(ctx, v)
		}
		s = f.process()
	}
	watch := t.beginNavigationWatch()
	on.sent = true
	if err := on.confirmed(ctx, watch, on.press(ctx, s, c)); err != nil {
		return nil, err
	}
	return PressResult{Pressed: p.Key, URL: t.mainURL()}, nil
}
