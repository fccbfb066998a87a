package browser

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// A page that reloads or refreshes itself competes with the goto that leaves it:
// its own navigation may end ours before it was answered, or commit right after
// ours and take the tab back. Saying "loaded" then would be a lie.

// overtakings is how often a goto is tried against such a page.
const overtakings = 4

// aborted is what the engine says of a navigation that came to nothing: another
// one took its place, or the answer holds no page.
const aborted = "net::ERR_ABORTED"

// errOvertaken says that the page that was left went elsewhere by itself.
var errOvertaken = errors.New("another navigation took the place of this one")

// arrival is a document that a frame has shown.
type arrival struct {
	loader cdp.LoaderID
	began  time.Time // its navigation; zero where that wasn't heard of
	at     time.Time // it committed
}

// maxArrivals bounds what a frame remembers.
const maxArrivals = 8

// arrived notes a committed document. mu is held.
func (f *frame) arrived(loader cdp.LoaderID) {
	a := arrival{loader: loader, at: time.Now()}
	if n := f.nav; n != nil && n.loader == loader {
		a.began = n.began
	}
	if len(f.shown) >= maxArrivals {
		f.shown = slices.Delete(f.shown, 0, 1)
	}
	f.shown = append(f.shown, a)
}

func (f *frame) showed(loader cdp.LoaderID) int {
	return slices.IndexFunc(f.shown, func(a arrival) bool { return a.loader == loader })
}

// hasShown tells that a document has committed, if another one has followed too.
func (f *frame) hasShown(loader cdp.LoaderID) bool {
	return f.loader == loader || f.showed(loader) >= 0
}

// answered is the status that came for a navigation of the main frame, or 0.
func (t *tab) answered(loader cdp.LoaderID) int {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if f := t.main(); f.answer.loader == loader {
		return f.answer.status
	}
	return 0
}

// leaveTime is how long a page may keep a goto from asking the site. One that is
// well takes milliseconds, since every "Leave?" is answered at once.
const leaveTime = time.Second

// leave begins a navigation. A page whose handlers of leaving never end would keep
// the tab for good, so they are ended.
func (t *tab) leave(ctx context.Context, url string) (to page.NavigateResult, err error) {
	before := t.lastAsked()
	call := t.b.conn.begin(t.s.id, page.Navigate.Method, page.NavigateParams{URL: url})
	tick := time.NewTicker(leaveTime)
	defer tick.Stop()
	for {
		select {
		case a := <-call:
			err = finish(page.Navigate.Method, a.result, a.err, &to)
			return to, err
		case <-tick.C:
			if t.lastAsked() == before {
				t.endScripts()
			}
		case <-ctx.Done():
			return to, context.Cause(ctx)
		}
	}
}

// lastAsked is the last navigation of the main frame that asked its site.
func (t *tab) lastAsked() cdp.LoaderID {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return t.heading.loader
}

// endScripts ends what runs in the tab now. The call behind it takes up a
// termination that found nothing, which would hit the next page's script.
func (t *tab) endScripts() {
	for _, s := range t.processes() {
		s.post(runtime.TerminateExecution.Method, nil)
		s.post(runtime.Evaluate.Method, runtime.EvaluateParams{Expression: "0"})
	}
}

// rivalTime is how long the engine may take to tell what it has put in the place
// of an aborted navigation.
const rivalTime = 200 * time.Millisecond

// elsewhere waits until the main frame is about to get another document than
// loader's, or has got one since then; false where it isn't.
func (t *tab) elsewhere(ctx context.Context, loader cdp.LoaderID, since time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, rivalTime)
	defer cancel()
	return t.b.until(ctx, func() bool {
		f := t.main()
		return f.nav != nil && f.nav.loader != loader ||
			slices.ContainsFunc(f.shown, func(a arrival) bool { return a.loader != loader && a.at.After(since) })
	}) == nil
}

// leaving tells that the main frame is about to get another document.
func (t *tab) leaving() bool {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return t.main().nav != nil
}

// unrivalled makes sure that what the page before had begun doesn't replace the
// document of loader: errOvertaken where it has, and it is stopped where it hasn't
// yet. What the new document begins by itself is its own.
func (t *tab) unrivalled(ctx context.Context, loader cdp.LoaderID) error {
	rival, overtaken := t.rival(loader)
	if overtaken {
		return errOvertaken
	}
	if !rival {
		return nil
	}
	t.s.post(page.StopLoading.Method, nil)
	err := t.b.until(ctx, func() bool { return t.main().nav == nil })
	if _, overtaken := t.rival(loader); err == nil && overtaken {
		return errOvertaken
	}
	return err
}

// rival tells of navigations that began before loader's document was there:
// whether one is under way, and whether one has taken its place.
func (t *tab) rival(loader cdp.LoaderID) (pending, done bool) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	f := t.main()
	i := f.showed(loader)
	if loader == "" || i < 0 {
		return false, false
	}
	before := func(began time.Time) bool { return !began.IsZero() && began.Before(f.shown[i].at) }
	for _, later := range f.shown[i+1:] {
		done = done || before(later.began)
	}
	return f.nav != nil && !f.nav.same && before(f.nav.began), done
}
