package oauth

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Limits of what a client says of itself.
const (
	MaxMetadata  = 5 << 10 // bytes of a registration or a document
	maxRedirects = 10
	maxURI       = 2048 // bytes of a redirect URI
	maxClientID  = 256  // bytes; it becomes a principal's agent
	maxName      = 100  // bytes
)

// metadata is the part of RFC 7591 that decides anything here; other members are
// ignored, as the RFC asks (section 2).
type metadata struct {
	ClientID  string   `json:"client_id"`
	Name      string   `json:"client_name"`
	Redirects []string `json:"redirect_uris"`
	Grants    []string `json:"grant_types"`
	Responses []string `json:"response_types"`
	Method    *string  `json:"token_endpoint_auth_method"`
	Secret    any      `json:"client_secret"`
}

func refuseMetadata(why string) error {
	return fmt.Errorf("client metadata: %s: %w", why, refusal.BadDocument)
}

// readMetadata decodes and checks what a client says of itself. Its errors are
// [refusal.BadDocument], and of a redirect URI alone [refusal.BadRedirect].
func readMetadata(data []byte) (metadata, error) {
	var m metadata
	if len(data) > MaxMetadata {
		return m, refuseMetadata("over 5 KB")
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, refuseMetadata("not a JSON object of the types that RFC 7591 names")
	}
	switch {
	case len(m.Redirects) == 0:
		return m, fmt.Errorf("client metadata: no redirect URI: %w", refusal.BadRedirect)
	case len(m.Redirects) > maxRedirects:
		return m, fmt.Errorf("client metadata: over 10 redirect URIs: %w", refusal.BadRedirect)
	case len(m.Name) > maxName || !tool.Plain(m.Name) || strings.TrimSpace(m.Name) != m.Name:
		return m, refuseMetadata("client_name is over 100 bytes or has characters that can't be seen")
	case m.Grants != nil && !slices.Contains(m.Grants, "authorization_code"):
		return m, refuseMetadata("grant_types without authorization_code")
	case m.Responses != nil && !slices.Contains(m.Responses, "code"):
		return m, refuseMetadata("response_types without code")
	}
	for _, uri := range m.Redirects {
		if err := checkRedirect(uri); err != nil {
			return m, err
		}
	}
	return m, nil
}

// checkRedirect tells whether a client may be sent back there: https, http on
// this machine's loopback (RFC 8252, section 7.3), or a private scheme of the
// form that RFC 8252 asks for (7.1: a reversed domain name, so never javascript
// or data).
func checkRedirect(uri string) error {
	refuse := func(why string) error { return fmt.Errorf("redirect URI: %s: %w", why, refusal.BadRedirect) }
	if len(uri) > maxURI || strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"<>\^{|}`+"`", r) }) {
		return refuse("over 2048 bytes or with characters that no URI has")
	}
	if strings.Contains(uri, "#") {
		return refuse("with a fragment")
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil || !u.IsAbs():
		return refuse("not an absolute URI")
	case u.User != nil:
		return refuse("with a user name")
	case u.Scheme == "https" && u.Hostname() != "":
		return nil
	case u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	case u.Scheme == "http" || u.Scheme == "https":
		return refuse("http is for loopback alone, and a host is needed")
	case strings.Contains(u.Scheme, "."):
		return nil
	}
	return refuse("a scheme that isn't https, loopback http or a reversed domain name")
}

func loopback(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// admits tells whether the client registered that redirect URI. It compares
// exactly, but for the port of loopback, which a native application learns when
// it starts (RFC 8252, section 7.3).
func admits(registered []string, asked string) bool {
	if checkRedirect(asked) != nil {
		return false
	}
	return slices.ContainsFunc(registered, func(r string) bool { return r == asked || sameButPort(r, asked) })
}

func sameButPort(registered, asked string) bool {
	r, err := url.Parse(registered)
	if err != nil || r.Scheme != "http" || !loopback(r.Hostname()) {
		return false
	}
	a, err := url.Parse(asked)
	if err != nil || a.Hostname() != r.Hostname() || a.Scheme != r.Scheme {
		return false
	}
	rest := func(text string) string { // what stands behind the authority
		_, text, _ = strings.Cut(text, "://")
		if i := strings.IndexAny(text, "/?"); i >= 0 {
			return text[i:]
		}
		return ""
	}
	return rest(registered) == rest(asked)
}

// RedirectHost answers what a person is shown of a redirect URI: its host and
// port, or the scheme of an application.
func RedirectHost(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return ""
	case u.Host != "":
		return u.Host
	}
	return u.Scheme + ":"
}

// checkClientID tells whether a URL can name a client by its metadata document.
func checkClientID(id string) error {
	u, err := url.Parse(id)
	segments := func() []string { return strings.Split(u.Path, "/") } // decoded: %2e is a dot
	switch {
	case len(id) > maxClientID || !tool.Plain(id) || err != nil || strings.ContainsAny(id, " \\\"<>"):
		return refuseMetadata("client_id is no URL of at most 256 bytes")
	case u.Scheme != "https" || u.User != nil || u.Fragment != "" || u.RawQuery != "" || strings.ContainsAny(id, "#?"):
		return refuseMetadata("client_id is not https, or has a user name, query or fragment")
	case u.Port() != "" && u.Port() != "443" || u.Hostname() == "":
		return refuseMetadata("client_id has another port than 443, or no host")
	case u.Path == "" || u.Path == "/" || slices.Contains(segments(), ".") || slices.Contains(segments(), ".."):
		return refuseMetadata("client_id has no path of its own")
	}
	return nil
}
