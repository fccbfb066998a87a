package ownedv1

import (
	"math"
	"strings"
	"time"

	"chaperone/internal/refusal"
)

// Descriptor is the registration of one run: where its host listens and the
// one-use credential for the handshake. It is a secret: it belongs in one
// private file and in no log.
type Descriptor struct {
	Identity
	Endpoint       string `json:"endpoint"`        // exactly http://127.0.0.1:PORT
	Transport      string `json:"transport"`       // loopback or unix
	BootstrapToken string `json:"bootstrap_token"` // 64 lower-case hex, one use
	ExpiresAtMS    int64  `json:"expires_at_ms"`   // Unix ms, at most 60 s ahead
	HostCommit     string `json:"host_commit"`     // 40 lower-case hex: the host build's revision
}

// DecodeDescriptor reads a descriptor and refuses one that isn't valid at now
// (now < expires_at_ms <= now + 60 s). Every refusal has the code
// INCOMPATIBLE_RUNTIME.
func DecodeDescriptor(data []byte, now time.Time) (Descriptor, error) {
	var d Descriptor
	err := decode(data, strict, append(d.members(),
		str("endpoint", &d.Endpoint, validEndpoint),
		str("transport", &d.Transport, func(s string) bool { return s == TransportUnix || s == TransportDirect }),
		str("bootstrap_token", &d.BootstrapToken, isHex(64)),
		integer("expires_at_ms", &d.ExpiresAtMS, 0, math.MaxInt64),
		str("host_commit", &d.HostCommit, isHex(40)),
	)...)
	if err == nil {
		err = d.check(now)
	}
	if err != nil {
		return Descriptor{}, badAnswer(refusal.IncompatibleRuntime, err)
	}
	return d, nil
}

func (d Descriptor) check(now time.Time) error {
	switch ms := now.UnixMilli(); {
	case d.Protocol != Protocol:
		return &fault{"protocol", "is another protocol"}
	case d.Transport == TransportUnix && d.Endpoint != UnixEndpoint:
		return &fault{"endpoint", "must be " + UnixEndpoint + " with transport unix"}
	case d.ExpiresAtMS <= ms:
		return &fault{"expires_at_ms", "is past: start the run again for a fresh registration"}
	case d.ExpiresAtMS > ms+MaxBootstrapMS:
		return &fault{"expires_at_ms", "is more than 60 s ahead"}
	}
	return nil
}

// Authority is the descriptor's HTTP authority, which the Host header repeats.
func (d Descriptor) Authority() string { return strings.TrimPrefix(d.Endpoint, "http://") }

// Encode marshals the descriptor for its file.
func (d Descriptor) Encode() []byte { return Encode(d) }
