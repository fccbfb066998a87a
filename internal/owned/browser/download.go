package browser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/chromedp/cdproto/browser"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

const (
	maxDownloads     = 100
	maxDownloadBytes = 512 << 20
)

// download is one file on its way out of the box.
//
//	refused   the run allows none; the engine threw it away
//	started   the engine is receiving it
//	saved     it was handed to the Saver
//	failed    cancelled, over its limit, or not saved
type download struct {
	Download
	guid  string
	began time.Time
	ended bool // nothing more is to be told of it
}

func downloadBegan(s *session, e browser.EventDownloadWillBegin) {
	b := s.b
	d := &download{guid: e.GUID, began: time.Now(), Download: Download{
		ID: numbered("download", len(b.downloads)+1), Name: cutText(path.Base(e.SuggestedFilename), 255),
		Size: -1, State: "started",
	}}
	if b.config.Saving == nil || b.config.Files == nil {
		d.State = "refused"
	}
	for _, t := range b.tabs {
		if f := t.frames[e.FrameID]; f != nil {
			d.Tab, f.owed = t.name, false
		}
	}
	if b.downloads = keep(b.downloads, d, maxDownloads); d.State == "started" && len(b.downloads) == maxDownloads {
		b.engine.post(browser.CancelDownload.Method, browser.CancelDownloadParams{GUID: e.GUID})
		d.State, d.ended = "failed", true
	}
	b.noteDownload(d)
	b.wake()
}

func downloadProgressed(s *session, e browser.EventDownloadProgress) {
	b := s.b
	for _, d := range b.downloads {
		if d.guid != e.GUID {
			continue
		}
		if n := int64(max(e.TotalBytes, e.ReceivedBytes)); n > 0 {
			d.Size = n
		}
		switch {
		case d.State != "started":
			d.ended = d.ended || e.State != browser.DownloadProgressStateInProgress
		case e.State == browser.DownloadProgressStateCanceled:
			d.State, d.ended = "failed", true
		case d.Size > maxDownloadBytes:
			b.engine.post(browser.CancelDownload.Method, browser.CancelDownloadParams{GUID: e.GUID})
			d.State, d.ended = "failed", true
		case e.State == browser.DownloadProgressStateCompleted:
			b.jobs.Go(func() { b.save(d) })
		}
		b.noteDownload(d)
		b.wake()
	}
}

// noteDownload tells a download's newest state in the notes, once. mu is held.
func (b *Browser) noteDownload(d *download) {
	for i, have := range b.notes.Downloads {
		if have.ID == d.ID {
			b.notes.Downloads[i] = d.Download
			return
		}
	}
	b.notes.Downloads = keep(b.notes.Downloads, d.Download, 20)
}

// save takes a finished download out of the box. The engine named it by its GUID,
// so the page chose no path.
func (b *Browser) save(d *download) {
	file := path.Join(b.config.DownloadDir, path.Base(d.guid))
	saved, err := b.copyOut(file, d.Name)
	b.mu.Lock()
	defer b.mu.Unlock()
	d.State, d.Saved, d.ended = "saved", saved, true
	if err != nil {
		d.State, d.Saved = "failed", ""
	}
	b.noteDownload(d)
	b.wake()
}

func (b *Browser) copyOut(file, name string) (string, error) {
	r, err := b.config.Files.OpenFile(file)
	if err != nil {
		return "", fmt.Errorf("reading a download: %w", err)
	}
	saved, err := b.config.Saving.Save(name, io.LimitReader(r, maxDownloadBytes))
	return saved, errors.Join(err, r.Close(), b.config.Files.RemoveFile(file))
}

// downloadTime is how long an answer waits for a download that its action has
// started, so that it can tell the outcome. More time is no error.
const downloadTime = 2 * time.Second

func (b *Browser) downloadCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.downloads)
}

// awaitDownload waits until one more download than before is announced.
func (b *Browser) awaitDownload(ctx context.Context, before int) {
	ctx, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	_ = b.until(ctx, func() bool { return len(b.downloads) > before || before == maxDownloads })
}

// settleDownloads waits until what an action has started to download since then is
// announced, and saved or refused. Either way the notes tell how far it came.
func (t *tab) settleDownloads(ctx context.Context, since time.Time) {
	ctx, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	_ = t.b.until(ctx, func() bool { return !t.owesDownload(since) })
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	for _, f := range t.frames {
		f.owed = false // what didn't come by now won't
	}
}

func (t *tab) owesDownload(since time.Time) bool {
	for _, f := range t.frames {
		if f.owed {
			return true
		}
	}
	for _, d := range t.b.downloads {
		if !d.ended && !d.began.Before(since) {
			return true
		}
	}
	return false
}

// DownloadsResult lists the run's downloads.
type DownloadsResult struct {
	Downloads []Download `json:"downloads"`
}

func listDownloads(_ context.Context, on *act, _ ownedv1.Action) (any, error) {
	b := on.b
	b.mu.Lock()
	defer b.mu.Unlock()
	r := DownloadsResult{Downloads: make([]Download, len(b.downloads))}
	for i, d := range b.downloads {
		r.Downloads[i] = d.Download
	}
	return r, nil
}

// saveDownload waits until one download is out of the box and tells its name.
// Where downloads are allowed each is saved as soon as it is complete.
func saveDownload(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	b, id := on.b, a.(SaveDownload).ID
	var found *Download
	err := b.until(ctx, func() bool {
		found = nil
		for _, d := range b.downloads {
			if d.ID == id {
				copied := d.Download
				found = &copied
			}
		}
		return found == nil || found.State != "started"
	})
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, failed(refusal.NotFound, "no download has that id")
	case found.State == "refused":
		return nil, failed(refusal.Failed, "this run takes no downloads: start it with a folder for them")
	case found.State == "failed":
		return nil, failed(refusal.Failed, "that download failed")
	}
	return *found, nil
}
