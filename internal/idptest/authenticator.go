// Package idptest is what tests of signing in stand on: authenticators and
// providers that aren't ours.
//
// Contents: [Authenticator] is a WebAuthn authenticator in software, which can
// also misbehave; [Faulty] is an OpenID provider that signs whatever a test asks
// for, to be the dishonest other party; [Panva] and [Keycloak] are two foreign
// providers, really running; [Chromium] is a real browser with a virtual
// authenticator, driven over a pipe.
//
// None of it stands in for what is ours. A missing prerequisite fails the test
// and names what installs it.
//
// Floor: test kit.
package idptest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// Authenticator is a WebAuthn authenticator with at most one passkey. Its fields
// may be changed between ceremonies, to misbehave.
type Authenticator struct {
	Origin string // what the browser says, e.g. "http://localhost:7080"
	RPID   string // what it is asked about, e.g. "localhost"

	Unverified bool   // no user verification
	Absent     bool   // no user presence
	Counter    uint32 // sent as it is, and then counted on where Counting
	Counting   bool
	Challenge  []byte // instead of the challenge that it was given
	Type       string // of the client data, instead of webauthn.create or .get
	Spoil      bool   // a signature that isn't one

	ID     []byte // of the passkey; nil before Create
	Handle []byte // of the person
	key    *ecdsa.PrivateKey
}

// flags of authenticator data.
const (
	userPresent  = 0x01
	userVerified = 0x04
	attested     = 0x40
)

// options are those of create and get, as far as they are read here.
type options struct {
	PublicKey struct {
		Challenge string `json:"challenge"`
		User      struct {
			ID string `json:"id"`
		} `json:"user"`
	} `json:"publicKey"`
}

// Create makes a passkey for the options of navigator.credentials.create and
// answers what the page would send.
func (a *Authenticator) Create(opts []byte) ([]byte, error) {
	var o options
	if err := json.Unmarshal(opts, &o); err != nil {
		return nil, err
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if a.Handle, err = base64.RawURLEncoding.DecodeString(o.PublicKey.User.ID); err != nil {
		return nil, err
	}
	a.ID = make([]byte, 32)
	rand.Read(a.ID)
	client, err := a.clientData("webauthn.create", o.PublicKey.Challenge)
	if err != nil {
		return nil, err
	}
	data := a.data(attested)
	data = append(data, make([]byte, 16)...) // an AAGUID that tells nothing
	data = binary.BigEndian.AppendUint16(data, uint16(len(a.ID)))
	data = append(data, a.ID...)
	public, err := webauthncbor.Marshal(webauthncose.EC2PublicKeyData{
		PublicKeyData: webauthncose.PublicKeyData{KeyType: int64(webauthncose.EllipticKey), Algorithm: int64(webauthncose.AlgES256)},
		Curve:         1, XCoord: a.key.X.FillBytes(make([]byte, 32)), YCoord: a.key.Y.FillBytes(make([]byte, 32)),
	})
	if err != nil {
		return nil, err
	}
	object, err := webauthncbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": append(data, public...)})
	if err != nil {
		return nil, err
	}
	return a.answer(map[string]any{
		"clientDataJSON": encode(client), "attestationObject": encode(object), "transports": []string{"internal"},
	})
}

// Get answers the options of navigator.credentials.get with what the page would
// send.
func (a *Authenticator) Get(opts []byte) ([]byte, error) {
	var o options
	if err := json.Unmarshal(opts, &o); err != nil {
		return nil, err
	}
	if a.key == nil {
		return nil, fmt.Errorf("this authenticator has no passkey")
	}
	client, err := a.clientData("webauthn.get", o.PublicKey.Challenge)
	if err != nil {
		return nil, err
	}
	if a.Counting {
		a.Counter++
	}
	data := a.data(0)
	sum := sha256.Sum256(client)
	digest := sha256.Sum256(append(bytes.Clone(data), sum[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, digest[:])
	if err != nil {
		return nil, err
	}
	if a.Spoil {
		signature[len(signature)-1] ^= 1
	}
	return a.answer(map[string]any{
		"clientDataJSON": encode(client), "authenticatorData": encode(data), "signature": encode(signature), "userHandle": encode(a.Handle),
	})
}

// clientData is what a browser would sign over.
func (a *Authenticator) clientData(kind, challenge string) ([]byte, error) {
	if a.Challenge != nil {
		challenge = encode(a.Challenge)
	}
	if a.Type != "" {
		kind = a.Type
	}
	return json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.Origin, "crossOrigin": false})
}

// data is authenticator data up to the counter.
func (a *Authenticator) data(flags byte) []byte {
	if !a.Absent {
		flags |= userPresent
	}
	if !a.Unverified {
		flags |= userVerified
	}
	rp := sha256.Sum256([]byte(a.RPID))
	return binary.BigEndian.AppendUint32(append(rp[:], flags), a.Counter)
}

func (a *Authenticator) answer(response map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"id": encode(a.ID), "rawId": encode(a.ID), "type": "public-key", "response": response, "clientExtensionResults": map[string]any{},
	})
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
