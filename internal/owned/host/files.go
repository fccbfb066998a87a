package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/jail"
)

// folders are the two of the host's folders that a run may use. Each is opened
// once; nothing outside of it can be named, and no link leads out of it.
type folders struct {
	uploads, downloads *os.Root
}

func openFolders(uploads, downloads string) (*folders, error) {
	f := &folders{}
	for _, want := range []struct {
		dir  string
		into **os.Root
	}{{uploads, &f.uploads}, {downloads, &f.downloads}} {
		if want.dir == "" {
			continue
		}
		root, err := os.OpenRoot(want.dir)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		*want.into = root
	}
	return f, nil
}

func (f *folders) close() error {
	var errs []error
	for _, root := range []*os.Root{f.uploads, f.downloads} {
		if root != nil {
			errs = append(errs, root.Close())
		}
	}
	return errors.Join(errs...)
}

// into completes a browser's Config with what it may read and write.
func (f *folders) into(c browser.Config, box *jail.Box) browser.Config {
	if f.uploads != nil {
		c.Files, c.Uploads = box, f.uploads.FS()
	}
	c.Files = box
	if f.uploads != nil {
		c.Uploads = f.uploads.FS()
	}
	if f.downloads != nil {
		c.Saving, c.DownloadDir = f, jail.DownloadDir
	}
	return c
}

// Save keeps a finished download under a name that is free in the folder. The
// suggested name is the site's: its folders are cut off, and what a shell or a
// file manager would treat in a way of its own is replaced.
func (f *folders) Save(suggested string, r io.Reader) (saved string, err error) {
	name := safeName(suggested)
	stem, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
	for n := 1; n <= 10_000; n++ {
		file, err := f.downloads.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			name = fmt.Sprintf("%s-%d%s", stem, n+1, ext)
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = io.Copy(file, r)
		if err := errors.Join(err, file.Close()); err != nil {
			return "", errors.Join(err, f.downloads.Remove(name))
		}
		return name, nil
	}
	return "", fmt.Errorf("10,000 downloads of one name: %w", fs.ErrExist)
}

// safeName makes one plain file name of at most 120 bytes out of any text.
func safeName(suggested string) string {
	base := suggested[strings.LastIndexAny(suggested, `/\`)+1:]
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, base)
	name = strings.TrimLeft(name, ".-") // no hidden file, no option
	if len(name) > 120 {
		name = name[len(name)-120:] // the end holds the extension
		name = strings.TrimLeft(name, ".-")
	}
	if name == "" {
		return "download"
	}
	return name
}
