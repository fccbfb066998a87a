package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
)

// step is one action of `chaperone browse`.
type step struct {
	action ownedv1.Action
	told   string // what the step is about, for a person: a URL, a selector
	name   string // the file that a screenshot or PDF is saved as; "" for one of its own
}

// grammar is what a step may be, as help and errors show it.
const grammar = "goto=URL click=SELECTOR type=SELECTOR=TEXT scroll=DX,DY js=EXPRESSION screenshot[=NAME.png] pdf[=NAME.pdf] " +
	"source console tabs tab=ID wait=SELECTOR snapshot"

// stepWords is how each step begins, "=" included where something must follow.
func stepWords() []string {
	var words []string
	for _, form := range strings.Fields(grammar) {
		word, _, optional := strings.Cut(form, "[")
		if name, _, ok := strings.Cut(word, "="); ok && !optional {
			word = name + "="
		}
		words = append(words, word)
	}
	return words
}

// parseSteps reads steps as arguments. An error names the step by its number.
func parseSteps(args []string) ([]step, error) {
	steps := make([]step, len(args))
	for i, arg := range args {
		s, err := parseStep(arg)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w\nSteps are: %s", i+1, err, grammar)
		}
		steps[i] = s
	}
	return steps, nil
}

// parseStep reads one step: its word, and what follows the first "=".
func parseStep(arg string) (step, error) {
	word, rest, given := strings.Cut(arg, "=")
	need := func(what string, a ownedv1.Action) (step, error) {
		if rest == "" {
			return step{}, fmt.Errorf("%s needs %s: %s=%s", word, what, word, what)
		}
		return step{action: a, told: rest}, nil
	}
	none := func(a ownedv1.Action) (step, error) {
		if given {
			return step{}, fmt.Errorf("%s takes nothing after it", word)
		}
		return step{action: a}, nil
	}
	// A limit of 0 is the deadline of --timeout.
	switch word {
	case "goto":
		return need("URL", ownedv1.Goto{URL: rest})
	case "click":
		return need("SELECTOR", ownedv1.Click{Selector: rest, TimeoutMS: ownedv1.DefaultInputTimeoutMS})
	case "type":
		return parseType(rest)
	case "scroll":
		return parseScroll(rest)
	case "js":
		return need("EXPRESSION", ownedv1.EvalJS{Expression: rest})
	case "screenshot":
		return named(ownedv1.Screenshot{}, rest, given, ".png")
	case "pdf":
		return named(ownedv1.PDF{}, rest, given, ".pdf")
	case "tab":
		return need("ID", ownedv1.SwitchTab{TabID: rest})
	case "wait":
		return need("SELECTOR", browser.WaitFor{Selector: rest})
	case "source":
		return none(ownedv1.PageSource{})
	case "console":
		return none(ownedv1.ConsoleLogs{})
	case "tabs":
		return none(ownedv1.ListTabs{})
	case "snapshot":
		return none(browser.Snapshot{})
	}
	return step{}, fmt.Errorf("%q is no step", word)
}

func parseType(rest string) (step, error) {
	selector, text, ok := splitSelector(rest)
	if !ok || selector == "" {
		return step{}, errors.New("type needs a selector and a text: type=SELECTOR=TEXT, where the selector ends at the first = outside brackets, quotes and parentheses")
	}
	return step{
		action: ownedv1.Type{Selector: selector, Text: text, TimeoutMS: ownedv1.DefaultInputTimeoutMS},
		told:   selector,
	}, nil
}

// splitSelector cuts SELECTOR=TEXT at the first "=" that is outside brackets,
// quotes and parentheses and isn't escaped. "ref=e12" is one selector.
func splitSelector(s string) (selector, text string, ok bool) {
	from := 0
	if strings.HasPrefix(s, "ref=") {
		from = len("ref=")
	}
	depth := 0
	quote := byte(0)
	for i := from; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++ // what follows is part of a name or string, whatever it is
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '(':
			depth++
		case c == ']' || c == ')':
			depth--
		case c == '=' && depth <= 0:
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

func parseScroll(rest string) (step, error) {
	dx, dy, ok := strings.Cut(rest, ",")
	x, errX := strconv.ParseInt(strings.TrimSpace(dx), 10, 32)
	y, errY := strconv.ParseInt(strings.TrimSpace(dy), 10, 32)
	if !ok || errX != nil || errY != nil {
		return step{}, errors.New("scroll needs two integers in CSS pixels: scroll=DX,DY")
	}
	return step{action: ownedv1.Scroll{DX: x, DY: y}, told: rest}, nil
}

// named is a step that saves a file. A name is bare, so that nothing is written
// outside --out.
func named(a ownedv1.Action, name string, given bool, suffix string) (step, error) {
	switch {
	case !given:
		return step{action: a}, nil
	case name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "\\\x00"):
		return step{}, fmt.Errorf("a file's name has no folder and no leading dot: %s=NAME%s (--out DIR says where)", a.Name(), suffix)
	case !strings.HasSuffix(name, suffix):
		return step{}, fmt.Errorf("the file's name must end in %s", suffix)
	}
	return step{action: a, told: name, name: name}, nil
}

// parseStepsFile reads [{"action":…,"params":{…}}] with the thirteen actions.
func parseStepsFile(data []byte) ([]step, error) {
	var list []struct {
		Action string         `json:"action"`
		Params jsontext.Value `json:"params"`
	}
	if err := json.Unmarshal(data, &list, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("not a list of {\"action\":…,\"params\":{…}}: %s", whereIn(data, err))
	}
	if len(list) == 0 {
		return nil, errors.New("there are no steps in it")
	}
	steps := make([]step, len(list))
	for i, item := range list {
		params := item.Params
		if params == nil {
			params = jsontext.Value("{}")
		}
		a, err := ownedv1.DecodeParams(item.Action, params)
		if err != nil {
			return nil, fmt.Errorf("step %d: %s\nActions are: %s", i+1, paramFault(item.Action, err), strings.Join(ownedv1.Actions, " "))
		}
		steps[i] = step{action: a, told: telling(a)}
	}
	return steps, nil
}

// whereIn words where a file's JSON is wrong by line and column.
func whereIn(data []byte, err error) string {
	offset := int64(-1)
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.ByteOffset
	case errors.As(err, &semantic):
		offset = semantic.ByteOffset
	}
	if offset < 0 || offset > int64(len(data)) {
		return err.Error()
	}
	before := string(data[:offset])
	line := strings.Count(before, "\n") + 1
	column := len(before) - strings.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d, column %d: %v", line, column, err)
}

// paramFault names the action and the parameter that is wrong.
func paramFault(action string, err error) string {
	var bad *ownedv1.Bad
	if errors.As(err, &bad) && bad.Field != "" && bad.Field != "action" {
		return fmt.Sprintf("%s: parameter %q is missing or has the wrong type", action, bad.Field)
	}
	return fmt.Sprintf("%q is no action", action)
}

// telling is the part of an action that a person wants to see beside its name.
func telling(a ownedv1.Action) string {
	switch a := a.(type) {
	case ownedv1.Goto:
		return a.URL
	case ownedv1.Click:
		return a.Selector
	case ownedv1.Type:
		return a.Selector
	case ownedv1.Scroll:
		return fmt.Sprintf("%d,%d", a.DX, a.DY)
	case ownedv1.EvalJS:
		return a.Expression
	case ownedv1.SwitchTab:
		return a.TabID
	}
	return ""
}
