// Package browser drives one contained Chromium over its debugging pipe and
// does the thirteen actions of owned-browser-v1 (spec owned-browser.md, section
// 1) and those of section 6.
//
// # Contents
//
//   - conn, session: the protocol. One goroutine reads the pipe, one writes it.
//     Each message is capped while it is read, an oversized one is skipped in
//     streaming fashion and fails only the call it answers. A message that isn't
//     the protocol ends the run with a code.
//   - tab, frame: what the engine's events told. They change on the reading
//     goroutine alone, under one mutex that is never held while anything is
//     awaited. Whoever waits for the page waits on [tab.await].
//   - intercept: every request of every target pauses at the browser-level Fetch
//     domain, enabled before any page exists, and is judged by the one matcher.
//     It fails closed: an unanswered request stays paused. It is the soft layer;
//     the namespace and the proxy hold without it.
//   - act: one action at a time, with its notes and its end. When a deadline or a
//     cancellation ends an action, [Browser.Do] answers only after the navigation
//     was stopped, the script was terminated, and the renderer answers again; a
//     renderer that stays deaf is killed and its tab told as crashed.
//   - one file for each action or pair of them.
//   - page/: the script that each isolated world starts with. It finds elements
//     through open shadow roots and same-origin frames, judges whether a click
//     would reach them, fills fields and reads them back, and writes the page as
//     lines. It reads a page's nodes through its own prototypes' getters, which a
//     form full of oddly named inputs can't shadow.
//   - input, islands: an action that waits for an element waits in the page, at its
//     frames; a frame of another origin is an island with a world of its own, and
//     a point of it is mapped outward and hit-tested through every frame above.
//     An input has three outcomes: not sent, done, sent and not confirmed; the
//     last is never sent again.
//   - fence: a page's text as data, without what hides or reorders it.
//
// # States of a tab
//
// attached (the engine told of it), live (has a name in the list), and gone for
// good, either closed or crashed. A name is never used twice between two launches.
//
// # Trust
//
// The page is hostile, and so is every frame the engine sends. What has to be
// true is asked in an isolated world of the frame, which page script can't reach;
// only eval_js enters the main world. No in-page guard counts as enforcement.
// Details of failures carry no page text, argument or credential.
//
// The package never starts a process, opens no socket and takes no flag, profile
// or binary from a caller. It waits for conditions, never for a duration.
//
// Floor: runtime.
package browser
