package source

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-message/charset"

	"chaperone/internal/portal/tool"
)

// maxHeader is how much of a message is read for its header.
const maxHeader = 64 << 10

// mailType is the media type of every message.
const mailType = "message/rfc822"

// state is what a mailbox keeps of a message beside its text.
type state struct {
	seen, flagged, answered bool
	keywords                []string // sorted, each once
	folder                  string
}

// header is what a list tells of a message.
type header struct{ from, to, subject, date string }

var words = &mime.WordDecoder{CharsetReader: charset.Reader}

// readHeader reads the beginning of a message. It never fails: what isn't there or
// can't be read is "".
func readHeader(beginning []byte) header {
	// A header that was cut, or never ends, still has its first lines.
	r := textproto.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(beginning), strings.NewReader("\r\n\r\n"))))
	fields, _ := r.ReadMIMEHeader()
	h := header{
		from:    clean(decodeWords(fields.Get("From")), maxText),
		to:      clean(decodeWords(fields.Get("To")), maxText),
		subject: clean(decodeWords(fields.Get("Subject")), maxTitle),
	}
	if at, err := mail.ParseDate(fields.Get("Date")); err == nil && at.Year() > 1970 && at.Year() < 10000 {
		h.date = at.UTC().Format(time.RFC3339)
	}
	return h
}

func decodeWords(text string) string {
	text = text[:min(len(text), 4096)]
	if decoded, err := words.DecodeHeader(text); err == nil {
		return decoded
	}
	return text
}

// metadata answers what a list tells of a message.
func (h header) metadata(s state) map[string]any {
	keywords := make([]any, 0, len(s.keywords))
	for _, k := range s.keywords {
		if len(keywords) < 32 { // a list holds no more
			keywords = append(keywords, clean(k, maxText))
		}
	}
	m := map[string]any{"seen": s.seen, "flagged": s.flagged, "answered": s.answered,
		"keywords": keywords, "folder": clean(s.folder, maxText)}
	for name, text := range map[string]string{"from": h.from, "to": h.to, "subject": h.subject, "date": h.date} {
		if text != "" {
			m[name] = text
		}
	}
	return m
}

// title is a message's subject.
func (h header) title() string {
	if h.subject == "" {
		return "(no subject)"
	}
	return h.subject
}

// apply answers the state that a write of metadata asks for. Members of other
// names, or of other types, are refused.
func apply(old state, metadata map[string]any) (state, error) {
	s := old
	for name, v := range metadata {
		var ok bool
		switch name {
		case "seen":
			s.seen, ok = v.(bool)
		case "flagged":
			s.flagged, ok = v.(bool)
		case "answered":
			s.answered, ok = v.(bool)
		case "folder":
			s.folder, ok = v.(string)
			ok = ok && validFolder(s.folder)
		case "keywords":
			s.keywords, ok = keywordList(v)
		default:
			return old, invalid("/metadata", "additionalProperties")
		}
		if !ok {
			return old, invalid("/metadata/"+name, "type")
		}
	}
	return s, nil
}

func keywordList(v any) ([]string, bool) {
	list, ok := v.([]any)
	if !ok || len(list) > 26 {
		return nil, false
	}
	all := make([]string, 0, len(list))
	for _, v := range list {
		k, ok := v.(string)
		if !ok || !validKeyword(k) {
			return nil, false
		}
		all = append(all, k)
	}
	slices.Sort(all)
	return slices.Compact(all), true
}

// validKeyword: an IMAP atom of up to 64 letters, digits and _ - . $ that isn't ours.
func validKeyword(k string) bool {
	if k == "" || len(k) > 64 || strings.EqualFold(k, claimKeyword) {
		return false
	}
	for i := range len(k) {
		c := k[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '$') {
			return false
		}
	}
	return true
}

// validFolder: a name that an item's id can begin with.
func validFolder(name string) bool {
	return tool.ValidItem(name) && len(name) <= 200
}

// same tells whether two states are one.
func (s state) same(t state) bool {
	return s.seen == t.seen && s.flagged == t.flagged && s.answered == t.answered && s.folder == t.folder &&
		slices.Equal(s.keywords, t.keywords)
}

// checkMail refuses what a mailbox can't do.
func checkMail(w Write) error {
	if w.HasContent || w.IfAbsent {
		return errFunction // mail comes by delivery alone
	}
	return checkWrite(w)
}

// outcomeOf names what a change of state is.
func outcomeOf(old, new state) string {
	if old.folder != new.folder {
		return Moved
	}
	return Updated
}
