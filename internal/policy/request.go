package policy

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"chaperone/internal/identity"
	"chaperone/internal/refusal"
)

// Resource is what a request is about. Only [OwnTool], [PageTool] and
// [Engagement] make one; the zero value is nothing, and denied.
type Resource struct {
	kind          string // Tool, PageTool or Engagement
	name          string // tool id or engagement
	origin, route string
}

const (
	kindTool       = "Tool"
	kindPageTool   = "PageTool"
	kindEngagement = "Engagement"
)

// idPattern is what every id of the control protocol is made of (section 2).
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// engagementPattern is an engagement's name as the scope file has it.
var engagementPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// OwnTool is a tool of one of this server's own pages, on the document's origin
// and route.
func OwnTool(name, origin, route string) (Resource, error) {
	return onPage(kindTool, name, origin, route)
}

// PageTool is a tool of a page that isn't ours. It is another thing than an own
// tool of the same name, and than a tool of that name elsewhere.
func PageTool(name, origin, route string) (Resource, error) {
	return onPage(kindPageTool, name, origin, route)
}

// Engagement is what owned browsers are launched for.
func Engagement(name string) (Resource, error) {
	if !engagementPattern.MatchString(name) {
		return Resource{}, fmt.Errorf("no engagement can have that name: %w", refusal.PolicyDenied)
	}
	return Resource{kind: kindEngagement, name: name}, nil
}

func onPage(kind, name, origin, route string) (Resource, error) {
	r := Resource{kind, name, origin, route}
	switch {
	case !idPattern.MatchString(name):
		return Resource{}, fmt.Errorf("no tool can have that id: %w", refusal.PolicyDenied)
	case !isOrigin(origin):
		return Resource{}, fmt.Errorf("no document can have that origin: %w", refusal.PolicyDenied)
	case !idPattern.MatchString(route):
		return Resource{}, fmt.Errorf("no route can have that id: %w", refusal.PolicyDenied)
	}
	return r, nil
}

// isOrigin takes an origin as a browser writes it (section 4): https, or http for
// this machine; lower case; the port only where it isn't the scheme's own.
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme+"://"+u.Host != s || u.Host == "" || len(s) > 300 || strings.ToLower(s) != s {
		return false
	}
	host, port := u.Hostname(), u.Port()
	for _, r := range host {
		if r > 0x7e || strings.ContainsRune(`%*"'\<>|^{}#? `+"`", r) {
			return false
		}
	}
	local := host == "localhost" || host == "127.0.0.1" || host == "::1"
	switch {
	case host == "" || strings.HasSuffix(u.Host, ":"):
		return false
	case u.Scheme == "https":
		return port != "443"
	case u.Scheme == "http" && local:
		return port != "80"
	}
	return false
}

// id is the resource's name as a policy writes it: an own tool's and an
// engagement's own, a page's tool behind its origin.
func (r Resource) id() string {
	if r.kind == kindPageTool {
		return r.origin + "#" + r.name
	}
	return r.name
}

// String tells the resource in a policy's words.
func (r Resource) String() string { return fmt.Sprintf("%s::%q", r.kind, r.id()) }

// Name answers the tool's id or the engagement's name.
func (r Resource) Name() string { return r.name }

// Request is what is judged.
type Request struct {
	Who      identity.Principal
	Action   Action
	Resource Resource
	// At is the moment of judgement; zero is now.
	At time.Time
	// Tainted tells that this lease has read from an untrusted collection, so that
	// somebody else's text may be what drives the agent.
	Tainted bool
	// Arguments is the JSON object of the call's arguments, in memory alone; nil
	// is none. Rules read those of its top-level fields that they declare.
	Arguments []byte
}

// known refuses what can't exist before a rule sees it.
func (r Request) known() error {
	fits := r.Resource.kind == kindTool || r.Resource.kind == kindPageTool
	if r.Action == Launch {
		fits = r.Resource.kind == kindEngagement
	}
	switch {
	case r.Who.IsZero():
		return fmt.Errorf("nobody asks: %w", refusal.PolicyDenied)
	case r.Action.levels() == nil:
		return fmt.Errorf("no such action: %w", refusal.PolicyDenied)
	case !fits:
		return fmt.Errorf("the action isn't for that kind of resource: %w", refusal.PolicyDenied)
	}
	return nil
}
