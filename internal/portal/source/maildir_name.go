package source

import (
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// entry is one message of a Maildir: its file's name taken apart.
//
//	cur/UNIQUE:2,FLAGS    FLAGS: letters in order; a-z stand for keywords
//	new/UNIQUE            nothing was done to it yet
//
// UNIQUE never changes, so it names the message; the flags are its state, and the
// whole name is what a conditional change is decided on: a rename takes effect
// exactly if the name is still the one that was read.
type entry struct {
	folder string // "INBOX", or a folder's name
	sub    string // "cur" or "new"
	file   string // as it stands in the directory
	unique string
	flags  string // sorted, each once
}

// parseFile takes a file's name apart; ok is false for what is no message.
func parseFile(file string) (unique, flags string, ok bool) {
	if file == "" || file[0] == '.' || strings.ContainsAny(file, "/\x00") {
		return "", "", false
	}
	unique, flags, _ = strings.Cut(file, ":2,")
	if unique == "" || strings.Contains(flags, ":2,") {
		return "", "", false
	}
	return unique, sortFlags(flags), true
}

// formatFile is parseFile's inverse for a message in cur.
func formatFile(unique, flags string) string { return unique + ":2," + sortFlags(flags) }

// sortFlags keeps letters, in their order, each once.
func sortFlags(flags string) string {
	b := make([]byte, 0, len(flags))
	for i := range len(flags) {
		if c := flags[i]; c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			b = append(b, c)
		}
	}
	slices.Sort(b)
	return string(slices.Compact(b))
}

// id answers the item's id: FOLDER/UNIQUE.
func (e entry) id() (string, bool) {
	name, ok := encodeName(e.unique)
	if !ok || len(e.folder)+1+len(name) > maxItem {
		return "", false
	}
	return e.folder + "/" + name, true
}

// parseMailID takes an id apart.
func parseMailID(id string) (folder, unique string, ok bool) {
	i := strings.LastIndexByte(id, '/')
	if i < 1 {
		return "", "", false
	}
	folder = id[:i]
	unique, ok = decodeName(id[i+1:])
	if _, _, is := parseFile(unique); !is || strings.Contains(unique, ":2,") {
		return "", "", false
	}
	return folder, unique, ok && validMaildirFolder(folder)
}

// validMaildirFolder: names that Maildir++ can hold. "/" stands between levels,
// which are "." on disk.
func validMaildirFolder(name string) bool {
	if !validFolder(name) || name[0] == '~' || strings.ContainsAny(name, ".\\") {
		return false
	}
	for level := range strings.SplitSeq(name, "/") {
		if level == "" || strings.TrimSpace(level) != level {
			return false
		}
	}
	return name == inbox || !strings.EqualFold(name, inbox)
}

// inbox is the folder that every mailbox has.
const inbox = "INBOX"

// folderDir answers a folder's directory below the Maildir.
func folderDir(folder string) string {
	if folder == inbox {
		return "."
	}
	return "." + strings.ReplaceAll(folder, "/", ".")
}

// folderName is folderDir's inverse; ok is false for what is no folder of ours.
func folderName(dir string) (string, bool) {
	if len(dir) < 2 || dir[0] != '.' || dir[1] == '.' {
		return "", false
	}
	name := strings.ReplaceAll(dir[1:], ".", "/")
	return name, validMaildirFolder(name) && name != inbox
}

// delivered answers when a message came, as its unique name tells, or zero.
func delivered(unique string) int64 {
	seconds, _, _ := strings.Cut(unique, ".")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n < 0 || n > 1<<36 || len(seconds) > 11 {
		return 0
	}
	return n
}

var deliveries atomic.Int64

// drawUnique draws a name that no delivery of any process has had.
func drawUnique(now time.Time) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("%d.M%06dP%dQ%dR%s.%s", now.Unix(), now.Nanosecond()/1000, os.Getpid(), deliveries.Add(1), rand.Text()[:10], host[:min(len(host), 40)])
}
