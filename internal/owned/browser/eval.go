package browser

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

//go:embed convert.js
var convertText string

// convert is convert.js without its comment: the engine wants a function first.
var convert = convertText[strings.Index(convertText, "function"):]

// evalGroup holds the handles of eval_js until its answer.
const evalGroup = "eval"

// evalJS evaluates in the page's main world. A primitive takes one round trip; a
// function, a promise or an object a second one, which converts it in the page.
func evalJS(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	on.sent = true
	value, err := on.value(ctx, t, a.(ownedv1.EvalJS).Expression)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t.settleScript(ctx)
	if d, found := t.deniedSince(started); found {
		return nil, denied(d)
	}
	return value, err
}

// run calls into the page's own world. The call stays known until it is answered,
// so that a stop can tell whether the script has ended.
func (on *act) run(ctx context.Context, s *session, method string, params, result any) error {
	on.script = s.b.conn.begin(s.id, method, params)
	select {
	case a := <-on.script:
		on.script = nil
		return finish(method, a.result, a.err, result)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// value evaluates and converts.
func (on *act) value(ctx context.Context, t *tab, expression string) (any, error) {
	limit := on.b.resultLimit()
	r, err := on.evaluate(ctx, t, expression)
	if err != nil {
		return nil, err
	}
	if r.ObjectID == "" || r.Type == "symbol" {
		return primitive(r, limit)
	}
	text, err := on.convert(ctx, t, r.ObjectID, limit)
	t.s.post(runtime.ReleaseObjectGroup.Method, runtime.ReleaseObjectGroupParams{ObjectGroup: evalGroup})
	if err != nil {
		return nil, err
	}
	return converted(text)
}

// scriptNavigation is how long eval_js waits for a navigation that its script has
// asked for, so that the next action meets the new page. The value is there
// already, so more time is no error.
const scriptNavigation = time.Second

func (t *tab) settleScript(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, scriptNavigation)
	defer cancel()
	// The renderer tells of its wish before it answers the call.
	_ = t.b.until(ctx, func() bool { return t.main().nav == nil })
}

// evaluate runs the expression. One that starts with a brace is first tried as an
// object literal, as the developer tools do; a syntax error has run nothing.
func (on *act) evaluate(ctx context.Context, t *tab, expression string) (*runtime.RemoteObject, error) {
	tries := []string{expression}
	if trimmed := strings.TrimSpace(expression); strings.HasPrefix(trimmed, "{") && strings.HasSuffix(trimmed, "}") {
		tries = []string{"(" + trimmed + ")", expression}
	}
	var err error
	for _, text := range tries {
		repl := true // lets top-level await and a second `let` of one name pass
		var r runtime.EvaluateResult
		failed := on.run(ctx, t.s, runtime.Evaluate.Method, runtime.EvaluateParams{
			Expression: text, ReplMode: &repl, AwaitPromise: &repl, UserGesture: &repl, ObjectGroup: evalGroup,
		}, &r)
		switch {
		case documentGone(failed):
			return nil, errDestroyed
		case failed != nil:
			return nil, failed
		case r.ExceptionDetails != nil:
			if err = threw(r.ExceptionDetails); isSyntax(r.ExceptionDetails) {
				continue
			}
			return nil, err
		case r.Result == nil:
			return nil, refusal.Malformed
		}
		return r.Result, nil
	}
	return nil, err
}

func (on *act) convert(ctx context.Context, t *tab, id runtime.RemoteObjectID, limit int) (string, error) {
	yes := true
	var r runtime.CallFunctionOnResult
	err := on.run(ctx, t.s, runtime.CallFunctionOn.Method, runtime.CallFunctionOnParams{
		FunctionDeclaration: convert, ObjectID: id, ReturnByValue: &yes, AwaitPromise: &yes, UserGesture: &yes,
		Arguments: []*runtime.CallArgument{{Value: jsonNumber(limit)}},
	}, &r)
	switch {
	case documentGone(err):
		return "", errDestroyed
	case err != nil:
		return "", err
	case r.ExceptionDetails != nil:
		return "", threw(r.ExceptionDetails)
	case r.Result == nil:
		return "", refusal.Malformed
	}
	var text string
	if err := json.Unmarshal(r.Result.Value, &text, lenientText); err != nil {
		return "", refusal.Malformed
	}
	return text, nil
}

func jsonNumber(n int) jsontext.Value {
	v, err := json.Marshal(n)
	if err != nil {
		panic(err) // an int is always JSON
	}
	return v
}

// converted reads what convert.js answers.
func converted(text string) (any, error) {
	value, ok := strings.CutPrefix(text, "ok:")
	switch {
	case ok && jsontext.Value(value).IsValid():
		return ownedv1.EvalResult{Result: jsontext.Value(value)}, nil
	case text == "too_large":
		return nil, failed(refusal.TooLarge, "the value is over the limit of a result; return less")
	case text == "cycle":
		return nil, failed(refusal.Failed, "the value refers to itself; return the parts that matter")
	case text == "too_deep":
		return nil, failed(refusal.TooDeep, "the value is nested over 200 deep")
	}
	return nil, failed(refusal.Failed, "the page's value is no JSON")
}

// primitive converts a value that isn't an object.
func primitive(r *runtime.RemoteObject, limit int) (any, error) {
	null := jsontext.Value("null")
	switch r.Type {
	case "bigint":
		digits, err := json.Marshal(strings.TrimSuffix(string(r.UnserializableValue), "n"))
		return ownedv1.EvalResult{Result: digits}, err
	case "string", "number", "boolean", "object":
		if len(r.Value) == 0 { // NaN, an infinity
			if r.UnserializableValue == "-0" {
				return ownedv1.EvalResult{Result: jsontext.Value("0")}, nil
			}
			return ownedv1.EvalResult{Result: null}, nil
		}
		if len(r.Value) > limit {
			return nil, failed(refusal.TooLarge, "the value is over the limit of a result; return less")
		}
		value, err := wellFormed(r.Value)
		return ownedv1.EvalResult{Result: value}, err
	}
	return ownedv1.EvalResult{Result: null}, nil
}

// wellFormed writes a value anew, with U+FFFD for what isn't Unicode.
func wellFormed(v jsontext.Value) (jsontext.Value, error) {
	if v.IsValid() {
		return v, nil
	}
	var any any
	if err := json.Unmarshal(v, &any, lenientText); err != nil {
		return nil, refusal.Malformed
	}
	return json.Marshal(any)
}

// knownErrors are the names of the language; any other would be the page's text.
var knownErrors = []string{
	"SyntaxError", "TypeError", "ReferenceError", "RangeError", "EvalError", "URIError", "AggregateError",
	"DOMException", "Error",
}

func threw(e *runtime.ExceptionDetails) error {
	name := "a value"
	if e.Exception != nil {
		for _, known := range knownErrors {
			if e.Exception.ClassName == known {
				name = known
				break
			}
		}
	}
	return failed(refusal.Failed, "the expression threw %s (line %d, column %d)", name, e.LineNumber+1, e.ColumnNumber+1)
}

func isSyntax(e *runtime.ExceptionDetails) bool {
	return e.Exception != nil && e.Exception.ClassName == "SyntaxError"
}

func (b *Browser) resultLimit() int {
	if b.config.MaxResult > 0 {
		return b.config.MaxResult
	}
	return resultBytes
}
