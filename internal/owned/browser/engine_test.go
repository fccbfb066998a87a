package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/sitetest"
)

// What the engine mustn't offer pages is off, and what it must is on.
func TestEngineFeatures(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Features</title>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	for expression, want := range map[string]string{
		`typeof LanguageModel + typeof Summarizer + typeof Writer + typeof Translator + typeof LanguageDetector`: `"undefinedundefinedundefinedundefinedundefined"`,
		`typeof IdentityCredential`:                          `"undefined"`,
		`'modelContext' in document`:                         `true`,
		`[innerWidth, innerHeight, devicePixelRatio].join()`: `"1280,720,1"`,
		`navigator.language`:                                 `"en-US"`,
		`document.visibilityState + document.hasFocus()`:     `"visibletrue"`,
		`navigator.webdriver`:                                `true`,
	} {
		if got := eval(t, run, expression); got != want {
			t.Errorf("%s: got %s, want %s", expression, got, want)
		}
	}
	for _, pid := range children(t, run.Box.PID()) {
		line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if err == nil && strings.Contains(string(line), "--utility-sub-type=on_device_model") {
			t.Errorf("a model service runs: %.200q", line)
		}
	}
}

// One list each: a second flag of the same name would replace the first.
func TestFlagsHaveNoTwins(t *testing.T) {
	seen := map[string]bool{}
	for _, flag := range browser.Flags("127.0.0.1:3128", "c3BraQ==") {
		name, _, _ := strings.Cut(flag, "=")
		if seen[name] || !strings.HasPrefix(name, "--") || name == "--no-sandbox" {
			t.Errorf("flag %s", flag)
		}
		seen[name] = true
	}
	for _, name := range []string{"--remote-debugging-pipe", "--proxy-bypass-list", "--ignore-certificate-errors-spki-list", "--host-resolver-rules"} {
		if !seen[name] {
			t.Errorf("no %s", name)
		}
	}
}

// A launch after a close knows nothing of what was before.
func TestLaunchAfterCloseForgets(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title>`)
	run := shared(t)
	for range 2 {
		visit(t, run, site.URL("/"))
		if got := eval(t, run, `document.cookie + (localStorage.kept ?? '')`); got != `""` {
			t.Errorf("it knows %s", got)
		}
		must(t, run, ownedv1.EvalJS{Expression: `document.cookie = 'a=1'; void (localStorage.kept = 'b')`})
		must(t, run, ownedv1.Close{})
		must(t, run, ownedv1.Launch{Headless: true})
	}
}
