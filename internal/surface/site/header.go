package site

import (
	"net/http"
	"strings"
)

// policy is what a page of ours may do: load its own scripts, styles and pictures,
// talk to this origin, and nothing else. Pictures made in the page (a live view)
// are blobs. No string becomes a script's address but the service worker's.
var policy = strings.Join([]string{
	"default-src 'none'",
	"script-src 'self'",
	"style-src 'self'",
	"img-src 'self' blob:",
	"connect-src 'self'",
	"worker-src 'self'",
	"manifest-src 'self'",
	"base-uri 'none'",
	"form-action 'self'",
	"frame-ancestors 'none'",
	"require-trusted-types-for 'script'",
	"trusted-types chaperone",
}, "; ")

// features are switched off for every page; passkeys stay for our own.
const features = "accelerometer=(), autoplay=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), microphone=(), midi=(), payment=(), usb=(), publickey-credentials-get=(self), publickey-credentials-create=(self)"

// Where a page's scripts may register tools.
const (
	toolsHere    = "tools=(self)"
	toolsNowhere = "tools=()"
)

// protect sets what every answer carries.
func protect(h http.Header, tools string) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", features+", "+tools)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}
