package browser

import "strings"

// Viewport of every tab, in CSS pixels.
const (
	ViewportWidth  = 1280
	ViewportHeight = 720
)

// features are switched off: each would talk to a server behind the page's back,
// put a model on the machine at a page's call, or change what a page may do by a
// field trial. There's one list, since a second flag would replace the first.
var features = []string{
	"OptimizationHints", "MediaRouter", "DialMediaRouteProvider", "Translate",
	"AutofillServerCommunication", "HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "FedCm",
	"OptimizationGuideModelDownloading", "OptimizationGuideOnDeviceModel", "OnDeviceModelService",
	"AIPromptAPI", "AIPromptAPIMultimodalInput", "AISummarizationAPI", "AIWriterAPI", "AIRewriterAPI",
	"AIProofreadingAPI", "TranslationAPI", "LanguageDetectionAPI",
	"SpareRendererForSitePerProcess", // one renderer more for each run, for navigations that may never come
	"Prerender2", "BackForwardCache", "InterestFeedContentSuggestions", "PaintHolding", "DestroyProfileOnBrowserClose",
}

// Flags is the engine's complete command line without its name. Nothing of it
// comes from a caller but where the proxy listens and, when the proxy has to open
// TLS for a path rule, the hash of the run's own CA key (base64 SHA-256 of its
// SubjectPublicKeyInfo; "" where there is none).
func Flags(proxyAddr, spki string) []string {
	flags := []string{
		"--remote-debugging-pipe",
		"--user-data-dir=/tmp/profile",
		"--no-first-run", "--no-default-browser-check", "--no-startup-window",
		"--disable-background-networking", "--disable-component-update", "--disable-default-apps",
		"--disable-sync", "--disable-domain-reliability", "--disable-client-side-phishing-detection",
		"--disable-breakpad", "--disable-crash-reporter", "--no-pings", "--disable-extensions",
		"--metrics-recording-only", "--disable-field-trial-config", "--disable-search-engine-choice-screen",
		"--password-store=basic", "--use-mock-keychain", "--disable-gpu", "--hide-scrollbars", "--mute-audio",
		// headless-shell puts every site of a tab into one renderer unless told.
		"--site-per-process",
		"--disable-quic", "--disable-notifications", "--disable-print-preview",
		// Pages of tabs that aren't active go on at full speed: an agent waits for them.
		"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows",
		"--disable-renderer-backgrounding", "--disable-hang-monitor",
		"--webrtc-ip-handling-policy=disable_non_proxied_udp",
		// Without <-loopback> loopback and link-local, so cloud metadata, would bypass the proxy.
		"--proxy-server=http://" + proxyAddr, "--proxy-bypass-list=<-loopback>",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--enable-features=WebMCP",
		"--disable-features=" + strings.Join(features, ","),
		"--lang=en-US", "--force-color-profile=srgb",
		"--window-size=1280,720",
	}
	if spki != "" {
		flags = append(flags, "--ignore-certificate-errors-spki-list="+spki)
	}
	return flags
}
