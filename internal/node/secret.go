package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// secretSize is what a home's key has, in bytes.
const secretSize = 32

// secret answers the key at path and draws one where there is none. A key that
// others may read is refused: whoever copied it can open what it seals.
func secret(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return draw(path)
	case err != nil:
		return nil, err
	case len(data) != secretSize:
		return nil, fmt.Errorf("%s has %d bytes instead of %d; put back the one that belongs there", path, len(data), secretSize)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it, and take it as known to them", path)
	}
	return data, nil
}

// draw makes a key. Of two starts at once one makes it and the other reads it.
func draw(path string) ([]byte, error) {
	key := make([]byte, secretSize)
	rand.Read(key)
	temporary, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(key)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return nil, err
	}
	// A link fails where the name is taken, so nobody's key is replaced.
	if err := os.Link(temporary.Name(), path); errors.Is(err, fs.ErrExist) {
		return secret(path)
	} else if err != nil {
		return nil, err
	}
	return key, nil
}
