package site_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"testing"

	"chaperone/internal/leaktest"
	"chaperone/internal/pagetest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

// picture is what a live view shows: a page drawn in grey.
var picture = func() string {
	img := image.NewRGBA(image.Rect(0, 0, 1280, 720))
	for y := range 720 {
		for x := range 1280 {
			shade := uint8(250)
			if y < 64 {
				shade = 205
			} else if x > 80 && x < 900 && y%72 > 24 && y%72 < 40 {
				shade = 225
			}
			img.Set(x, y, color.RGBA{shade, shade, shade, 255})
		}
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, img, nil); err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes())
}()

// open signs in and goes to a page of the portal.
func open(b *backend, p *pagetest.Page, path string) {
	b.t.Helper()
	p.Goto(b.origin + "/auth/login?next=" + path)
	p.Wait("document.querySelector('main h1') && !document.querySelector('[aria-busy=true]')")
}
