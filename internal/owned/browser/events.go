package browser

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// take handles one event on the reading goroutine with Browser.mu held. It must
// not wait. Its error means that the engine doesn't speak the protocol.
type take func(s *session, params jsontext.Value) error

// events is what the core listens to; anything else is skipped.
// Fetch.requestPaused is judged before, without the lock (see intercept.go).
var events = map[string]take{
	"Target.attachedToTarget":           on(attached),
	"Target.detachedFromTarget":         on(detached),
	"Inspector.targetCrashed":           on(crashed),
	"Page.frameAttached":                on(frameAttached),
	"Page.frameDetached":                on(frameDetached),
	"Page.frameNavigated":               on(frameNavigated),
	"Page.navigatedWithinDocument":      on(navigatedWithin),
	"Page.lifecycleEvent":               on(lifecycle),
	"Page.frameRequestedNavigation":     on(navigationAsked),
	"Page.frameStartedNavigating":       on(navigationBegun),
	"Page.frameStoppedLoading":          on(navigationEnded),
	"Network.responseReceived":          both(on(responseCame), on(onResponse)),
	"Page.javascriptDialogOpening":      on(dialogOpened),
	"Page.javascriptDialogClosed":       on(dialogClosed),
	"Runtime.executionContextCreated":   on(contextCreated),
	"Runtime.executionContextDestroyed": on(contextDestroyed),
	"Runtime.executionContextsCleared":  on(contextsCleared),
	"Runtime.consoleAPICalled":          on(consoleCalled),
	"Runtime.exceptionThrown":           on(exceptionThrown),
	"Log.entryAdded":                    on(entryAdded),
	"Network.requestWillBeSent":         on(onRequest),
	"Network.requestServedFromCache":    on(onCached),
	"Network.loadingFinished":           on(onFinished),
	"Network.loadingFailed":             on(onFailed),
	"Browser.downloadWillBegin":         on(downloadBegan),
	"Browser.downloadProgress":          on(downloadProgressed),
}

// both hands an event to two takers.
func both(first, second take) take {
	return func(s *session, params jsontext.Value) error {
		if err := first(s, params); err != nil {
			return err
		}
		return second(s, params)
	}
}

// on decodes an event's params before it is taken.
func on[E any](taken func(*session, E)) take {
	return func(s *session, params jsontext.Value) error {
		var e E
		if err := json.Unmarshal(params, &e, lenientText); err != nil {
			return err
		}
		taken(s, e)
		return nil
	}
}

// wanted tells whether anybody takes an event. A page with many requests causes
// thousands that nobody does.
func (b *Browser) wanted(method string) bool {
	if _, known := events[method]; known || method == "Fetch.requestPaused" {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listeners[method] > 0
}

// event takes one event, on the reading goroutine.
func (b *Browser) event(method, id string, params jsontext.Value) error {
	if method == "Fetch.requestPaused" {
		return b.paused(params)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[id]
	if s == nil {
		return nil // detached meanwhile
	}
	s.publish(method, params)
	taken, known := events[method]
	if !known {
		return nil
	}
	if err := taken(s, params); err != nil {
		return fmt.Errorf("%s that can't be read", method)
	}
	return nil
}
