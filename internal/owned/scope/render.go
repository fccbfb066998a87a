package scope

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/canon"
)

// file is a scope in its canonical form: defaults left out, hosts and lists
// normalised. Both the digest and YAML are made of it.
type file struct {
	Engagement    string     `json:"engagement"`
	Allow         []fileRule `json:"allow"`
	Actions       []string   `json:"actions,omitempty"`
	Deny          []fileRule `json:"deny,omitempty"`
	AllowMetadata bool       `json:"allow_metadata,omitzero"`
	NotBefore     string     `json:"not_before,omitempty"`
	NotAfter      string     `json:"not_after,omitempty"`
}

type fileRule struct {
	Host       string         `json:"host,omitempty"`
	CIDR       string         `json:"cidr,omitempty"`
	Ports      []string       `json:"ports,omitempty"`
	Schemes    []string       `json:"schemes,omitempty"`
	Paths      []string       `json:"paths,omitempty"`
	Methods    []string       `json:"methods,omitempty"`
	ResolvesTo []netip.Prefix `json:"resolves_to,omitempty"`
}

func (s *Scope) file() file {
	f := file{Engagement: s.engagement, Allow: []fileRule{}, Actions: s.actions, AllowMetadata: s.allowMetadata}
	for i := range s.allow {
		f.Allow = append(f.Allow, s.allow[i].file())
	}
	for i := range s.deny {
		f.Deny = append(f.Deny, s.deny[i].file())
	}
	if !s.window.NotBefore.IsZero() {
		f.NotBefore = s.window.NotBefore.Format(timeLayout)
	}
	if !s.window.NotAfter.IsZero() {
		f.NotAfter = s.window.NotAfter.Format(timeLayout)
	}
	return f
}

// timeLayout is RFC 3339 in UTC with as many digits as there are.
const timeLayout = "2006-01-02T15:04:05.999999999Z07:00"

func (r *rule) file() fileRule {
	f := fileRule{Methods: r.methods, ResolvesTo: r.resolves}
	if r.host.kind == network {
		f.CIDR = r.host.String()
	} else {
		f.Host = r.host.String()
	}
	if !(r.list == "deny" && r.ports[0] == everyPort[0]) {
		f.Ports = portNames(r.ports)
	}
	if r.schemes != allSchemes {
		f.Schemes = r.schemes.names()
	}
	for _, p := range r.paths {
		f.Paths = append(f.Paths, p.text)
	}
	return f
}

func portNames(spans []span) (list []string) {
	for _, p := range spans {
		switch {
		case p == everyPort[0]:
			list = append(list, "*")
		case p.low == p.high:
			list = append(list, fmt.Sprint(p.low))
		default:
			list = append(list, fmt.Sprintf("%d-%d", p.low, p.high))
		}
	}
	return list
}

// sealed computes the digest, after which the scope never changes.
func (s *Scope) sealed() *Scope {
	text, err := json.Marshal(s.file())
	if err == nil {
		text, err = canon.Canonicalize(text)
	}
	if err != nil {
		panic("scope: a parsed scope has no canonical form: " + err.Error())
	}
	s.digest = canon.Digest(text)
	return s
}

// YAML is the scope as a file that Parse reads back to the same digest.
func (s *Scope) YAML() []byte {
	f := s.file()
	var b strings.Builder
	fmt.Fprintf(&b, "engagement: %s\n", quote(f.Engagement))
	writeRules(&b, "allow", f.Allow)
	writeRules(&b, "deny", f.Deny)
	if f.Actions != nil {
		fmt.Fprintf(&b, "actions: %s\n", flow(f.Actions))
	}
	if f.AllowMetadata {
		b.WriteString("allow_metadata: true\n")
	}
	for _, at := range [][2]string{{"not_before", f.NotBefore}, {"not_after", f.NotAfter}} {
		if at[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", at[0], quote(at[1]))
		}
	}
	return []byte(b.String())
}

func writeRules(b *strings.Builder, key string, rules []fileRule) {
	if len(rules) == 0 {
		if key == "allow" {
			b.WriteString("allow: [] # nothing is allowed\n")
		}
		return
	}
	b.WriteString(key + ":\n")
	for _, r := range rules {
		if r.CIDR != "" {
			fmt.Fprintf(b, "  - cidr: %s\n", quote(r.CIDR))
		} else {
			fmt.Fprintf(b, "  - host: %s\n", quote(r.Host))
		}
		var resolves []string
		for _, p := range r.ResolvesTo {
			resolves = append(resolves, p.String())
		}
		if r.Ports != nil {
			fmt.Fprintf(b, "    ports: %s\n", flowPorts(r.Ports))
		}
		writeList(b, "schemes", r.Schemes)
		writeList(b, "paths", r.Paths)
		writeList(b, "methods", r.Methods)
		writeList(b, "resolves_to", resolves)
	}
}

func writeList(b *strings.Builder, key string, list []string) {
	if list != nil {
		fmt.Fprintf(b, "    %s: %s\n", key, flow(list))
	}
}

func flow(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// flowPorts leaves single ports unquoted, as a person would.
func flowPorts(list []string) string {
	if list[0] == "*" {
		return `"*"`
	}
	items := make([]string, len(list))
	for i, s := range list {
		items[i] = s
		if strings.Contains(s, "-") {
			items[i] = `"` + s + `"`
		}
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// quote writes a YAML scalar: plain where it can be taken for nothing else, in
// JSON's quotes otherwise, which are YAML's too.
func quote(s string) string {
	plain := s != ""
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		plain = plain && (letter || i > 0 && (c == '.' || c == '-' || c >= '0' && c <= '9'))
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain {
		return s
	}
	out, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		panic("scope: text that isn't UTF-8 was parsed: " + err.Error())
	}
	return string(out)
}
