package relay

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"

	"chaperone/internal/refusal"
)

// sealer keeps messages to the nodes that share a key. Each sender has a key of its
// own, derived from that and its name, which is new with each process: no pair of
// key and nonce comes twice, and who sent a message is known.
type sealer struct {
	key  []byte
	me   string
	mine cipher.AEAD
}

// sealVersion is the first byte of what is sent.
const sealVersion = 1

// overhead is what sealing adds at most.
const overhead = 2 + 100 + 12 + 16 + frameHead + maxTopic

var nodeForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,99}$`)

func newSealer(key []byte, me string) (*sealer, error) {
	if len(key) < sha256.Size || !nodeForm.MatchString(me) {
		return nil, fmt.Errorf("the relay lacks a key, or a name that it can use: %w", refusal.BadDocument)
	}
	s := &sealer{key: key, me: me}
	var err error
	s.mine, err = s.of(me)
	return s, err
}

// domain is what tells these nodes' subjects from those of others in one account.
func (s *sealer) domain() (string, error) {
	name, err := hkdf.Key(sha256.New, s.key, nil, "chaperone relay domain v1", 8)
	return hex.EncodeToString(name), err
}

func (s *sealer) of(sender string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, s.key, nil, "chaperone relay sender v1 "+sender, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal answers what is sent to a subject, and opens nowhere else.
func (s *sealer) seal(subject string, text []byte) []byte {
	out := append([]byte{sealVersion, byte(len(s.me))}, s.me...)
	bound := append(append([]byte{}, out...), subject...)
	nonce := make([]byte, s.mine.NonceSize())
	rand.Read(nonce) // never fails: the runtime ends the process instead
	return s.mine.Seal(append(out, nonce...), nonce, text, bound)
}

// open answers who sent a message, and what. Anything that no node sealed for this
// subject is errFrame.
func (s *sealer) open(subject string, data []byte) (sender string, text []byte, err error) {
	if len(data) < 2 || data[0] != sealVersion || len(data) < 2+int(data[1]) {
		return "", nil, errFrame
	}
	head := data[:2+int(data[1])]
	if sender = string(head[2:]); !nodeForm.MatchString(sender) {
		return "", nil, errFrame
	}
	aead, err := s.of(sender)
	if err != nil {
		return "", nil, err
	}
	rest := data[len(head):]
	if len(rest) < aead.NonceSize() {
		return "", nil, errFrame
	}
	text, err = aead.Open(nil, rest[:aead.NonceSize()], rest[aead.NonceSize():], append(append([]byte{}, head...), subject...))
	if err != nil {
		return "", nil, errFrame
	}
	return sender, text, nil
}
