package jail_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"chaperone/internal/owned/jail"
)

func TestMain(m *testing.M) {
	jail.Init()
	os.Exit(m.Run())
}

// flags are Chromium's, as the design page has them.
func flags(more ...string) []string {
	return append([]string{
		"--remote-debugging-pipe", "--user-data-dir=" + jail.ProfileDir, "--no-first-run", "--no-default-browser-check",
		"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
		"--disable-breakpad", "--disable-crash-reporter", "--no-pings", "--disable-extensions", "--metrics-recording-only",
		"--disable-field-trial-config", "--password-store=basic", "--disable-gpu", "--hide-scrollbars", "--mute-audio",
		"--proxy-server=http://" + jail.ProxyAddr, "--proxy-bypass-list=<-loopback>",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
	}, more...)
}

func startChromium(t testing.TB, limits jail.Limits) *jail.Box {
	t.Helper()
	engine, err := jail.FindEngine("")
	if err != nil {
		t.Fatal(err)
	}
	b, err := jail.Start(context.Background(), jail.Config{Engine: engine, Args: flags(), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestChromiumAnswersOverThePipe(t *testing.T) {
	begin := time.Now()
	b := startChromium(t, jail.Limits{})
	up := time.Since(begin)
	fmt.Fprint(b.Pipe(), `{"id":1,"method":"Browser.getVersion"}`+"\x00")
	answer, err := bufio.NewReader(b.Pipe()).ReadString(0)
	if err != nil {
		t.Fatal(err, b.Err(), b.LastWords())
	}
	if !strings.Contains(answer, "HeadlessChrome") {
		t.Error(answer)
	}
	t.Logf("box up after %v, first answer after %v", up, time.Since(begin))
	use, err := b.Usage()
	t.Logf("%+v %v %s", use, err, b.LastWords())
}

func TestProbe(t *testing.T) {
	begin := time.Now()
	if err := jail.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(begin))
}
