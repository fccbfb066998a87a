package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"chaperone/internal/portal/source"
	"chaperone/internal/relay"
)

// Config is chaperone.yaml. Every key has a default; one that isn't here is an
// error that names its line.
type Config struct {
	Listen       string   `yaml:"listen"`
	PublicOrigin string   `yaml:"public_origin"`
	Origins      []string `yaml:"origins"`
	TLSCert      string   `yaml:"tls_cert"`
	TLSKey       string   `yaml:"tls_key"`
	BehindProxy  []string `yaml:"behind_proxy"`

	Database    string        `yaml:"database"`
	Relay       string        `yaml:"relay"`
	RelaySecret string        `yaml:"relay_credentials_file"`
	RelayCA     string        `yaml:"relay_ca_file"`
	Issuer      Issuer        `yaml:"issuer"`
	Sources     source.Config `yaml:"sources"`
	Quotas      Quotas        `yaml:"quotas"`
	Browser     Browser       `yaml:"browser"`
	Audit       Audit         `yaml:"audit"`
	Engagements string        `yaml:"engagements"`
	Authority   string        `yaml:"authority"`
	Policy      string        `yaml:"policy"`
	Pages       []Page        `yaml:"pages"`
	Telemetry   Telemetry     `yaml:"telemetry"`
	Reviewed    Reviewed      `yaml:"reviewed"`
}

// Issuer is an OpenID provider instead of the built-in one.
type Issuer struct {
	URL              string   `yaml:"url"`
	ClientID         string   `yaml:"client_id"`
	ClientSecretFile string   `yaml:"client_secret_file"`
	ACRValues        []string `yaml:"acr_values"`
	Introspection    bool     `yaml:"introspection"`
	TenantClaim      string   `yaml:"tenant_claim"`
	RolesClaim       string   `yaml:"roles_claim"`
}

// Quotas are an account's.
type Quotas struct {
	Items     int64   `yaml:"items"`
	Bytes     int64   `yaml:"bytes"`
	AtOnce    int     `yaml:"at_once"`
	PerSecond float64 `yaml:"per_second"`
	Burst     int     `yaml:"burst"`
}

// Browser is about owned browsers.
type Browser struct {
	Path string `yaml:"path"`
	Most int    `yaml:"most"`
}

// Audit is about the log's key and checkpoints.
type Audit struct {
	Key         string `yaml:"key"`
	Checkpoints string `yaml:"checkpoints"`
}

// Reviewed is the operator's dated word that the browser surface may be offered on
// a public origin.
type Reviewed struct {
	By   string `yaml:"by"`
	Date string `yaml:"date"`
}

// DefaultConfig answers the embedded defaults of a home.
func DefaultConfig(home string) Config {
	return Config{
		Listen: "127.0.0.1:7080", PublicOrigin: "http://localhost:7080",
		Database: filepath.Join(home, "chaperone.db"), Relay: relay.Embedded,
		Sources:     source.Config{Inbox: source.InboxConfig{LMTP: defaultMail(home)}},
		Quotas:      Quotas{Items: 10_000, Bytes: 1 << 30, AtOnce: 8, PerSecond: 20, Burst: 40},
		Browser:     Browser{Most: 4},
		Audit:       Audit{Key: filepath.Join(home, "audit.key"), Checkpoints: filepath.Join(home, "checkpoints")},
		Engagements: filepath.Join(home, "engagements"),
		Authority:   "chaperone", Pages: []Page{},
	}
}

// defaultMail is where mail is taken unless something else is said.
func defaultMail(home string) string { return "unix:" + filepath.Join(home, "lmtp.sock") }

// ReadConfig reads the home's chaperone.yaml over the defaults; where there is none
// the defaults stand. Its error names the file, the line and the column.
func ReadConfig(home string) (Config, error) {
	c := DefaultConfig(home)
	path := filepath.Join(home, "chaperone.yaml")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, c.Check()
	}
	if err != nil {
		return c, err
	}
	c.PublicOrigin = "" // so that it follows listen where the file says nothing of it
	if err := decode(data, &c); err != nil {
		return c, fmt.Errorf("%s:%s", path, yaml.FormatError(err, false, true))
	}
	if c.PublicOrigin == "" {
		c.PublicOrigin = c.localOrigin()
	}
	if c.Sources.Inbox.IMAP != nil && c.Sources.Inbox.LMTP == defaultMail(home) {
		c.Sources.Inbox.LMTP = "" // the default, which an IMAP mailbox has no use for
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// localOrigin is the origin of a server that is reached on its own machine.
func (c Config) localOrigin() string {
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil { // which Check refuses
		return scheme + "://localhost"
	}
	return scheme + "://localhost:" + port
}

// decode reads a file over the defaults. One that says nothing leaves them, where
// the decoder would empty them.
func decode(data []byte, c *Config) error {
	var anything any
	if err := yaml.Unmarshal(data, &anything); err == nil && anything == nil {
		return nil
	}
	return yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(c)
}

// Check refuses what no server can be made of, and says how it would be right.
func (c Config) Check() error {
	if err := c.checkOrigin(); err != nil {
		return err
	}
	if err := c.checkListen(); err != nil {
		return err
	}
	for _, p := range c.BehindProxy {
		if _, err := proxyPrefix(p); err != nil {
			return fmt.Errorf("behind_proxy: %q is no address or network; list the proxy's own addresses, as in [10.0.0.5, 10.1.0.0/24]", p)
		}
	}
	if i := c.Issuer; i.URL != "" && i.ClientID == "" {
		return errors.New("issuer: client_id is missing; it is the name under which this server is registered there")
	}
	if q := c.Quotas; q.Items <= 0 || q.Bytes <= 0 || q.AtOnce <= 0 || q.PerSecond <= 0 || q.Burst <= 0 {
		return errors.New("quotas: each must be over 0")
	}
	if c.Browser.Most < 0 || c.Browser.Most > 64 {
		return errors.New("browser: most must be 0 to 64")
	}
	if r := c.Reviewed; (r.By == "") != (r.Date == "") {
		return errors.New("reviewed: give both by and date")
	}
	if c.Reviewed.Date != "" {
		if _, err := time.Parse(time.DateOnly, c.Reviewed.Date); err != nil {
			return errors.New("reviewed: date must be like 2026-11-30")
		}
	}
	if err := c.relay().Check(); err != nil {
		return err
	}
	if err := c.checkAttended(); err != nil {
		return err
	}
	if err := c.Telemetry.check(); err != nil {
		return err
	}
	return c.Sources.Validate()
}

func (c Config) checkOrigin() error {
	u, err := url.Parse(c.PublicOrigin)
	if err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.ToLower(u.Host) != u.Host {
		return fmt.Errorf("public_origin: %q is no origin; write scheme and host in lower case, and the port where it isn't the scheme's, as in https://chaperone.example.com", c.PublicOrigin)
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return errors.New("public_origin: an address can't be a passkey's home; use a name, on one machine http://localhost:PORT")
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && local(u.Hostname()):
	default:
		return fmt.Errorf("public_origin: %q must be https; plain http is for localhost alone", c.PublicOrigin)
	}
	return nil
}

// local tells whether a name is this machine's own.
func local(name string) bool { return name == "localhost" || strings.HasSuffix(name, ".localhost") }

// Public tells whether the origin is anybody's to reach.
func (c Config) Public() bool {
	u, err := url.Parse(c.PublicOrigin)
	return err != nil || !local(u.Hostname())
}

func (c Config) checkListen() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %q must be ADDRESS:PORT", c.Listen)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("tls_cert and tls_key: give both or neither")
	}
	if c.TLSCert != "" && !strings.HasPrefix(c.PublicOrigin, "https://") {
		return fmt.Errorf("public_origin: %q must be https, since tls_cert makes the server speak TLS alone", c.PublicOrigin)
	}
	addr, err := netip.ParseAddr(host)
	loopback := err == nil && addr.IsLoopback() || host == "localhost"
	if loopback || c.TLSCert != "" {
		return nil
	}
	if len(c.BehindProxy) == 0 {
		return fmt.Errorf("listen: %s is reached from other machines: give tls_cert and tls_key, or behind_proxy with the addresses of the proxy that ends TLS", c.Listen)
	}
	if !strings.HasPrefix(c.PublicOrigin, "https://") {
		return errors.New("behind_proxy: public_origin must be the https origin that the proxy serves")
	}
	return nil
}

// relay is where this node's others are.
func (c Config) relay() relay.Address {
	return relay.Address{URL: c.Relay, CredentialsFile: c.RelaySecret, CAFile: c.RelayCA}
}

// proxyPrefix reads a peer as an address or a network.
func proxyPrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}
