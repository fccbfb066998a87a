package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/portal/tool"
)

// maxKeywords is how many letters a file's name has for them.
const maxKeywords = 26

// Write changes flags, keywords and folder by one rename from exactly the name
// that carries IfVersion's state: it takes effect if nobody renamed it meanwhile.
func (m *Maildir) Write(ctx context.Context, p Place, w Write) (Written, error) {
	if err := checkMail(w); err != nil {
		return Written{}, err
	}
	for range maxRaces {
		e, keywords, err := m.look(ctx, p, w.Item)
		if err != nil {
			return Written{}, err
		}
		old := e.state(keywords)
		if v := e.version(old); v != w.IfVersion {
			return Written{}, conflict(v)
		}
		next, err := apply(old, w.Metadata)
		if err != nil {
			return Written{}, err
		}
		to, err := m.target(p, e, next)
		if err != nil {
			return Written{}, err
		}
		err = m.rename(p, e, to)
		if errors.Is(err, fs.ErrNotExist) {
			continue // renamed by another: what state is it in now?
		}
		if err != nil {
			return Written{}, sent(err)
		}
		id, ok := to.id()
		if !ok {
			return Written{}, errUnknown
		}
		return Written{id, to.version(next), w.IfVersion, outcomeOf(old, next)}, nil
	}
	return Written{}, errUnavailable
}

func (m *Maildir) look(ctx context.Context, p Place, id string) (entry, []string, error) {
	e, err := m.find(ctx, p, id)
	if err != nil {
		return entry{}, nil, err
	}
	keywords, err := m.keywords(p, e.folder)
	if err != nil {
		return entry{}, nil, errUnavailable
	}
	return e, keywords, nil
}

// target answers the name that carries the next state.
func (m *Maildir) target(p Place, e entry, next state) (entry, error) {
	if !validMaildirFolder(next.folder) {
		return entry{}, invalid("/metadata/folder", "pattern")
	}
	folders, err := m.folders(p)
	if err != nil {
		return entry{}, err
	}
	if !slices.Contains(folders, next.folder) {
		return entry{}, invalid("/metadata/folder", "enum")
	}
	letters, err := m.letters(p, next.folder, next.keywords)
	if err != nil {
		return entry{}, err
	}
	flags := letters
	for i := range len(e.flags) {
		if c := e.flags[i]; !strings.ContainsRune("SFR", rune(c)) && (c < 'a' || c > 'z') {
			flags += string(c)
		}
	}
	for c, set := range map[string]bool{"S": next.seen, "F": next.flagged, "R": next.answered} {
		if set {
			flags += c
		}
	}
	flags = sortFlags(flags)
	return entry{next.folder, "cur", formatFile(e.unique, flags), e.unique, flags}, nil
}

// rename is the one step that changes a message. fs.ErrNotExist: it has another
// name by now. What fails after it leaves the outcome unknown.
func (m *Maildir) rename(p Place, from, to entry) error {
	old, new := m.path(p, from), m.path(p, to)
	if err := m.at("looked"); err != nil {
		return failed(err)
	}
	if old != new {
		if err := renameNew(old, new); errors.Is(err, fs.ErrNotExist) {
			return err
		} else if err != nil {
			return errUnavailable
		}
	} else if _, err := os.Lstat(old); err != nil {
		return fs.ErrNotExist
	}
	if err := m.at("renamed"); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(new)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(old))
}

// renameNew renames and refuses to replace what is there.
func renameNew(old, new string) error {
	err := unix.Renameat2(unix.AT_FDCWD, old, unix.AT_FDCWD, new, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // a file system without it
		if err = os.Link(old, new); err == nil {
			err = os.Remove(old)
		}
	}
	return err
}

// Settle looks at the message: its state is IfVersion's (it didn't happen), or what
// the write asks for. A change by another program to just that state can't be told
// from ours, and leaves the same.
func (m *Maildir) Settle(ctx context.Context, p Place, w Write) (Written, Settled, error) {
	folder, unique, ok := parseMailID(w.Item)
	if !ok || checkMail(w) != nil {
		return Written{}, Not, nil
	}
	places := []string{folder}
	if to, moves := w.Metadata["folder"].(string); moves && to != folder && validMaildirFolder(to) {
		places = append(places, to)
	}
	for _, at := range places {
		e, err := m.findIn(ctx, p, at, unique)
		if errors.Is(err, tool.NotFound) {
			continue
		}
		if err != nil {
			return Written{}, Unknown, err
		}
		keywords, err := m.keywords(p, e.folder)
		if err != nil {
			return Written{}, Unknown, errUnavailable
		}
		now := e.state(keywords)
		version := e.version(now)
		if version == w.IfVersion && at == folder {
			return Written{}, Not, nil
		}
		want, err := apply(now, w.Metadata)
		if err != nil || !want.same(now) {
			return Written{}, Unknown, nil
		}
		id, _ := e.id()
		return Written{id, version, w.IfVersion, outcomeOf(state{folder: folder}, now)}, Done, nil
	}
	return Written{}, Unknown, nil
}

// keywordFile holds a folder's keywords, one line each: NUMBER WORD, as Dovecot
// writes it. The letter a stands for number 0.
const keywordFile = "dovecot-keywords"

// keywords answers a folder's words by their numbers.
func (m *Maildir) keywords(p Place, folder string) ([]string, error) {
	f, err := os.OpenFile(filepath.Join(m.box(p), folderDir(folder), keywordFile), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return parseKeywords(text), errors.Join(err, f.Close())
}

func parseKeywords(text []byte) []string {
	all := make([]string, 0, maxKeywords)
	for line := range bytes.Lines(text) {
		number, word, ok := strings.Cut(strings.TrimRight(string(line), "\r\n"), " ")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 0 || n >= maxKeywords || word == "" {
			continue
		}
		for len(all) <= n {
			all = append(all, "")
		}
		all[n] = word
	}
	return all
}

// letters answers the letters of those words in that folder, and gives letters to
// the words that have none, durably and before they are used.
func (m *Maildir) letters(p Place, folder string, words []string) (string, error) {
	have, err := m.keywords(p, folder)
	if err != nil {
		return "", errUnavailable
	}
	if !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(have, w) }) {
		return lettersOf(have, words), nil
	}
	dir := filepath.Join(m.box(p), folderDir(folder))
	lock, err := os.OpenFile(filepath.Join(dir, keywordFile+".turn"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", errUnavailable
	}
	defer lock.Close() // and with it the turn
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", errUnavailable
	}
	if have, err = m.keywords(p, folder); err != nil {
		return "", errUnavailable
	}
	for _, w := range words {
		if slices.Contains(have, w) {
			continue
		}
		if free := slices.Index(have, ""); free >= 0 {
			have[free] = w
		} else if have = append(have, w); len(have) > maxKeywords {
			return "", invalid("/metadata/keywords", "maxItems")
		}
	}
	if err := saveKeywords(dir, have); err != nil {
		return "", errUnavailable
	}
	return lettersOf(have, words), nil
}

func lettersOf(have, words []string) string {
	b := make([]byte, 0, len(words))
	for _, w := range words {
		b = append(b, byte('a'+slices.Index(have, w)))
	}
	return string(b)
}

func saveKeywords(dir string, words []string) error {
	var text bytes.Buffer
	for n, w := range words {
		if w != "" {
			fmt.Fprintf(&text, "%d %s\n", n, w)
		}
	}
	tmp := filepath.Join(dir, "tmp", drawUnique(time.Now()))
	if err := writeSynced(tmp, text.Bytes()); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	if err := os.Rename(tmp, filepath.Join(dir, keywordFile)); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	return syncDir(dir)
}
