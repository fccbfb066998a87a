package source

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// blobs is the directory of hosted content: XX/FILE by the first two digits of
// the digest, and tmp/ for what is being written. A file there is whole: it was
// synced before it got its name, and is never written again.
type blobs struct{ dir string }

func openBlobs(dir string) (blobs, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return blobs{}, err
	}
	if err := os.MkdirAll(filepath.Join(abs, "tmp"), 0o700); err != nil {
		return blobs{}, fmt.Errorf("hosted content can't be kept in %s: %w", abs, err)
	}
	return blobs{abs}, nil
}

func (b blobs) path(file string) string { return filepath.Join(b.dir, file[:2], file) }

// write puts content under that name unless it is there already, and returns once
// both the content and the name are on disk.
func (b blobs) write(file string, content []byte) error {
	to := b.path(file)
	if info, err := os.Lstat(to); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(content)) {
		return syncDir(filepath.Dir(to)) // another writer may not have come to that
	}
	if err := os.Mkdir(filepath.Dir(to), 0o700); err == nil {
		if err := syncDir(b.dir); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	tmp := filepath.Join(b.dir, "tmp", rand.Text())
	if err := writeSynced(tmp, content); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	if err := os.Rename(tmp, to); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	return syncDir(filepath.Dir(to))
}

// writeSynced writes a new file and returns once it is on disk.
func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

var errDamaged = errors.New("content isn't what its row says")

// read answers the whole content where it is what its row says.
func (b blobs) read(file, digest string, size int64) ([]byte, error) {
	f, err := os.Open(b.path(file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, size+1))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	want, err := hex.DecodeString(digest)
	if err != nil || !bytes.Equal(sum[:], want) {
		return nil, errDamaged
	}
	return content, nil
}

func (b blobs) remove(file string) error { return ignoreMissing(os.Remove(b.path(file))) }

// old answers the paths of all files that nobody wrote for that long.
func (b blobs) old(age time.Duration) (files []string, err error) {
	limit := time.Now().Add(-age)
	err = filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		if info.ModTime().Before(limit) {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
