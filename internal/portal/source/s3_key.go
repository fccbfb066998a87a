package source

import (
	"strings"
	"unicode/utf8"
)

// Keys. An item lies at PREFIX/TENANT/ACTOR/COLLECTION/INCARNATION/NAME, where
// NAME is its id with "/" as "|", and "|", "=" and "!" as "=7c", "=3d" and "=21",
// in pieces of at most pieceLen bytes with "/" between and "!" at the end. So no
// key is another's folder, each piece can be a file's name (stores on a file
// system need both), an id's prefix is its key's prefix, and each key has one id.
const (
	pieceLen = 200
	maxKey   = 1024 // bytes; S3's own bound
)

// nameKey answers the key of an item's id, or of the beginning of one.
func nameKey(id string, whole bool) string {
	var b strings.Builder
	piece := 0
	for _, r := range id {
		s := string(r)
		switch r {
		case '/':
			s = "|"
		case '|':
			s = "=7c"
		case '=':
			s = "=3d"
		case '!':
			s = "=21"
		}
		if piece+len(s) > pieceLen {
			b.WriteByte('/')
			piece = 0
		}
		b.WriteString(s)
		piece += len(s)
	}
	if whole {
		b.WriteByte('!')
	}
	return b.String()
}

// keyName is nameKey's inverse for a whole id; ok is false for a key of another
// form.
func keyName(key string) (id string, ok bool) {
	text, whole := strings.CutSuffix(key, "!")
	if !whole || !utf8.ValidString(text) {
		return "", false
	}
	var b strings.Builder
	for len(text) > 0 {
		switch {
		case text[0] == '/':
			text = text[1:]
		case text[0] == '|':
			b.WriteByte('/')
			text = text[1:]
		case strings.HasPrefix(text, "=7c"), strings.HasPrefix(text, "=3d"), strings.HasPrefix(text, "=21"):
			b.WriteByte(map[string]byte{"=7c": '|', "=3d": '=', "=21": '!'}[text[:3]])
			text = text[3:]
		default:
			b.WriteByte(text[0])
			text = text[1:]
		}
	}
	return b.String(), nameKey(b.String(), true) == key
}
