package oauth

import "net/netip"

// Admits is the matcher of redirect URIs.
func Admits(registered []string, asked string) bool { return admits(registered, asked) }

// CheckRedirect tells whether a client may have that redirect URI.
func CheckRedirect(uri string) error { return checkRedirect(uri) }

// CheckClientID tells whether a URL can name a client.
func CheckClientID(id string) error { return checkClientID(id) }

// ReadMetadata answers a client's name and redirect URIs.
func ReadMetadata(data []byte) (name string, redirects []string, err error) {
	m, err := readMetadata(data)
	return m.Name, m.Redirects, err
}

// Public tells an address of the public internet.
func Public(a netip.Addr) bool { return public(a) }
