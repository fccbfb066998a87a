// Package source is where an account's items really are: hosted storage, an
// object store, a mailbox in Maildir or on an IMAP server, a WebDAV, CalDAV or
// CardDAV provider. Each is a [Source]; the operation above it knows no other way
// to an item.
//
// What holds for every source:
//
//   - A call ends by its context's deadline, whatever the server does. A source
//     that hangs is source_unavailable, and unknown_outcome where a change was on
//     its way: it may have taken effect.
//   - A change is conditional (if_version or if_absent), and the condition is
//     judged by the store itself and not by a look before it: of any number of
//     writers with one version, one wins and the others get version_conflict.
//   - A change is never sent twice. [Source.Settle] looks whether one took effect;
//     it repeats nothing.
//   - Errors are *tool.Error and hold nothing that a server, a file or a caller
//     wrote. A version in Details is one of ours.
//   - Places are apart: an item is found only in the account, collection and
//     incarnation in which it was written.
//   - Foreign text stays data. Titles and metadata keep it, with U+FFFD in place
//     of each control, bidirectional, zero-width, tag and private character, so
//     that nobody can miss that something stood there; content is handed on as it is.
//
// Ids. Hosted items are called what their writer called them. Elsewhere an id is
// made from the server's own name (a Maildir name; folder, UIDVALIDITY and UID; a
// path below the configured address). A name that [tool.ValidItem] refuses, or
// that begins with a tilde, stands as "~" and its base64url (RFC 4648 section 5,
// no padding); one that doesn't fit into 512 bytes that way can't be named and is
// left out.
//
// Parts. A read answers one version. A reader that fetches an item in parts
// compares the versions of its parts: a source never answers a part of one
// version under the name of another, and one that can't tell answers
// version_conflict.
//
// It never follows a redirect or a link of a server's, never keeps a secret but in
// memory, and takes secrets by file alone.
//
// Floor: runtime.
package source

import (
	"context"
	"time"

	"chaperone/internal/portal/tool"
)

// Account is whose items they are.
type Account struct{ Tenant, Actor string }

// Place is one collection of an account. A collection that was deleted and made
// again is another incarnation, and another place.
type Place struct {
	Account     Account
	Collection  string
	Incarnation string
}

// Item is what is known of an item without its content.
type Item struct {
	Item, Title string
	Version     string // 1..128 characters from ! to ~
	Size        int64  // bytes of its content
	MediaType   string
	Modified    time.Time
	Metadata    map[string]any // booleans, int64, strings and lists of strings
}

// Query narrows and pages a list.
type Query struct {
	Cursor string // a Page's Next, "" for the first
	Limit  int    // 1..100
	Prefix string // of the id
	Query  string // words, each of which the title holds in any case
}

// Page is one page of a list; Next is "" on the last.
type Page struct {
	Items []Item
	Next  string
}

// Content is a part of an item.
type Content struct {
	Item
	Bytes     []byte
	Offset    int64
	Truncated bool // more follows
}

// Write is one change of one item: content (and metadata), or metadata alone.
type Write struct {
	Item       string
	Content    []byte
	HasContent bool
	MediaType  string         // "" keeps the one it has, or application/octet-stream
	Metadata   map[string]any // nil keeps what there is
	IfVersion  string         // exactly one of the two
	IfAbsent   bool
	Mark       string // 32 hex digits, one for each change; kept beside the item where that can be
}

// What became of a Write.
const (
	Created  = "created"
	Replaced = "replaced"
	Updated  = "metadata_updated"
	Moved    = "moved" // under another id
)

// Written tells what a Write did. Before is the version that it replaced, "" for
// none.
type Written struct{ Item, Version, Before, Outcome string }

// Settled is what is known of a change whose answer was lost.
type Settled string

// Answers of Settle and SettleDelete.
const (
	Done    Settled = "done"    // it took effect
	Not     Settled = "not"     // it didn't, and won't any more
	Unknown Settled = "unknown" // nothing there tells, or the source doesn't answer
)

// Source is a real store of items. Safe for concurrent use. Errors are *tool.Error:
// not_found, version_conflict (with the current version), already_exists,
// quota_exceeded, source_disconnected, source_unavailable, function_unavailable,
// too_large, unknown_outcome, invalid_input.
type Source interface {
	// Functions answers what this source can do at all.
	Functions() []tool.Name
	// Count answers how many items there are, and whether that can be told.
	Count(ctx context.Context, p Place) (int, bool, error)
	List(ctx context.Context, p Place, q Query) (Page, error)
	// Read answers at most max bytes from offset; past the end, none.
	Read(ctx context.Context, p Place, item string, offset int64, max int) (Content, error)
	Stat(ctx context.Context, p Place, item string) (Item, error)
	Write(ctx context.Context, p Place, w Write) (Written, error)
	Delete(ctx context.Context, p Place, item, ifVersion, mark string) error
	// Settle tells whether that write took effect, without repeating it.
	Settle(ctx context.Context, p Place, w Write) (Written, Settled, error)
	SettleDelete(ctx context.Context, p Place, item, ifVersion, mark string) (Settled, error)
}
