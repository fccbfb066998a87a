package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// signing is the Ed25519 key that signs checkpoints, in the note package's text.
type signing struct {
	signer   note.Signer
	verifier string // the public key
}

// signingKey reads the key at path, and makes it where there is none.
func signingKey(path string) (signing, error) {
	k, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := makeKey(path); err != nil {
		return signing{}, err
	}
	return readKey(path)
}

// readKey reads the key at path; it never makes one. Errors don't repeat it.
func readKey(path string) (signing, error) {
	info, err := os.Stat(path)
	if err != nil {
		return signing{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return signing{}, fmt.Errorf("audit key %s is open to others: chmod 600 it", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return signing{}, err
	}
	text := strings.TrimSpace(string(data))
	bad := fmt.Errorf("audit key %s is no signing key", path)
	signer, err := note.NewSigner(text)
	if err != nil {
		return signing{}, bad
	}
	// PRIVATE+KEY+<name>+<hash>+<algorithm and seed>, whose base64 may hold a + too.
	raw, err := base64.StdEncoding.DecodeString(strings.SplitN(text, "+", 5)[4])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return signing{}, bad
	}
	public := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	verifier, err := note.NewEd25519VerifierKey(signer.Name(), public)
	if err != nil {
		return signing{}, bad
	}
	return signing{signer, verifier}, nil
}

// makeKey writes a new key at path. Of two processes that do so at once one
// wins, and both read the winner's.
func makeKey(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	text, _, err := note.GenerateKey(rand.Reader, signedName)
	if err != nil {
		return err
	}
	// A name of its own: what a killed process left may be the published key.
	temporary := fmt.Sprintf("%s.%d.%s.tmp", path, os.Getpid(), rand.Text())
	if err := writeSynced(temporary, []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	err = os.Link(temporary, path)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(temporary))
}
