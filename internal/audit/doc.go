// Package audit is the trace of what Chaperone did: append-only, tamper-evident,
// and verifiable without the database that holds it.
//
// A leaf is one event in canonical JSON. [Log.Append] inserts it in the caller's
// own transaction, so that a change and its trace stand or fall together. A leaf
// holds codes, ids, words, digests and counts in clear, and everything that a
// person might have to erase as a salted commitment, SHA-256(salt ‖ value), whose
// opening lies in a table of its own. It never holds a token, an argument, a
// result or page text, and an [Event] has no field that could.
//
// A leaf's life:
//
//   - unsequenced: committed, and not in the tree yet. Nothing proves its place;
//     Verify tells how many there are.
//   - integrated: in its tenant's Merkle tree (RFC 6962, as golang.org/x/mod/sumdb/
//     tlog has it) at a place that never changes, at most [Delay] after its commit.
//   - covered: below a signed checkpoint outside the database. From now on not
//     even who owns the database can alter, reorder, cut or rebuild it unseen.
//
// An opening's life: kept, then erased ([Log.Erase], which appends an event of its
// own). One that is missing without that event is tampering.
//
// Order is decided at integration and not at the append, so no writer waits for
// another's head. Any process integrates, one at a time: a batch moves the mark
// (audit_mark) by compare-and-swap in the transaction that writes its tiles.
//
// Durable steps, and what a crash right after each leaves:
//
//  1. the change and its leaf commit: an unsequenced leaf, which the next
//     integration takes (by whoever starts a log over this database next)
//  2. a batch commits: integrated leaves without a checkpoint, which the next
//     checkpoint covers
//  3. a checkpoint's file is linked: nothing to repair; before that, a *.tmp
//     that the next checkpoint replaces
//
// [Verify] is the one verifier behind every surface, and [VerifyExport] is its
// twin for a file. It says what it cannot detect: a tail cut after the last
// checkpoint, and, where there is no checkpoint, anything done by one who rebuilt
// the whole tree.
//
// Tables: audit_leaf (with its view audit_ordered), audit_opening, audit_tile,
// audit_tree and audit_mark are named here and nowhere else.
//
// Floor: durable authority.
package audit
