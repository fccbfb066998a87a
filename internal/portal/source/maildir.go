package source

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chaperone/internal/portal/tool"
)

// Maildir is the embedded mailbox: one Maildir++ for each place below one
// directory. Other mail programs of the machine may use it at the same time.
//
// A version is a digest of the folder, the flags and the keywords: it names a
// state, so that setting back what was changed also brings its version back.
// Keywords stand as letters in a file's name and as words in the folder's
// dovecot-keywords file.
type Maildir struct {
	dir  string
	step func(step string) error // tests stop here; nil elsewhere
}

// standard folders of a new mailbox.
var standard = []string{"Archive", "Drafts", "Junk", "Sent", "Trash"}

const maxFolders = 200

// NewMaildir answers the mailboxes below dir, which is made where it isn't there.
func NewMaildir(dir string) (*Maildir, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, err
	}
	return &Maildir{dir: abs}, nil
}

// Functions: all but deletes, which an inbox doesn't have.
func (m *Maildir) Functions() []tool.Name {
	return []tool.Name{tool.ListItems, tool.ReadItem, tool.WriteItem}
}

// box answers the directory of the place's mailbox.
func (m *Maildir) box(p Place) string {
	return filepath.Join(append([]string{m.dir}, placePath(p)...)...)
}

// folders answers the mailbox's folders, INBOX first; none where nothing was ever
// delivered. A directory below that is gone altogether is source_disconnected.
func (m *Maildir) folders(p Place) ([]string, error) {
	found, err := os.ReadDir(m.box(p))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(m.dir); err != nil {
			return nil, errDisconnected
		}
		return nil, nil
	}
	if err != nil {
		return nil, errUnavailable
	}
	all := []string{inbox}
	for _, d := range found {
		if name, ok := folderName(d.Name()); ok && d.IsDir() && len(all) < maxFolders {
			all = append(all, name)
		}
	}
	slices.Sort(all[1:])
	return all, nil
}

// entries answers a folder's messages in no order.
func (m *Maildir) entries(ctx context.Context, p Place, folder string) ([]entry, error) {
	var all []entry
	for _, sub := range []string{"new", "cur"} { // new first: a message moves from there to cur
		if ctx.Err() != nil {
			return nil, errUnavailable
		}
		d, err := os.Open(filepath.Join(m.box(p), folderDir(folder), sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errUnavailable
		}
		names, err := d.Readdirnames(-1)
		if err := errors.Join(err, d.Close()); err != nil {
			return nil, errUnavailable
		}
		for _, name := range names {
			if unique, flags, ok := parseFile(name); ok {
				all = append(all, entry{folder, sub, name, unique, flags})
			}
		}
	}
	return all, nil
}

// find answers where the message is now.
func (m *Maildir) find(ctx context.Context, p Place, id string) (entry, error) {
	folder, unique, ok := parseMailID(id)
	if !ok {
		return entry{}, errNotFound
	}
	return m.findIn(ctx, p, folder, unique)
}

func (m *Maildir) findIn(ctx context.Context, p Place, folder, unique string) (entry, error) {
	if _, err := m.folders(p); err != nil {
		return entry{}, err
	}
	all, err := m.entries(ctx, p, folder)
	if err != nil {
		return entry{}, err
	}
	found := entry{}
	for _, e := range all {
		if e.unique == unique {
			found = e // the later, in cur, is the newer
		}
	}
	if found.unique == "" {
		return entry{}, errNotFound
	}
	return found, nil
}

func (m *Maildir) path(p Place, e entry) string {
	return filepath.Join(m.box(p), folderDir(e.folder), e.sub, e.file)
}

// state answers what the name's flags mean in that folder.
func (e entry) state(keywords []string) state {
	s := state{folder: e.folder}
	for i := range len(e.flags) {
		switch c := e.flags[i]; {
		case c == 'S':
			s.seen = true
		case c == 'F':
			s.flagged = true
		case c == 'R':
			s.answered = true
		case c >= 'a' && int(c-'a') < len(keywords) && keywords[c-'a'] != "":
			s.keywords = append(s.keywords, keywords[c-'a'])
		}
	}
	slices.Sort(s.keywords)
	s.keywords = slices.Compact(s.keywords)
	return s
}

// version names the state. Flags that the contract doesn't speak of count too.
func (e entry) version(s state) string {
	others := strings.Map(func(r rune) rune {
		if strings.ContainsRune("SFR", r) || r >= 'a' && r <= 'z' {
			return -1
		}
		return r
	}, e.flags)
	return digest(append([]string{e.folder, e.unique, others, strconv.FormatBool(s.seen), strconv.FormatBool(s.flagged),
		strconv.FormatBool(s.answered)}, s.keywords...)...)
}

// open opens a message's file and nothing else: no link, no pipe.
func (m *Maildir) open(p Place, e entry) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(m.path(p, e), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// describe reads the message's header and answers its item.
func (m *Maildir) describe(p Place, e entry, keywords []string) (Item, error) {
	f, info, err := m.open(p, e)
	if err != nil {
		return Item{}, err
	}
	defer f.Close()
	beginning, err := io.ReadAll(io.LimitReader(f, maxHeader))
	if err != nil {
		return Item{}, err
	}
	return m.item(e, keywords, readHeader(beginning), info), nil
}

func (m *Maildir) item(e entry, keywords []string, h header, info os.FileInfo) Item {
	id, _ := e.id()
	s := e.state(keywords)
	return Item{id, h.title(), e.version(s), info.Size(), mailType, info.ModTime().UTC(), h.metadata(s)}
}

// Count answers how many messages there are.
func (m *Maildir) Count(ctx context.Context, p Place) (int, bool, error) {
	all, err := m.all(ctx, p, "")
	return len(all), err == nil, err
}

// all answers the messages of all folders whose ids begin with prefix, newest
// first.
func (m *Maildir) all(ctx context.Context, p Place, prefix string) ([]entry, error) {
	folders, err := m.folders(p)
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, folder := range folders {
		if at := folder + "/"; !strings.HasPrefix(at, prefix) && !strings.HasPrefix(prefix, at) {
			continue
		}
		some, err := m.entries(ctx, p, folder)
		if err != nil {
			return nil, err
		}
		for _, e := range some {
			if id, ok := e.id(); ok && strings.HasPrefix(id, prefix) {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, compareEntries)
	return slices.CompactFunc(all, func(a, b entry) bool { return compareEntries(a, b) == 0 }), nil
}

// compareEntries orders newest first, then by folder and name.
func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(delivered(b.unique), delivered(a.unique)), cmp.Compare(a.folder, b.folder), cmp.Compare(a.unique, b.unique))
}

// List answers messages of all folders, newest first.
func (m *Maildir) List(ctx context.Context, p Place, q Query) (Page, error) {
	all, err := m.all(ctx, p, q.Prefix)
	if err != nil {
		return Page{}, err
	}
	if q.Cursor != "" {
		parts, err := readCursor("maildir", q.Cursor, 2)
		if err != nil {
			return Page{}, err
		}
		last := entry{folder: parts[0], unique: parts[1]}
		i, found := slices.BinarySearchFunc(all, last, compareEntries)
		if found {
			i++
		}
		all = all[i:]
	}
	page, words := Page{Items: []Item{}}, map[string][]string{}
	var last entry
	for _, e := range all {
		if ctx.Err() != nil {
			return Page{}, errUnavailable
		}
		if _, read := words[e.folder]; !read {
			if words[e.folder], err = m.keywords(p, e.folder); err != nil {
				return Page{}, errUnavailable
			}
		}
		i, err := m.describe(p, e, words[e.folder])
		if err != nil || !matches(i.Title, q.Query) {
			continue // renamed or gone since: the next list tells
		}
		if len(page.Items) == q.Limit {
			page.Next = cursor("maildir", last.folder, last.unique)
			break
		}
		page.Items, last = append(page.Items, i), e
	}
	return page, nil
}

// Stat answers the message.
func (m *Maildir) Stat(ctx context.Context, p Place, id string) (Item, error) {
	c, err := m.Read(ctx, p, id, 0, 1)
	return c.Item, err
}

// Read answers a part of the message as it was delivered. The file is open from
// the look at its name on, so a change of flags meanwhile doesn't matter.
func (m *Maildir) Read(ctx context.Context, p Place, id string, offset int64, max int) (Content, error) {
	if err := checkRead(offset, max); err != nil {
		return Content{}, err
	}
	for range maxRaces {
		e, err := m.find(ctx, p, id)
		if err != nil {
			return Content{}, err
		}
		f, info, err := m.open(p, e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // renamed since: look again
		}
		if err != nil {
			return Content{}, errUnavailable
		}
		c, err := m.readFrom(f, info, p, e, offset, max)
		if err := errors.Join(err, f.Close()); err != nil {
			return Content{}, errUnavailable
		}
		return c, nil
	}
	return Content{}, errUnavailable
}

// maxRaces is how often a name is looked for again after another program renamed it.
const maxRaces = 8

func (m *Maildir) readFrom(f *os.File, info os.FileInfo, p Place, e entry, offset int64, max int) (Content, error) {
	beginning, err := io.ReadAll(io.NewSectionReader(f, 0, maxHeader))
	if err != nil {
		return Content{}, err
	}
	keywords, err := m.keywords(p, e.folder)
	if err != nil {
		return Content{}, err
	}
	bytes := make([]byte, min(int64(max), maxZero(info.Size()-offset)))
	if _, err := io.ReadFull(io.NewSectionReader(f, offset, int64(len(bytes))), bytes); err != nil && len(bytes) > 0 {
		return Content{}, err
	}
	return Content{m.item(e, keywords, readHeader(beginning), info), bytes, offset, offset+int64(len(bytes)) < info.Size()}, nil
}

func maxZero(n int64) int64 {
	if n < 0 {
		return 0
	}
	return n
}

// Delete: an inbox has none.
func (m *Maildir) Delete(context.Context, Place, string, string, string) error { return errFunction }

// SettleDelete: what can't begin didn't happen.
func (m *Maildir) SettleDelete(context.Context, Place, string, string, string) (Settled, error) {
	return Not, nil
}

// Deliver puts a message into the place's INBOX: whole and on disk, or not at all.
func (m *Maildir) Deliver(p Place, message []byte) error {
	if err := m.make(p); err != nil {
		return err
	}
	if err := sweepTmp(filepath.Join(m.box(p), "tmp")); err != nil {
		return err
	}
	unique := drawUnique(time.Now())
	tmp, to := filepath.Join(m.box(p), "tmp", unique), filepath.Join(m.box(p), "new", unique)
	if err := writeSynced(tmp, message); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	if err := m.at("written"); err != nil {
		return err
	}
	if err := renameNew(tmp, to); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	return syncDir(filepath.Dir(to))
}

// tmpAge is how old a file below tmp must be to be a crash's: nobody writes longer.
const tmpAge = 36 * time.Hour

// sweepTmp removes what deliveries that a crash ended left.
func sweepTmp(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range all {
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || time.Since(info.ModTime()) < tmpAge) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(dir, d.Name())); ignoreMissing(err) != nil {
			return err
		}
	}
	return nil
}

// make makes the mailbox with its standard folders.
func (m *Maildir) make(p Place) error {
	box := m.box(p)
	if _, err := os.Stat(filepath.Join(box, "new")); err == nil {
		return nil
	}
	for _, folder := range append(slices.Clone(standard), inbox) { // INBOX's own last: it is the sign that all is there
		for _, sub := range []string{"tmp", "cur", "new"} {
			dir := filepath.Join(box, folderDir(folder))
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
				return err
			}
			if err := syncDir(dir); err != nil {
				return err
			}
		}
	}
	// The names above the mailbox are new too.
	for dir := filepath.Dir(box); len(dir) >= len(m.dir); dir = filepath.Dir(dir) {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (m *Maildir) at(step string) error {
	if m.step == nil {
		return nil
	}
	return m.step(step)
}
