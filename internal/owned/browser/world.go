package browser

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// worldName is the isolated world's, as devtools would show it.
const worldName = "chaperone"

//go:embed page/*.js
var pageFiles embed.FS

// bundle is what every isolated world starts with: the files of page/ in one
// scope, so they see each other's names; what Go calls stands on `lib`.
var bundle = sync.OnceValue(func() string {
	var s strings.Builder
	s.WriteString("(() => { const lib = globalThis.lib = {};\n")
	// Reading our own embedded files fails only if the build is broken.
	names, err := fs.Glob(pageFiles, "page/*.js")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		text, err := pageFiles.ReadFile(name)
		if err != nil {
			panic(err)
		}
		s.Write(text)
	}
	s.WriteString("})()")
	return s.String()
})

// handle is an object that lives in a world, such as a node. Pass it to callIn of
// the same frame.
type handle struct{ id runtime.RemoteObjectID }

// errDestroyed says that the document went away under a call.
var errDestroyed = errors.New("the document went away")

// callIn calls fn, the text of a JavaScript function, in our isolated world of
// the frame, where the page can't fake the answers, and returns its value as
// JSON (nil for undefined). Promises are awaited; arguments are JSON or handles.
// errDestroyed says that the frame navigated meanwhile.
func (t *tab) callIn(ctx context.Context, f *frame, fn string, args ...any) (jsontext.Value, error) {
	r, err := t.call(ctx, f, fn, true, args)
	if err != nil {
		return nil, err
	}
	return r.Value, nil
}

// objectIn is callIn for a function that returns a node or another object; nil
// for null and undefined.
func (t *tab) objectIn(ctx context.Context, f *frame, fn string, args ...any) (*handle, error) {
	r, err := t.call(ctx, f, fn, false, args)
	if err != nil || r.ObjectID == "" {
		return nil, err
	}
	return &handle{r.ObjectID}, nil
}

func (t *tab) call(ctx context.Context, f *frame, fn string, value bool, args []any) (*runtime.RemoteObject, error) {
	s, world, err := t.world(ctx, f)
	if err != nil {
		return nil, err
	}
	arguments, err := callArguments(args)
	if err != nil {
		return nil, err
	}
	wait := true
	r, err := cdp.Call(ctx, s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: fn, UniqueContextID: world, Arguments: arguments,
		ReturnByValue: &value, AwaitPromise: &wait, ObjectGroup: worldName,
	})
	switch {
	case documentGone(err):
		return nil, errDestroyed
	case err != nil:
		return nil, err
	case r.ExceptionDetails != nil && t.lost(f, world) && ctx.Err() == nil:
		return t.call(ctx, f, fn, value, args) // the world had nothing to answer with
	case r.ExceptionDetails != nil:
		// Its text may quote the page, so it stays here.
		return nil, failed(refusal.Failed, "the page couldn't be asked (line %d)", r.ExceptionDetails.LineNumber)
	case r.Result == nil:
		return nil, refusal.Malformed
	}
	return r.Result, nil
}

func callArguments(args []any) ([]*runtime.CallArgument, error) {
	list := make([]*runtime.CallArgument, len(args))
	for i, a := range args {
		if h, ok := a.(*handle); ok {
			list[i] = &runtime.CallArgument{ObjectID: h.id}
			continue
		}
		v, err := json.Marshal(a, lenientText)
		if err != nil {
			return nil, err
		}
		list[i] = &runtime.CallArgument{Value: v}
	}
	return list, nil
}

// world answers our isolated world of a frame, and makes it where the frame's
// document has none yet. The bundle is sent ahead of the call that needs it: one
// round trip less.
func (t *tab) world(ctx context.Context, f *frame) (*session, string, error) {
	t.b.mu.Lock()
	s, world := f.s, f.world
	t.b.mu.Unlock()
	if s == nil {
		return nil, "", errDestroyed // between two processes
	}
	if world != "" {
		return s, world, nil
	}
	all := true // one world looks into every frame of its process, whatever its origin
	made, err := cdp.Call(ctx, s, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{
		FrameID: f.id, WorldName: worldName, GrantUniveralAccess: &all,
	})
	if documentGone(err) {
		return nil, "", errDestroyed
	}
	if err != nil {
		return nil, "", err
	}
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	world = s.contexts[int64(made.ExecutionContextID)]
	if world == "" || f.s != s {
		return nil, "", errDestroyed
	}
	f.world = world
	t.b.conn.post(s.id, runtime.Evaluate.Method, runtime.EvaluateParams{Expression: bundle(), UniqueContextID: world},
		func(result jsontext.Value, err error) { t.equipped(f, world, result, err) })
	return s, world, nil
}

// equipped hears how the bundle of a world went. One that was cut off, by the stop
// of the action that needed it, leaves a world that can do nothing: it is forgotten,
// and the next call begins it anew. It runs on the reading goroutine, before the
// answer of the call that waits for it.
func (t *tab) equipped(f *frame, world string, result jsontext.Value, err error) {
	var told runtime.EvaluateResult
	if err == nil && json.Unmarshal(result, &told, lenientText) == nil && told.ExceptionDetails == nil {
		return
	}
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if f.world == world {
		f.world = ""
	}
}

// lost tells whether a world has been forgotten.
func (t *tab) lost(f *frame, world string) bool {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return f.world != world
}

// documentGone recognises the engine's words for a call whose document, frame or
// process went away.
func documentGone(err error) bool {
	var refused *protocolError
	if !errors.As(err, &refused) {
		return false
	}
	for _, words := range []string{
		"Cannot find context", "Execution context was destroyed", "Inspected target navigated or closed",
		"uniqueContextId not found", "No frame for given id", "Session with given id not found", "Promise was collected",
		"Cannot find default execution context", "Could not find object",
	} {
		if strings.Contains(refused.Message, words) {
			return true
		}
	}
	return false
}

func contextCreated(s *session, e runtime.EventExecutionContextCreated) {
	// A page may hold thousands of frames; ours are made one at a time.
	if c := e.Context; c != nil && c.Name == worldName && len(s.contexts) < maxFrames {
		s.contexts[int64(c.ID)] = c.UniqueID
	}
}

func contextDestroyed(s *session, e runtime.EventExecutionContextDestroyed) {
	if s.tab != nil {
		for _, f := range s.tab.frames {
			if f.s == s && f.world != "" && f.world == e.ExecutionContextUniqueID {
				f.world = ""
			}
		}
	}
	for id, unique := range s.contexts {
		if unique == e.ExecutionContextUniqueID {
			delete(s.contexts, id)
		}
	}
}

func contextsCleared(s *session, _ struct{}) {
	clear(s.contexts)
	if s.tab != nil {
		for _, f := range s.tab.frames {
			if f.s == s {
				f.world = ""
			}
		}
	}
}
