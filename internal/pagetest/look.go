package pagetest

import (
	"encoding/base64"
	"os"
	"path/filepath"
)

// Look changes how the page is looked at. A language holds from the next load on.
func (p *Page) Look(l Look) {
	p.t.Helper()
	if l.Width == 0 {
		l.Width, l.Height = 1280, 800
	}
	if l.Height == 0 {
		l.Height = 800
	}
	if l.Language == "" {
		l.Language = "en"
	}
	p.Do("Emulation.setDeviceMetricsOverride", object{"width": l.Width, "height": l.Height, "deviceScaleFactor": 1, "mobile": false}, nil)
	scheme, motion := "light", "no-preference"
	if l.Dark {
		scheme = "dark"
	}
	if l.Still {
		motion = "reduce"
	}
	p.Do("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}}}, nil)
	var version struct {
		UserAgent string `json:"userAgent"`
	}
	p.Do("Browser.getVersion", nil, &version)
	p.Do("Emulation.setUserAgentOverride", object{"userAgent": version.UserAgent, "acceptLanguage": l.Language}, nil)
}

// Picture answers a PNG of the whole page at its width, or of the window alone
// while a dialog covers it.
func (p *Page) Picture() []byte {
	p.t.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	var covered bool
	p.Eval("document.querySelector('dialog[open]') !== null", &covered)
	p.Do("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": !covered}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// Save writes a picture of the page to a file.
func (p *Page) Save(path string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, p.Picture(), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// Offline cuts the page off from the network, or lets it back.
func (p *Page) Offline(off bool) {
	p.t.Helper()
	p.Do("Network.emulateNetworkConditions", object{"offline": off, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}, nil)
}

// BypassPolicy switches the page's content security policy off from its next load
// on: for a tool that is put into the page, never for what a test judges.
func (p *Page) BypassPolicy(off bool) {
	p.t.Helper()
	p.Do("Page.setBypassCSP", object{"enabled": off}, nil)
}
