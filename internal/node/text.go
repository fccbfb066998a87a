package node

import (
	"fmt"
	"strings"
)

// ConfigText answers the default chaperone.yaml of a home, with what each key is
// for. Reading it back gives the defaults.
func ConfigText(home string) string {
	c := DefaultConfig(home)
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# chaperone.yaml: every key with its default. A key that isn't here is an error.")
	p("")
	p("# Where the server listens. Anything but loopback needs tls_cert and tls_key, or")
	p("# behind_proxy: the addresses of the proxy that ends TLS.")
	p("listen: %s", c.Listen)
	p("# The one address under which people and agents reach it. A name, since passkeys")
	p("# belong to a name; https, unless it is localhost. Left out: localhost, with")
	p("# listen's port.")
	p("public_origin: %s", c.PublicOrigin)
	p("tls_cert: \"\"")
	p("tls_key: \"\"")
	p("behind_proxy: []")
	p("")
	p("# A SQLite file, or postgres://… for several nodes over one database.")
	p("database: %q", c.Database)
	p("")
	p("# An OpenID provider instead of the built-in one. client_secret_file names a file.")
	p("# acr_values: what counts as a step-up there, exactly.")
	p("issuer:")
	p("  url: \"\"")
	p("  client_id: \"\"")
	p("  client_secret_file: \"\"")
	p("  acr_values: []")
	p("  introspection: false")
	p("  tenant_claim: \"\"")
	p("  roles_claim: \"\"")
	p("")
	p("# Where accounts' items are; see the page on sources.")
	p("sources:")
	p("  inbox: {maildir: \"\", lmtp: %q} # a Maildir below the home; or imap: {address, logins, …}", c.Sources.Inbox.LMTP)
	p("  storage: {blobs: \"\"} # below the home; or s3: {endpoint, bucket, access_key, secret_key_file}")
	p("  external: [] # {collection, title, kind: webdav|caldav|carddav, url, logins}, read only")
	p("")
	p("# Of each account: hosted items and their bytes, operations at once and a second.")
	p("quotas: {items: %d, bytes: %d, at_once: %d, per_second: %g, burst: %d}", c.Quotas.Items, c.Quotas.Bytes, c.Quotas.AtOnce, c.Quotas.PerSecond, c.Quotas.Burst)
	p("")
	p("# Owned browsers: the engine (found where Debian puts it) and how many at once.")
	p("browser: {path: \"\", most: %d}", c.Browser.Most)
	p("# The folder with one scope file an engagement.")
	p("engagements: %q", c.Engagements)
	p("")
	p("# The audit log's signing key and checkpoints: best on another disk than the database.")
	p("audit: {key: %q, checkpoints: %q}", c.Audit.Key, c.Audit.Checkpoints)
	p("")
	p("# On a public origin pages offer no tools until somebody has reviewed that, by name")
	p("# and date.")
	p("reviewed: {by: \"\", date: \"\"}")
	return b.String()
}
