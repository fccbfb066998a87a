package audit

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
)

const (
	idBytes   = 16
	saltBytes = 16
)

// leaf is an event as the log holds it: its bytes are canonical JSON (package
// canon), one for each leaf and one leaf for each bytes.
type leaf struct {
	id                           string // 32 hexadecimal digits; the first 12 tell the ms
	at                           int64  // Unix ms
	tenant, kind, actor, subject string
	code                         refusal.Code
	public                       []Field
	sealed                       []commitment
}

// commitment is SHA-256(salt ‖ value), in hexadecimal.
type commitment struct{ name, hash string }

// opening is what a commitment commits to, in the side table.
type opening struct {
	Salt  string `json:"salt"`
	Value string `json:"value"`
}

// newLeaf makes the leaf of a checked event, and its openings.
func newLeaf(e Event, now time.Time) (leaf, map[string]opening) {
	var id [idBytes]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	random(id[6:])
	l := leaf{
		id: hex.EncodeToString(id[:]), at: now.UnixMilli(),
		tenant: e.Tenant, kind: e.Kind, actor: e.Actor, subject: e.Subject, code: e.Code, public: e.Public,
	}
	if len(e.Sealed) == 0 {
		return l, nil
	}
	openings := make(map[string]opening, len(e.Sealed))
	for _, s := range e.Sealed {
		var salt [saltBytes]byte
		random(salt[:])
		openings[s.name] = opening{hex.EncodeToString(salt[:]), s.value}
		l.sealed = append(l.sealed, commitment{s.name, commit(salt[:], s.value)})
	}
	return l, openings
}

// random fills b; crypto/rand never fails, it ends the process instead.
func random(b []byte) { _, _ = rand.Read(b) }

// commit answers the commitment to value.
func commit(salt []byte, value string) string {
	sum := sha256.Sum256(append(salt[:len(salt):len(salt)], value...))
	return hex.EncodeToString(sum[:])
}

// encode answers the leaf's canonical bytes. All its strings are words, which
// JSON writes as they are, and its keys stand in their order here.
func (l leaf) encode() []byte {
	b := make([]byte, 0, 512)
	b = str(append(b, `{"actor":`...), l.actor)
	b = strconv.AppendInt(append(b, `,"at":`...), l.at, 10)
	b = str(append(b, `,"code":`...), string(l.code))
	b = str(append(b, `,"id":`...), l.id)
	b = str(append(b, `,"kind":`...), l.kind)
	b = append(b, `,"public":{`...)
	for i, f := range l.public {
		b = key(b, i, f.name)
		if f.isCount {
			b = strconv.AppendInt(b, f.count, 10)
		} else {
			b = str(b, f.text)
		}
	}
	b = append(b, `},"sealed":{`...)
	for i, c := range l.sealed {
		b = str(key(b, i, c.name), c.hash)
	}
	b = str(append(b, `},"subject":`...), l.subject)
	b = str(append(b, `,"tenant":`...), l.tenant)
	return append(b, `,"v":1}`...)
}

func str(b []byte, s string) []byte { return append(append(append(b, '"'), s...), '"') }

func key(b []byte, i int, name string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return append(str(b, name), ':')
}

// decode is encode's inverse; whatever encode wouldn't write is refused.
func decode(b []byte) (leaf, error) {
	r := reader{rest: b}
	l := leaf{}
	l.actor = r.str(`{"actor":`)
	l.at = r.int(`,"at":`)
	l.code = refusal.Code(r.str(`,"code":`))
	l.id = r.str(`,"id":`)
	l.kind = r.str(`,"kind":`)
	r.lit(`,"public":{`)
	for r.more(len(l.public)) {
		f := Field{name: r.str("")}
		r.lit(":")
		if f.isCount = !bytes.HasPrefix(r.rest, []byte(`"`)); f.isCount {
			f.count = r.int("")
		} else {
			f.text = r.str("")
		}
		l.public = append(l.public, f)
	}
	r.lit(`},"sealed":{`)
	for r.more(len(l.sealed)) {
		c := commitment{name: r.str("")}
		c.hash = r.str(":")
		l.sealed = append(l.sealed, c)
	}
	l.subject = r.str(`},"subject":`)
	l.tenant = r.str(`,"tenant":`)
	r.lit(`,"v":1}`)
	if r.bad || len(r.rest) > 0 || !l.valid() || !bytes.Equal(l.encode(), b) {
		return leaf{}, fmt.Errorf("not a leaf: %w", refusal.BadDocument)
	}
	return l, nil
}

// valid holds a decoded leaf to what Event.check and newLeaf allow.
func (l leaf) valid() bool {
	e := Event{Tenant: l.tenant, Kind: l.kind, Actor: l.actor, Subject: l.subject, Code: l.code}
	if e.check() != nil || !isHex(l.id, idBytes) || l.at < 0 || l.at > canon.MaxInt {
		return false
	}
	if len(l.public) > MaxFields || len(l.sealed) > MaxFields {
		return false
	}
	for i, f := range l.public {
		if !isWord(f.name) || i > 0 && f.name <= l.public[i-1].name || f.text != "" && !isWord(f.text) ||
			f.count > canon.MaxInt || f.count < -canon.MaxInt {
			return false
		}
	}
	for i, c := range l.sealed {
		if !isWord(c.name) || i > 0 && c.name <= l.sealed[i-1].name || !isHex(c.hash, sha256.Size) {
			return false
		}
	}
	return true
}

// isHex tells whether s is n bytes in lower-case hexadecimal.
func isHex(s string, n int) bool {
	if len(s) != 2*n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// reader takes a leaf apart; after its first fault it answers nothing.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) lit(s string) {
	if r.bad = r.bad || len(r.rest) < len(s) || string(r.rest[:len(s)]) != s; !r.bad {
		r.rest = r.rest[len(s):]
	}
}

// more tells whether another member follows the n that were read.
func (r *reader) more(n int) bool {
	if r.bad || len(r.rest) == 0 || r.rest[0] == '}' {
		return false
	}
	if n > 0 {
		r.lit(",")
	}
	return !r.bad && n <= MaxFields
}

func (r *reader) str(before string) string {
	r.lit(before)
	r.lit(`"`)
	end := bytes.IndexByte(r.rest, '"')
	if r.bad = r.bad || end < 0; r.bad {
		return ""
	}
	s := string(r.rest[:end])
	r.rest = r.rest[end+1:]
	return s
}

func (r *reader) int(before string) int64 {
	r.lit(before)
	n := 0
	for n < len(r.rest) && (r.rest[n] == '-' || r.rest[n] >= '0' && r.rest[n] <= '9') {
		n++
	}
	v, err := strconv.ParseInt(string(r.rest[:n]), 10, 64)
	if r.bad = r.bad || err != nil; r.bad {
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// encodeOpenings answers the side table's text.
func encodeOpenings(all map[string]opening) (string, error) {
	tree := make(map[string]any, len(all))
	for name, o := range all {
		tree[name] = map[string]any{"salt": o.Salt, "value": o.Value}
	}
	text, err := canon.Marshal(tree)
	return string(text), err
}

// decodeOpenings is its inverse, and as strict.
func decodeOpenings(text string) (map[string]opening, error) {
	var all map[string]opening
	err := json.Unmarshal([]byte(text), &all, json.RejectUnknownMembers(true))
	if err == nil {
		again, encodeErr := encodeOpenings(all)
		if encodeErr == nil && again == text {
			return all, nil
		}
	}
	return nil, fmt.Errorf("not openings: %w", refusal.BadDocument)
}

// opens holds openings to the leaf's commitments: exactly one for each.
func (l leaf) opens(all map[string]opening) bool {
	if len(all) != len(l.sealed) {
		return false
	}
	for _, c := range l.sealed {
		o, there := all[c.name]
		salt, err := hex.DecodeString(o.Salt)
		if !there || err != nil || len(salt) != saltBytes || commit(salt, o.Value) != c.hash {
			return false
		}
	}
	return true
}
