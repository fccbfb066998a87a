// Package item is the durable table of hosted items (spec/portal-tools.md,
// section 2): what there is in an account's hosted collections, in which version,
// and what became of each change. Content isn't in it: a row names its content by
// SHA-256, and the content lies in a file that whoever calls has written and
// synced before (portal/source).
//
// An item lives in a [Place]. It is there or it isn't; each change of it is one
// transaction, conditional on the version that its writer saw, with its audit
// row, its account's usage and its line in item_change inside. A version is drawn
// afresh for each change, so no version comes again.
//
// A change is known by its mark, which its caller made durable before. What
// became of it stands in item_change:
//
//   - created, replaced, metadata_updated, deleted: it took effect
//   - never: it was settled before it came. It can't take effect any more: its
//     transaction meets the line and is refused
//
// Lines are kept for [Kept]; a mark that comes after that is a new change.
//
// A blob's life, so that content is never gone while something names it:
//
//   - claimed: a row gives the digest a file of its own ([Book.Claim]), used now.
//     The file may not be there yet; its claimant writes it.
//   - named: one item or several have the digest. A change that ends the last of
//     them marks the blob used now, for readers that still have it open.
//   - swept: nothing names it and it wasn't used for [Grace]. [Book.Sweep] takes
//     the row away, then the caller removes the file. A writer of the same content
//     meets the row and renews it, or finds none and claims another file: no
//     writer adopts a file that a sweeper is about to remove.
//
// Durable steps of a write, and what a crash right after each leaves:
//
//  1. the claim commits: a row without a file, which the next claimant fills
//     and Sweep takes after Grace
//  2. the file is in place: content that nothing names, swept after Grace
//  3. the change commits: nothing to repair; its answer may be lost, and
//     [Book.Settle] tells it by its mark
//
// Many processes share one database; nothing durable is kept in memory.
// It never holds content, never lists across places, and never decides who may.
//
// Tables: item, item_change, item_blob and item_usage are named here and nowhere
// else.
//
// Floor: durable authority.
package item
