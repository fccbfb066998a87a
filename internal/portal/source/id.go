package source

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"chaperone/internal/portal/tool"
)

// maxItem is the longest id, in bytes (section 1).
const maxItem = 512

var base64url = base64.RawURLEncoding.Strict()

// encodeName answers a server's own name as a part of an item's id; ok is false
// where it can't be named. See the package comment for the scheme.
func encodeName(name string) (id string, ok bool) {
	if tool.ValidItem(name) && name[0] != '~' {
		return name, true
	}
	id = "~" + base64url.EncodeToString([]byte(name))
	return id, name != "" && len(id) <= maxItem
}

// decodeName answers the name that encodeName made id from, and only that one.
func decodeName(id string) (name string, ok bool) {
	coded, is := strings.CutPrefix(id, "~")
	if !is {
		return id, tool.ValidItem(id)
	}
	raw, err := base64url.DecodeString(coded)
	if err != nil {
		return "", false
	}
	again, ok := encodeName(string(raw))
	return string(raw), ok && again == id
}

// cursor makes an opaque place in a list from its parts; parts never hold NUL.
func cursor(kind string, parts ...string) string {
	return base64url.EncodeToString([]byte(kind + "\x00" + strings.Join(parts, "\x00")))
}

// place reads a cursor of that kind and of n parts.
func readCursor(kind, text string, n int) ([]string, error) {
	raw, err := base64url.DecodeString(text)
	parts := strings.Split(string(raw), "\x00")
	if err != nil || len(text) > 1000 || len(parts) != n+1 || parts[0] != kind || !utf8.Valid(raw) {
		return nil, tool.Fail(tool.InvalidInput, "path", "/cursor", "rule", "pattern")
	}
	return parts[1:], nil
}

// clean answers foreign text with U+FFFD in place of each character that
// tool.Plain refuses, cut to max bytes between characters.
func clean(text string, max int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if !tool.Plain(text) {
		text = strings.Map(func(r rune) rune {
			if !tool.Plain(string(r)) {
				return '\uFFFD'
			}
			return r
		}, text)
	}
	for len(text) > max {
		_, last := utf8.DecodeLastRuneInString(text[:min(len(text), max+utf8.UTFMax)])
		text = text[:min(len(text), max+utf8.UTFMax)-last]
	}
	return text
}

// maxTitle and maxText bound titles and texts of metadata, in bytes.
const (
	maxTitle = 512
	maxText  = 512
)

// matches tells whether title holds each word of query, in any case.
func matches(title, query string) bool {
	title = strings.ToLower(title)
	for word := range strings.FieldsFuncSeq(strings.ToLower(query), unicode.IsSpace) {
		if !strings.Contains(title, word) {
			return false
		}
	}
	return true
}

// placePath answers a place's four parts, each safe as a file's or a key's name.
func placePath(p Place) []string {
	return []string{safe(p.Account.Tenant), safe(p.Account.Actor), safe(p.Collection), safe(p.Incarnation)}
}

// safe answers text itself where it is a harmless name, and else its digest behind
// a tilde, which no harmless name begins with.
func safe(text string) string {
	harmless := text != "" && len(text) <= 64 && text[0] != '.'
	for i := range len(text) {
		c := text[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '@') {
			harmless = false
		}
	}
	if harmless {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "~" + hex.EncodeToString(sum[:20])
}

// digest answers 32 hex digits over parts, each behind its length.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		var n [4]byte
		n[0], n[1], n[2], n[3] = byte(len(p)>>24), byte(len(p)>>16), byte(len(p)>>8), byte(len(p))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Refusals that every source knows.
var (
	errNotFound     = tool.Fail(tool.NotFound)
	errUnavailable  = tool.Fail(tool.SourceUnavailable)
	errDisconnected = tool.Fail(tool.SourceDisconnected)
	errFunction     = tool.Fail(tool.FunctionUnavailable)
	errUnknown      = tool.Fail(tool.UnknownOutcome)
)

func conflict(version string) error { return tool.Fail(tool.VersionConflict, "version", version) }

func invalid(path, rule string) error {
	return tool.Fail(tool.InvalidInput, "path", path, "rule", rule)
}

// failed lets a *tool.Error through and hides every other error.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if told, ok := errors.AsType[*tool.Error](err); ok {
		return told
	}
	return errUnavailable
}

// sent is failed for a change that was on its way: what isn't a refusal leaves its
// outcome unknown.
func sent(err error) error {
	if err == nil {
		return nil
	}
	if told, ok := errors.AsType[*tool.Error](err); ok {
		return told
	}
	return errUnknown
}

// part cuts max bytes from offset out of content.
func part(content []byte, offset int64, max int) (bytes []byte, truncated bool) {
	if offset >= int64(len(content)) {
		return []byte{}, false
	}
	rest := content[offset:]
	if len(rest) > max {
		return rest[:max], true
	}
	return rest, false
}

// checkRead refuses what no reader should ask.
func checkRead(offset int64, max int) error {
	if offset < 0 {
		return invalid("/offset", "minimum")
	}
	if max < 1 {
		return invalid("/max_bytes", "minimum")
	}
	return nil
}

// checkWrite refuses a write without exactly one condition, or without a mark.
func checkWrite(w Write) error {
	switch {
	case !tool.ValidItem(w.Item):
		return invalid("/item", "text")
	case w.IfAbsent == (w.IfVersion != ""):
		return invalid("/if_version", "oneOf")
	case !w.HasContent && (w.IfAbsent || w.Metadata == nil):
		return invalid("/content", "required")
	case len(w.Mark) != 32 || strings.Trim(w.Mark, "0123456789abcdef") != "":
		return invalid("/mark", "pattern")
	case len(w.Content) > tool.MaxWrite:
		return tool.Fail(tool.TooLarge, "limit", tool.MaxWrite)
	}
	return nil
}

// drawMark draws a mark of our own.
func drawMark() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return hex.EncodeToString(b[:])
}
