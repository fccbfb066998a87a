package audit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// A checkpoint is a signed note (golang.org/x/mod/sumdb/note) whose text is
//
//	chaperone/audit/<tenant>
//	<size>
//	<root, base64>
//	number <n>
//	at <Unix ms>
//
// in a file named <n, eight digits>.checkpoint. Numbers begin at 1 and have no
// gap; a file that was published is never written again.
const (
	origin  = "chaperone/audit/"
	suffix  = ".checkpoint"
	maxNote = 4096
	// maxSize bounds a tree that is read from outside: the proofs' arithmetic on
	// sizes near 2^63 doesn't end.
	maxSize    = 1 << 48
	signedName = "chaperone-audit"
)

// Checkpoint is the decoded text of one.
type Checkpoint struct {
	Tenant string
	Number int64
	Size   int64
	Root   tlog.Hash
	AtMS   int64
}

// String answers the text that is signed.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s%s\n%d\n%s\nnumber %d\nat %d\n", origin, c.Tenant, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]), c.Number, c.AtMS)
}

// ParseCheckpoint opens a signed checkpoint; keys are the note keys that may
// have signed it. Anything else is refusal.Tampered or refusal.BadDocument.
func ParseCheckpoint(data []byte, keys ...string) (Checkpoint, error) {
	if len(data) > maxNote {
		return Checkpoint{}, fmt.Errorf("checkpoint: %w", refusal.TooLarge)
	}
	var verifiers []note.Verifier
	for _, key := range keys {
		v, err := note.NewVerifier(key)
		if err != nil {
			return Checkpoint{}, fmt.Errorf("verifier key: %w: %v", refusal.BadDocument, err)
		}
		verifiers = append(verifiers, v)
	}
	opened, err := note.Open(data, note.VerifierList(verifiers...))
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint: %w: %v", refusal.Tampered, err)
	}
	c, err := parseText(opened.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// parseText is text's inverse, and as strict.
func parseText(text string) (c Checkpoint, err error) {
	bad := fmt.Errorf("checkpoint: %w", refusal.BadDocument)
	lines := strings.Split(text, "\n")
	if len(lines) != 6 {
		return Checkpoint{}, bad
	}
	var number, at string
	var ok [3]bool
	c.Tenant, ok[0] = strings.CutPrefix(lines[0], origin)
	number, ok[1] = strings.CutPrefix(lines[3], "number ")
	at, ok[2] = strings.CutPrefix(lines[4], "at ")
	for _, n := range []struct {
		text string
		into *int64
	}{{lines[1], &c.Size}, {number, &c.Number}, {at, &c.AtMS}} {
		if *n.into, err = strconv.ParseInt(n.text, 10, 64); err != nil || *n.into < 0 {
			return Checkpoint{}, bad
		}
	}
	if c.Root, err = tlog.ParseHash(lines[2]); err != nil {
		return Checkpoint{}, bad
	}
	if ok != [3]bool{true, true, true} || !isWord(c.Tenant) || c.Number < 1 || c.Size > maxSize || c.String() != text {
		return Checkpoint{}, bad
	}
	return c, nil
}

// Checkpoint writes a checkpoint of each tenant's tree that grew since the last
// one. It signs only what extends the last: a log that was cut or rebuilt is
// refusal.Tampered and gets no signature.
func (l *Log) Checkpoint(ctx context.Context) error {
	if l.opts.CheckpointDir == "" {
		return nil
	}
	var all map[string]head
	if err := l.db.View(ctx, func(tx *store.Tx) (err error) {
		all, err = heads(tx)
		return err
	}); err != nil {
		return err
	}
	for tenant := range all {
		if err := l.checkpoint(ctx, tenant); err != nil {
			return fmt.Errorf("checkpoint of %s: %w", tenant, err)
		}
	}
	return nil
}

func (l *Log) checkpoint(ctx context.Context, tenant string) error {
	if !isWord(tenant) {
		return refusal.Tampered // it would name a directory
	}
	path := filepath.Join(l.opts.CheckpointDir, tenant)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close() // and with it the lock: numbers are given by one at a time
	if err := lock(ctx, dir); err != nil {
		return err
	}
	key, err := signingKey(l.opts.KeyFile)
	if err != nil {
		return err
	}
	numbers, err := published(path)
	if err != nil {
		return err
	}
	var last Checkpoint
	if len(numbers) > 0 {
		n := numbers[len(numbers)-1]
		data, err := os.ReadFile(filepath.Join(path, fileName(n)))
		if err != nil {
			return err
		}
		// One that this key didn't sign is verify's to tell; numbering goes on.
		if last, err = ParseCheckpoint(data, key.verifier); err != nil {
			last = Checkpoint{}
		}
		last.Number = n
	}
	// Read under the lock, so that sizes don't fall from one number to the next.
	var h head
	if err := l.db.View(ctx, func(tx *store.Tx) (err error) {
		h, err = extends(tx, tenant, last)
		return err
	}); err != nil || h.size == 0 || h.size == last.Size {
		return err
	}
	next := Checkpoint{Tenant: tenant, Number: last.Number + 1, Size: h.size, Root: h.root, AtMS: time.Now().UnixMilli()}
	signed, err := note.Sign(&note.Note{Text: next.String()}, key.signer)
	if err != nil {
		return err
	}
	return l.publish(dir, path, fileName(next.Number), signed)
}

// lock takes dir for this process until it is closed. A holder that hangs makes
// this fail and not wait for ever: records go on without a checkpoint.
func lock(ctx context.Context, dir *os.File) error {
	deadline := time.Now().Add(store.BusyTimeout)
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case err != syscall.EWOULDBLOCK && err != syscall.EINTR:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("%s: %w: another process has been writing a checkpoint for over %v", dir.Name(), refusal.DatabaseBusy, store.BusyTimeout)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// extends answers the tenant's head after it was proved to extend last.
func extends(tx *store.Tx, tenant string, last Checkpoint) (head, error) {
	all, err := heads(tx)
	if err != nil {
		return head{}, err
	}
	h := all[tenant]
	switch {
	case h.size < last.Size:
		return head{}, fmt.Errorf("%w: the log has %d records, checkpoint %d has %d: an older copy of the database, or another one, which needs a --home of its own", refusal.Tampered, h.size, last.Number, last.Size)
	case last.Size == 0:
		return h, nil
	case h.size == last.Size:
		if h.root != last.Root {
			return head{}, fmt.Errorf("%w: the log isn't the one of checkpoint %d", refusal.Tampered, last.Number)
		}
		return h, nil
	}
	proof, err := tlog.ProveTree(h.size, last.Size, storedHashes(tx, tenant))
	if err != nil {
		return head{}, err
	}
	if err := tlog.CheckTree(proof, h.size, h.root, last.Size, last.Root); err != nil {
		return head{}, fmt.Errorf("%w: the log doesn't extend checkpoint %d", refusal.Tampered, last.Number)
	}
	return h, nil
}

// publish makes the file appear whole, once, and durably.
func (l *Log) publish(dir *os.File, path, name string, data []byte) error {
	temporary := filepath.Join(path, "next.tmp")
	// What a process that was killed right after its link left here is another name
	// of a published file: it is taken away, and never written over.
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeSynced(temporary, data, 0o600); err != nil {
		return err
	}
	err := l.opts.Publish(func() error {
		// A link, unlike a rename, never replaces what is there.
		if err := os.Link(temporary, filepath.Join(path, name)); err != nil {
			return err
		}
		return dir.Sync()
	})
	return errors.Join(err, os.Remove(temporary))
}

// writeSynced writes a new file and waits until it is on disk.
func writeSynced(path string, data []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

func fileName(number int64) string { return fmt.Sprintf("%08d%s", number, suffix) }

// published answers the numbers of the checkpoints in path, ascending.
func published(path string) ([]int64, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []int64
	for _, entry := range entries {
		digits, ok := strings.CutSuffix(entry.Name(), suffix)
		if !entry.Type().IsRegular() {
			continue // reading a pipe would never end
		}
		if n, err := strconv.ParseInt(digits, 10, 64); ok && err == nil && fileName(n) == entry.Name() {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}
