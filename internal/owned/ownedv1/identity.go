package ownedv1

import (
	"crypto/subtle"
	"strings"
)

// Identity is the binding that every message carries. The zero value is no
// identity.
type Identity struct {
	Protocol     string `json:"protocol"`
	EngagementID string `json:"engagement_id"` // ^[A-Za-z0-9_-]{1,128}$
	RunID        string `json:"run_id"`        // the same
	Epoch        string `json:"epoch"`         // 64 lower-case hex, unique to the run
}

// Check refuses a message of v whose binding isn't want's: another protocol is
// a 426 and anything else a 403.
func (id Identity) Check(v Verb, want Identity) error {
	if id.Protocol != want.Protocol {
		return v.Refuse(426, "protocol", "is another protocol")
	}
	same := func(a, b string) int { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) }
	if same(id.EngagementID, want.EngagementID)&same(id.RunID, want.RunID)&same(id.Epoch, want.Epoch) != 1 {
		return v.Refuse(403, "", "the binding is another run's")
	}
	return nil
}

// members reads the four names of an identity. Any protocol name is read: which
// one it is gets judged after the envelope.
func (id *Identity) members() []member {
	return []member{
		str("protocol", &id.Protocol, nil),
		str("engagement_id", &id.EngagementID, ValidID),
		str("run_id", &id.RunID, ValidID),
		str("epoch", &id.Epoch, isHex(64)),
	}
}

// ValidID tells whether s can be an engagement's or a run's id:
// ^[A-Za-z0-9_-]{1,128}$.
func ValidID(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// isHex makes a check for exactly n lower-case hexadecimal digits.
func isHex(n int) func(string) bool {
	return func(s string) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }
}

// validEndpoint tells http://127.0.0.1:PORT in its one spelling.
func validEndpoint(s string) bool {
	port, ok := strings.CutPrefix(s, "http://127.0.0.1:")
	if !ok || port == "" || port[0] == '0' || len(port) > 5 {
		return false
	}
	n := 0
	for _, c := range []byte(port) {
		if c < '0' || c > '9' {
			return false
		}
		n = 10*n + int(c-'0')
	}
	return n <= 65535
}
