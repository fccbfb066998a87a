package oauth

import "strings"

// An engagement that a grant names stands among its scopes, behind the scope owned
// which it needs. A client can't ask for one: the person who answers chooses it.
const engagementPrefix = ScopeOwned + ":"

// Engagement answers the scope that names an engagement.
func Engagement(name string) string { return engagementPrefix + name }

// Engagements answers the engagements that scopes name.
func Engagements(scopes []string) []string {
	out := []string{}
	for _, s := range scopes {
		if name, ok := strings.CutPrefix(s, engagementPrefix); ok && name != "" {
			out = append(out, name)
		}
	}
	return out
}

// Base answers the scope that s needs to have been asked for: itself, or owned for
// one that names an engagement.
func Base(s string) string {
	if strings.HasPrefix(s, engagementPrefix) && len(s) > len(engagementPrefix) && printable(s) && !strings.Contains(s, " ") {
		return ScopeOwned
	}
	return s
}
