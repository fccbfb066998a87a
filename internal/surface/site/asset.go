package site

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// fixed are the files that are served under their own names, since whoever names
// them can't know a hash.
var fixed = map[string]string{
	"attended.js": "/attended.js",
	"callback.js": "/auth/callback.js", // among what other sites route here
	"idp.js":      "/assets/idp.js",
	"sw.js":       "/sw.js",
}

// asset is one built file, ready to be sent.
type asset struct {
	path, kind, tag string
	forever         bool
	plain, packed   []byte // packed is nil where it would save nothing
}

// assets are all of them by their names in dist/, and a hash of the whole build.
type assets struct {
	files map[string]*asset
	build string
}

func readAssets(files fs.FS) (*assets, error) {
	names, err := fs.Glob(files, "*")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	all, whole := &assets{files: map[string]*asset{}}, sha256.New()
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		a, err := newAsset(name, data)
		if err != nil {
			return nil, err
		}
		all.files[name] = a
		fmt.Fprintf(whole, "%s %s\n", name, a.tag)
	}
	all.build = hex.EncodeToString(whole.Sum(nil))[:16]
	return all, nil
}

// newAsset names a file by its content and compresses it.
func newAsset(name string, data []byte) (*asset, error) {
	sum := sha256.Sum256(data)
	hash, ext := hex.EncodeToString(sum[:])[:16], path.Ext(name)
	a := &asset{kind: kindOf(ext), tag: `"` + hash + `"`, plain: data}
	if a.kind == "" {
		return nil, fmt.Errorf("%s: no media type is known for %s", name, ext)
	}
	a.path, a.forever = fixed[name], false
	if a.path == "" {
		a.path, a.forever = "/assets/"+strings.TrimSuffix(name, ext)+"."+hash+ext, true
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if packed.Len() < len(data) {
		a.packed = packed.Bytes()
	}
	return a, nil
}

// kindOf is the media type of a file of ours; the system's own table isn't asked.
func kindOf(ext string) string {
	switch ext {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return ""
}

// ServeHTTP sends the file, compressed where the reader takes it.
func (a *asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	protect(h, toolsNowhere)
	h.Set("Content-Type", a.kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if a.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body, tag := a.plain, a.tag
	if a.packed != nil && acceptsGzip(r) {
		body, tag = a.packed, strings.TrimSuffix(a.tag, `"`)+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// acceptsGzip reads Accept-Encoding: a listed gzip whose weight isn't zero.
func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil || coding != "gzip" {
			continue
		}
		q := strings.TrimRight(params["q"], "0.")
		return params["q"] == "" || q != ""
	}
	return false
}
