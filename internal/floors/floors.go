// Package floors holds the building plan and the tests that keep it: which
// packages there are, on which floor each stands, which siblings may know each
// other, where a process may be started, a socket opened, SQL written or the
// environment read, and which modules the project may depend on directly.
//
// It parses the sources itself: a test that shells out to `go list` is cached
// past a bad import. It contains no code that runs in the product.
//
// Floor: test kit.
package floors

// Floors, lowest first. A package imports only packages of lower floors, and
// packages of its own floor only where [siblings] declares the edge.
var floors = []struct{ name, packages string }{
	{"wire contract", "spec docs web examples/agent internal/canon internal/refusal internal/ref internal/identity internal/schema internal/owned/ownedv1 internal/owned/scope internal/portal/tool internal/attended/controlv1"},
	{"durable authority", "internal/store internal/audit internal/policy internal/owned/run internal/session internal/credential internal/oauth internal/portal/ledger internal/portal/item internal/attended/ledger"},
	{"runtime", "internal/owned/jail internal/owned/proxy internal/owned/browser internal/owned/host internal/owned/client internal/owned/corpus internal/owned/native internal/owned/fleet internal/owned/engagement internal/oidc internal/idp internal/relay internal/portal/source internal/portal/operation internal/attended/live internal/attended/client internal/attended/telemetry"},
	{"surface", "internal/surface/guard internal/surface/runsock internal/surface/pagesock internal/surface/mcp internal/surface/rest internal/surface/site"},
	{"composition", "internal/node cmd/chaperone"},
	{"test kit", "internal/storetest internal/sitetest internal/idptest internal/pagetest internal/sourcetest internal/leaktest internal/controltest internal/relaytest internal/agenttest internal/floors"},
}

// siblings are the imports allowed within one floor: "importer" -> "imported…".
var siblings = map[string]string{
	"internal/canon":         "internal/refusal",
	"internal/ref":           "internal/refusal internal/canon",
	"internal/identity":      "internal/refusal internal/ref",
	"internal/schema":        "internal/refusal internal/canon",
	"internal/owned/ownedv1": "internal/refusal internal/canon",
	"internal/owned/scope":   "internal/refusal internal/canon internal/owned/ownedv1",
	"internal/audit":         "internal/store",
	"internal/policy":        "internal/store internal/audit",
	"internal/owned/run":     "internal/store internal/audit",
	"internal/owned/corpus":  "internal/owned/jail internal/owned/proxy internal/owned/browser",
	"internal/owned/host":    "internal/owned/jail internal/owned/proxy internal/owned/browser",
	"internal/owned/native":  "internal/owned/browser",
	"internal/owned/fleet":   "internal/owned/host internal/owned/browser",
	"internal/portal/tool":   "internal/refusal internal/canon internal/schema",
	"internal/session":       "internal/store internal/audit",
	"internal/credential":    "internal/store internal/audit",
	"internal/oauth":         "internal/store internal/audit",
	"internal/portal/ledger": "internal/store internal/audit",
	"internal/portal/item":   "internal/store internal/audit",

	"internal/owned/engagement": "internal/owned/host",

	"internal/attended/controlv1": "internal/refusal internal/canon internal/ref internal/schema",
	"internal/attended/ledger":    "internal/store internal/audit internal/policy",
	"internal/attended/live":      "internal/relay",
	"internal/attended/client":    "internal/attended/live",

	"cmd/chaperone":             "internal/node",
	"internal/portal/operation": "internal/portal/source",
	"internal/surface/pagesock": "internal/surface/guard",
	"internal/surface/mcp":      "internal/surface/guard",
	"internal/surface/rest":     "internal/surface/guard",
	"internal/surface/site":     "internal/surface/guard",
}

// hidden names packages that whole floors may not see, whatever the order.
var hidden = map[string][]string{
	"internal/store": {"surface"}, // no transaction over the authorities
}

// allowed names what only some packages may import, and which those are. An
// entry that ends in / stands for everything below it.
var allowed = map[string]string{
	"os/exec":      "internal/owned/jail cmd/ internal/storetest internal/sitetest internal/idptest internal/pagetest internal/sourcetest internal/agenttest",
	"flag":         "cmd/",
	"database/sql": "internal/store internal/audit internal/policy internal/owned/run internal/session internal/credential internal/oauth internal/portal/ledger internal/portal/item internal/attended/ledger internal/storetest",
	"plugin":       "",
	"unsafe":       "internal/owned/jail",

	"github.com/coder/websocket": "internal/surface/pagesock",

	"github.com/nats-io/nats.go":               "internal/relay",
	"github.com/nats-io/nats-server/v2/server": "internal/relaytest",
	"github.com/nats-io/nkeys":                 "internal/relaytest",
}
