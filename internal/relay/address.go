package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Embedded is the address of no bus at all: a node alone.
const Embedded = "embedded"

// Address says where the bus is: Embedded, or one or more URLs of one NATS cluster's
// servers with commas between.
type Address struct {
	URL             string
	CredentialsFile string // an nkey seed, or user:password
	CAFile          string // whose certificates count, "" for the system's
}

// Alone tells whether the address is that of a node alone.
func (a Address) Alone() bool { return a.URL == Embedded }

// Check refuses an address over which arguments would travel unprotected, or where a
// secret stands in it, and says how it would be right.
func (a Address) Check() error {
	if a.Alone() {
		if a.CredentialsFile != "" || a.CAFile != "" {
			return errors.New("relay_credentials_file and relay_ca_file are for relay: nats://… or tls://…")
		}
		return nil
	}
	for one := range strings.SplitSeq(a.URL, ",") {
		u, err := url.Parse(one)
		switch {
		case err != nil || u.Host == "" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "nats" && u.Scheme != "tls":
			return errors.New("relay: write embedded for a node alone, nats://localhost:4222 or tls://nats.example.com:4222; several servers of one cluster have commas between")
		case u.User != nil:
			return errors.New("relay: a secret has no place in the address; name a file in relay_credentials_file")
		case u.Scheme == "nats" && !loopback(u.Hostname()):
			return fmt.Errorf("relay: calls' arguments would travel in the clear to %s: write tls:// instead of nats://", u.Hostname())
		case u.Scheme == "nats" && a.CAFile != "":
			return errors.New("relay_ca_file is for relay: tls://…")
		}
	}
	if a.CredentialsFile == "" {
		return errors.New("relay: calls' arguments travel only where the server demands credentials; name the file with them in relay_credentials_file")
	}
	return nil
}

func loopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	return host == "localhost"
}
