package node

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"chaperone/internal/attended/controlv1"
	attended "chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/relay"
	"chaperone/internal/surface/guard"
	"chaperone/internal/surface/pagesock"
)

// Page is what the operator says of pages that aren't this server's: which of their
// tools only read. Every other tool of theirs changes something.
type Page struct {
	Origin string   `yaml:"origin"`
	Read   []string `yaml:"read"`
}

// beatTime is how often attended control looks after what time does, and tells the
// other nodes that this one lives.
const beatTime = 5 * time.Second

// openAttended makes attended control: its ledger, its authority, and the page's
// side of it. Where nothing can be asked whether a sign-in still stands there is
// none: the page's side answers 503, and readiness and the start say why.
func (n *Node) openAttended(ctx context.Context) error {
	key, err := secret(filepath.Join(n.home, "control.key"))
	if err != nil {
		return err
	}
	if n.party.Introspection {
		if n.control, err = n.authority(ctx, key); err != nil {
			return err
		}
		n.later(n.endAttended)
	} else {
		n.off = "Attended control is off: nothing tells whether a sign-in still stands; set introspection under issuer in chaperone.yaml."
		n.notes = append(n.notes, n.off)
	}
	var stands func(context.Context, string, string) error
	if n.provider != nil {
		stands = n.provider.Stands
	}
	n.pages, err = pagesock.New(pagesock.Config{Stands: stands, Origin: n.config.PublicOrigin, Embedding: n.config.Origins, Key: key, Sessions: n.sessions,
		Provider: n.party, Authority: n.control, Log: slog.Default()})
	if err != nil {
		return err
	}
	n.party.Armed = n.pages.Armed
	return nil
}

// endAttended ends the channels, and then waits for their sockets.
func (n *Node) endAttended(ctx context.Context) error {
	err := n.control.Close(ctx)
	if n.pages != nil {
		err = errors.Join(err, n.pages.Close(ctx))
	}
	return err
}

// authority makes the one authority over the attended ledger, and looks after that
// ledger until the node closes, which is after its last channel.
func (n *Node) authority(ctx context.Context, key []byte) (*live.Authority, error) {
	mark, err := hkdf.Key(sha256.New, key, nil, "chaperone mark v1", 8)
	if err != nil {
		return nil, err
	}
	if n.attended, err = attended.NewBook(n.db, n.log, Tenant, attended.Options{Receipts: n.receipts, Exports: n.config.Telemetry.on(), Mark: hex.EncodeToString(mark)}); err != nil {
		return nil, err
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "chaperone references v1", 32)
	if err != nil {
		return nil, err
	}
	refs, err := ref.NewKey(derived)
	if err != nil {
		return nil, err
	}
	name, err := controlv1.ParseID(n.config.Authority)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	// The store's verbs are tried before anything is built on them; this also ends
	// what nodes that are gone left.
	if err := n.attended.Repair(ctx); err != nil {
		return nil, err
	}
	if err := n.openRelay(ctx, key); err != nil {
		return nil, err
	}
	n.beat(ctx)
	n.look(context.WithoutCancel(ctx))
	return live.New(live.Config{Book: n.attended, Policy: n.policies, Passkeys: n.credentials, Key: refs, Tenant: Tenant, Name: name, Origin: n.config.PublicOrigin,
		Reads: n.config.reads(), Bus: n.bus, Grants: (&guard.Control{Families: n.tokens, Connections: n.ledger}).Look})
}

// openRelay reaches the other nodes. It is closed after the authority, which answers by it.
func (n *Node) openRelay(ctx context.Context, key []byte) error {
	if n.config.relay().Alone() {
		return nil
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "chaperone relay v1", 32)
	if err != nil {
		return err
	}
	bus, err := relay.Dial(ctx, relay.Options{Address: n.config.relay(), Node: n.attended.Node(), Key: derived, Log: slog.Default()})
	if err != nil {
		return err
	}
	n.bus = bus
	n.later(bus.Close)
	return nil
}

// look repairs, again and again, until the node closes. Each round is safe to fail.
func (n *Node) look(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	n.later(func(context.Context) error { stop(); <-done; return nil })
	go func() {
		defer close(done)
		tick := time.NewTicker(beatTime)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			n.beat(ctx)
			if err := n.attended.Repair(ctx); err != nil && ctx.Err() == nil {
				slog.Error("background: attended control", "code", string(refusal.Of(err)))
			}
		}
	}()
}

// beat tells the other nodes that this one lives, and this one whether it can write.
func (n *Node) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	n.beats.put(n.attended.Beat(ctx))
}

// disarm ends what was armed in a browser whose session has ended.
func (n *Node) disarm(ctx context.Context, browser ref.Browser) error {
	if n.attended == nil {
		return nil
	}
	return n.attended.EndBrowser(ctx, browser, refusal.SignedOut)
}

// reads is pages as the authority looks it up.
func (c Config) reads() map[string][]string {
	all := map[string][]string{}
	for _, p := range c.Pages {
		all[p.Origin] = append(all[p.Origin], p.Read...)
	}
	return all
}

// checkAttended refuses what attended control can't be made of.
func (c Config) checkAttended() error {
	if _, err := controlv1.ParseID(c.Authority); err != nil {
		return fmt.Errorf("authority: %q must begin with a letter or digit and hold only those, dots, colons, dashes and underscores", c.Authority)
	}
	for i, o := range c.Origins {
		if _, err := controlv1.ParseOrigin(o); err != nil {
			return fmt.Errorf("origins: %q is no origin; write it as the browser does, as in https://shop.example.com", o)
		}
		if o == c.PublicOrigin || slices.Contains(c.Origins[:i], o) {
			return fmt.Errorf("origins: %q stands twice, or is public_origin", o)
		}
	}
	seen := map[string]bool{}
	for _, p := range c.Pages {
		if _, err := controlv1.ParseOrigin(p.Origin); err != nil {
			return fmt.Errorf("pages: %q is no origin; write it as the browser does, as in https://shop.example.com", p.Origin)
		}
		if p.Origin == c.PublicOrigin {
			return fmt.Errorf("pages: %q is this server's own, whose tools say themselves what they change", p.Origin)
		}
		if seen[p.Origin] {
			return fmt.Errorf("pages: %q stands twice", p.Origin)
		}
		seen[p.Origin] = true
		for _, t := range p.Read {
			if _, err := controlv1.ParseID(t); err != nil {
				return fmt.Errorf("pages: %s: %q is no tool's id", p.Origin, t)
			}
		}
	}
	return nil
}
