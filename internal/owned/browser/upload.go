package browser

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// UploadResult answers Upload.
type UploadResult struct {
	Uploaded []string `json:"uploaded"`
	URL      string   `json:"url"`
}

// upload copies files of the host's folder into the box and gives them to a file
// input. The page reads them when it likes, so they stay until the box goes.
func upload(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	p := a.(Upload)
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	if on.b.config.Uploads == nil || on.b.config.Files == nil {
		return nil, failed(refusal.Failed, "no folder to upload from: start with --files DIR")
	}
	for _, name := range p.Files {
		if err := bareName(name); err != nil {
			return nil, err
		}
	}
	f, v, err := t.seek(ctx, p.Selector, "fileInput", func() []any { return []any{p.Selector, left(ctx), len(p.Files)} })
	if err != nil {
		return nil, err
	}
	if !v.Done {
		return nil, missing(ctx, v)
	}
	var paths []string
	for _, name := range p.Files {
		path, err := on.b.boxed(name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	watch := t.beginNavigationWatch()
	input, err := t.objectIn(ctx, f, "() => lib.uploadTarget()")
	if err != nil || input == nil {
		return nil, errors.Join(err, errDestroyed)
	}
	on.sent = true
	if _, err := cdp.Call(ctx, f.process(), dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: paths, ObjectID: input.id}); err != nil {
		return nil, on.confirmed(ctx, watch, err)
	}
	have, err := ask[[]string](ctx, t, f, "uploaded")
	if err == nil && !slices.Equal(have, p.Files) {
		return nil, untaken(verdict{Why: "refused"})
	}
	if err := on.confirmed(ctx, watch, err); err != nil {
		return nil, err
	}
	return UploadResult{Uploaded: p.Files, URL: t.mainURL()}, nil
}

// bareName refuses what isn't the name of a file in the folder itself.
func bareName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "/\\\x00") || len(name) > 200 {
		return failed(refusal.Failed, "a file is named by its bare name: no folder, no path, at most 200 bytes")
	}
	return nil
}

// hostFile opens a regular file of the host's folder that isn't over limit bytes.
func (b *Browser) hostFile(name string, limit int64) (fs.File, error) {
	if err := bareName(name); err != nil {
		return nil, err
	}
	if b.config.Uploads == nil {
		return nil, failed(refusal.Failed, "no folder to read from: start with --files DIR")
	}
	file, err := b.config.Uploads.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failed(refusal.NotFound, "the folder has no file of that name")
	}
	if err != nil {
		return nil, failed(refusal.Failed, "the file can't be read")
	}
	info, err := file.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		err = failed(refusal.Failed, "it is no regular file")
	case info.Size() > limit:
		err = failed(refusal.TooLarge, "the file is over %d MiB", limit>>20)
	default:
		return file, nil
	}
	return nil, errors.Join(err, file.Close())
}

// boxed copies one file into the box and answers its path there.
func (b *Browser) boxed(name string) (string, error) {
	file, err := b.hostFile(name, MaxUploadBytes)
	if err != nil {
		return "", err
	}
	defer file.Close() // read only: nothing is lost
	path, err := b.config.Files.WriteFile(name, io.LimitReader(file, MaxUploadBytes))
	if errors.Is(err, refusal.TooLarge) {
		return "", failed(refusal.TooLarge, "the box has no room for the file")
	}
	if err != nil {
		return "", failed(refusal.Failed, "the file can't be put into the box")
	}
	return path, nil
}
