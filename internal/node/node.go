// Package node composes one server from its configuration: it opens the database
// and the authorities over it, puts the runtimes above them and the surfaces above
// those, and starts and ends all of it in order (spec/product.md, "One server").
//
// It contains
//
//	config.go   chaperone.yaml: its keys, defaults and what is refused
//	text.go     the default chaperone.yaml, as people read it
//	node.go     Open and Close: what is made of what
//	ended.go    what ends with a session
//	attended.go attended control: its key, ledger, authority and pages
//	policies.go what decides over calls, and over launches
//	acting.go   and as agents reach it; telemetry.go: where its calls are exported
//	sources.go  where items are, and the mail that comes in
//	surfaces.go the one table of routes
//	serve.go    the listeners, readiness, and an end in order
//	consent.go  a person's yes: a grant in the ledger and tokens in oauth
//	welcome.go  how a person begins
//	secret.go   the home's own keys
//
// A node keeps nothing durable of its own. It is ready only when it can serve; told
// to end it takes no new calls, gives those in flight 20 seconds, ends its browsers
// and then closes what it opened, in the reverse order. A kill at any moment
// leaves what each authority says of itself.
//
// Floor: composition.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	attended "chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/audit"
	"chaperone/internal/credential"
	"chaperone/internal/idp"
	"chaperone/internal/oauth"
	"chaperone/internal/oidc"
	"chaperone/internal/owned/fleet"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/run"
	"chaperone/internal/policy"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/source"
	"chaperone/internal/refusal"
	"chaperone/internal/relay"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/surface/guard"
	"chaperone/internal/surface/pagesock"
)

// Tenant owns what a server records; the commands record in the same one.
const Tenant = "local"

// Node is one server. Open makes it, Serve runs it, Close undoes Open.
type Node struct {
	home, version string
	config        Config
	notes         []string // what a person should know at the start

	db          *store.DB
	log         *audit.Log
	sessions    *session.Book
	credentials *credential.Book // with another provider, of passkeys to confirm with alone
	tokens      *oauth.Book
	ledger      *ledger.Book
	runs        *run.Book
	sources     *source.Set
	desk        *operation.Desk
	provider    *idp.Provider // nil with another one
	party       *oidc.Party
	policies    *policy.Set
	receipts    *policy.Book
	attended    *attended.Book
	control     *live.Authority // nil, as the one above, where attended control is off
	off         string          // why it is
	bus         relay.Bus       // to the other nodes
	pages       *pagesock.Server
	fleet       *fleet.Fleet // nil where no browser can be contained
	routes      []guard.Route
	handler     http.Handler
	health      health
	beats       beats
	ended       ended
	ending      chan struct{} // closed once the server is told to end
	listening   func() error  // see WhenListening; may be nil

	closers []func(context.Context) error // in the order of opening
}

// Open makes a server from a home and its configuration. It migrates the database,
// and listens nowhere yet. After an error nothing is left open.
func Open(ctx context.Context, home string, config Config, version string) (*Node, error) {
	n := &Node{home: home, version: version, config: config, ending: make(chan struct{}), bus: relay.Alone{}}
	for _, step := range []func(context.Context) error{n.openGround, n.openSignIn, n.openAccount, n.openPolicies, n.openAttended, n.openTelemetry, n.openFleet, n.openSurfaces} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, n.Close(context.WithoutCancel(ctx)))
		}
	}
	return n, nil
}

// Routes answers the table that the server is guarded by.
func (n *Node) Routes() []guard.Route { return slices.Clone(n.routes) }

// later closes something when the node closes, the last opened first.
func (n *Node) later(f func(context.Context) error) { n.closers = append(n.closers, f) }

// Close ends what Open began.
func (n *Node) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	var errs []error
	for len(n.closers) > 0 {
		last := n.closers[len(n.closers)-1]
		n.closers = n.closers[:len(n.closers)-1]
		errs = append(errs, last(ctx))
	}
	return errors.Join(errs...)
}

// closeTime bounds an end: browsers, the last leaves, the database.
const closeTime = 30 * time.Second

// commit stands around each commit of every node's database; nil in every server.
// Tests that kill a server at a chosen step set it (see store.Options).
var commit func(commit func() error) error

// openGround opens the database and the log over it.
func (n *Node) openGround(ctx context.Context) (err error) {
	if n.db, err = store.Open(ctx, n.config.Database, store.Options{Migrate: true, Commit: commit}); err != nil {
		return err
	}
	n.later(func(context.Context) error { return n.db.Close() })
	n.log, err = audit.Open(n.db, audit.Options{Tenant: Tenant, CheckpointDir: n.config.Audit.Checkpoints, KeyFile: n.config.Audit.Key})
	if err != nil {
		return err
	}
	n.log.Start(context.WithoutCancel(ctx))
	n.later(n.log.Close)
	n.runs, err = run.NewBook(n.db, n.log, Tenant)
	return err
}

// openSignIn makes the sessions and whoever signs people in.
func (n *Node) openSignIn(ctx context.Context) (err error) {
	if n.sessions, err = session.NewBook(n.db, n.log, Tenant, session.Options{}); err != nil {
		return err
	}
	if n.credentials, err = OpenPeople(n.home, n.config, n.db, n.log); err != nil {
		return err
	}
	party := oidc.Config{Origin: n.config.PublicOrigin, Embedding: n.config.Origins}
	if n.config.Issuer.URL == "" {
		err = n.builtIn(&party)
	} else {
		err = n.external(&party)
	}
	if err != nil {
		return err
	}
	n.party, err = oidc.New(ctx, party, n.sessions, slog.Default())
	return err
}

// builtIn makes the built-in provider, which the party reaches without a network.
func (n *Node) builtIn(party *oidc.Config) error {
	var err error
	if n.provider, err = idp.New(idp.Config{Origin: n.config.PublicOrigin, Embedding: n.config.Origins, Credentials: n.credentials}); err != nil {
		return err
	}
	party.Issuer, party.HTTP = n.provider.Issuer(), n.provider.Client()
	party.ClientID, party.ClientSecret = idp.ClientID, n.provider.ClientSecret()
	party.ACRValues = []string{credential.Passkeyed}
	party.Introspection = true
	return nil
}

// OpenPeople answers the people of the built-in provider and the passkeys of
// another one's, over a database that is open. Their key is the home's, drawn at first use.
func OpenPeople(home string, config Config, db *store.DB, log *audit.Log) (*credential.Book, error) {
	key, err := secret(filepath.Join(home, "credential.key"))
	if err != nil {
		return nil, err
	}
	return credential.NewBook(db, log, Tenant, credential.Options{Origin: config.PublicOrigin, Key: key})
}

// external reads what the configuration says of another provider.
func (n *Node) external(party *oidc.Config) error {
	i := n.config.Issuer
	party.Issuer, party.ClientID, party.ACRValues = i.URL, i.ClientID, i.ACRValues
	party.TenantClaim, party.RolesClaim, party.Introspection = i.TenantClaim, i.RolesClaim, i.Introspection
	if i.ClientSecretFile == "" {
		return nil
	}
	data, err := os.ReadFile(i.ClientSecretFile)
	if err != nil {
		return fmt.Errorf("issuer: client_secret_file: %w", err)
	}
	party.ClientSecret = strings.TrimSpace(string(data))
	return nil
}

// openAccount makes the ledger, the sources and the operation over both.
func (n *Node) openAccount(ctx context.Context) (err error) {
	q := n.config.Quotas
	if n.tokens, err = oauth.NewBook(n.db, n.log, Tenant, oauth.Options{Origin: n.config.PublicOrigin}); err != nil {
		return err
	}
	n.ledger, err = ledger.NewBook(n.db, n.log, Tenant, ledger.Options{Items: q.Items, Bytes: q.Bytes, External: n.config.externals()})
	if err != nil {
		return err
	}
	if err = n.openSources(ctx); err != nil {
		return err
	}
	n.desk = operation.New(operation.Config{Ledger: n.ledger, Sources: n.sources.ByKind,
		Limits:  operation.Limits{Parallel: q.AtOnce, Rate: q.PerSecond, Burst: q.Burst},
		Trouble: func(err error) { slog.Error("running a tool", "code", string(refusal.Of(err))) }})
	n.later(n.desk.Close)
	return nil
}

// openFleet finds the browser's engine. Without one everything else still works,
// and the start says what is missing.
func (n *Node) openFleet(context.Context) error {
	engine, err := jail.FindEngine(n.config.Browser.Path)
	if err != nil {
		n.notes = append(n.notes, "Owned browsers are off: "+err.Error()+". `chaperone doctor` says how to mend it.")
		return nil
	}
	n.fleet = fleet.New(fleet.Config{Book: n.runs, Engagements: n.config.Engagements, Engine: engine, Most: n.config.Browser.Most,
		Allowed: n.launches(), Own: n.own})
	n.later(n.fleet.Close)
	return nil
}
