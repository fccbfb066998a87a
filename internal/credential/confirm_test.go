package credential_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"testing"

	"chaperone/internal/idptest"
	"chaperone/internal/refusal"
)

// TestConfirm: an assertion over a computed challenge is the person's own, of this
// relying party, over exactly that challenge and with user verification, or nothing.
func TestConfirm(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		ann, a, _ := b.enrol(t, "Ann")
		bob, bobs, _ := b.enrol(t, "Bob")
		challenge, other := sha256.Sum256([]byte("this")), sha256.Sum256([]byte("that"))
		rpID, ids, err := b.ConfirmKeys(ctx, ann.ID)
		if err != nil || rpID != "localhost" || len(ids) != 1 || ids[0] != base64.RawURLEncoding.EncodeToString(a.ID) {
			t.Errorf("keys: %s %v %v", rpID, ids, err)
		}
		assert := func(a *idptest.Authenticator, challenge [32]byte) []byte {
			t.Helper()
			return must[[]byte](t)(a.Get(fmt.Appendf(nil, `{"publicKey":{"challenge":%q}}`, base64.RawURLEncoding.EncodeToString(challenge[:]))))
		}
		confirm := func(person string, assertion []byte) error { return b.Confirm(ctx, person, challenge[:], assertion) }
		want(t, "another challenge", confirm(ann.ID, assert(a, other)), refusal.BadCredential)
		want(t, "another person's passkey", confirm(ann.ID, assert(bobs, challenge)), refusal.BadCredential)
		want(t, "for another person", confirm(bob.ID, assert(a, challenge)), refusal.BadCredential)
		want(t, "no JSON", confirm(ann.ID, []byte(`{`)), refusal.BadCredential)
		want(t, "not an assertion", confirm(ann.ID, []byte(`{"id":"x"}`)), refusal.BadCredential)
		for name, spoil := range map[string]func(*idptest.Authenticator){
			"no user verification": func(a *idptest.Authenticator) { a.Unverified = true },
			"another origin":       func(a *idptest.Authenticator) { a.Origin = "http://localhost:1" },
			"another RP ID":        func(a *idptest.Authenticator) { a.RPID = "example" },
			"a bad signature":      func(a *idptest.Authenticator) { a.Spoil = true },
			"a registration":       func(a *idptest.Authenticator) { a.Type = "webauthn.create" },
		} {
			bad := *a
			spoil(&bad)
			want(t, name, confirm(ann.ID, assert(&bad, challenge)), refusal.BadCredential)
		}
		a.Counter += 10
		want(t, "the good one", confirm(ann.ID, assert(a, challenge)), "")
		a.Counter = 1
		want(t, "a counter that went back", confirm(ann.ID, assert(a, challenge)), refusal.BadCredential)
		a.Counter = 50
		if err := b.Disable(ctx, bob.ID, ann.ID); err != nil {
			t.Fatal(err)
		}
		want(t, "who may not sign in", confirm(ann.ID, assert(a, challenge)), refusal.Disabled)
		b.check(t)
	})
}
