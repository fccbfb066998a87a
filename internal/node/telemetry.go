package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"chaperone/internal/attended/telemetry"
)

// Telemetry is where attended calls that are over are exported to; both, one or
// neither.
type Telemetry struct {
	OTLP     string   `yaml:"otlp"`
	Langfuse Langfuse `yaml:"langfuse"`
}

// Langfuse is a project there. Its keys are in files.
type Langfuse struct {
	URL           string `yaml:"url"`
	PublicKeyFile string `yaml:"public_key_file"`
	SecretKeyFile string `yaml:"secret_key_file"`
}

// on tells whether anything is exported.
func (t Telemetry) on() bool { return t.OTLP != "" || t.Langfuse.URL != "" }

func (t Telemetry) check() error {
	if t.OTLP != "" {
		if _, err := telemetry.OTLP(t.OTLP); err != nil {
			return fmt.Errorf("telemetry: otlp: %q must be the http or https address of a collector, as in http://localhost:4318", t.OTLP)
		}
	}
	l := t.Langfuse
	if (l.URL == "") != (l.PublicKeyFile == "") || (l.URL == "") != (l.SecretKeyFile == "") {
		return errors.New("telemetry: langfuse: give url, public_key_file and secret_key_file, or none")
	}
	if l.URL == "" {
		return nil
	}
	u, err := url.Parse(l.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !nearby(u.Hostname())) {
		return fmt.Errorf("telemetry: langfuse: url: %q must be https, since the project's keys go there; plain http is for localhost alone", l.URL)
	}
	return nil
}

func nearby(host string) bool {
	addr, err := netip.ParseAddr(host)
	return local(host) || err == nil && addr.IsLoopback()
}

// collectors reads the keys and answers where calls go.
func (t Telemetry) collectors() (all []telemetry.Collector, err error) {
	if t.OTLP != "" {
		c, err := telemetry.OTLP(t.OTLP)
		if err != nil {
			return nil, fmt.Errorf("telemetry: otlp: %w", err)
		}
		all = append(all, c)
	}
	if t.Langfuse.URL == "" {
		return all, nil
	}
	var keys [2]string
	for i, path := range []string{t.Langfuse.PublicKeyFile, t.Langfuse.SecretKeyFile} {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("telemetry: langfuse: %w", err)
		}
		keys[i] = strings.TrimSpace(string(data))
	}
	c, err := telemetry.Langfuse(t.Langfuse.URL, keys[0], keys[1])
	if err != nil {
		return nil, fmt.Errorf("telemetry: langfuse: %w", err)
	}
	return append(all, c), nil
}

// openTelemetry begins to export, where there is something to export and somewhere to.
func (n *Node) openTelemetry(context.Context) error {
	if n.attended == nil || !n.config.Telemetry.on() {
		return nil
	}
	to, err := n.config.Telemetry.collectors()
	if err != nil {
		return err
	}
	e, err := telemetry.Start(telemetry.Config{Book: n.attended, To: to, Version: n.version, Log: slog.Default()})
	if err != nil {
		return err
	}
	n.later(e.Close)
	return nil
}
