package oauth

import (
	"fmt"
	"slices"
	"strings"

	"chaperone/internal/refusal"
)

// The scopes that there are.
const (
	ScopeCollections = "collections"   // the five account tools, on what a selection names
	ScopeOwned       = "owned"         // contained browsers, by engagement
	ScopeControl     = "control:write" // attended control
)

// Scopes lists them in the order in which they are told.
var Scopes = []string{ScopeCollections, ScopeOwned, ScopeControl}

// synonyms are other names that callers use (attended-control.md, section 5).
var synonyms = map[string]string{"kg:write": ScopeControl, "kg:admin": ScopeControl}

// Named answers the one name of a scope, which callers may know by another.
func Named(scope string) string {
	if s, ok := synonyms[scope]; ok {
		return s
	}
	return scope
}

// ParseScope reads a scope parameter into its one form: known names, in order,
// none twice. Nothing asked is nothing; an unknown name is [refusal.BadDocument].
func ParseScope(text string) ([]string, error) {
	var asked []string
	for _, name := range strings.Split(text, " ") {
		name = Named(name)
		switch {
		case name == "":
		case !slices.Contains(Scopes, name):
			return nil, fmt.Errorf("a scope that isn't known: %w", refusal.BadDocument)
		default:
			asked = append(asked, name)
		}
	}
	return slices.DeleteFunc(slices.Clone(Scopes), func(s string) bool { return !slices.Contains(asked, s) }), nil
}

// within tells whether every scope of some is one of all, or names an engagement
// under one.
func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, Base(s)) })
}

// ParseGranted reads a scope parameter that narrows what was given, where an
// engagement can be named too; it says nothing of whether that was given.
func ParseGranted(text string) ([]string, error) {
	var plain, engagements []string
	for _, s := range strings.Fields(text) {
		if Base(s) != s {
			engagements = append(engagements, s)
			continue
		}
		plain = append(plain, s)
	}
	scopes, err := ParseScope(strings.Join(plain, " "))
	return append(scopes, engagements...), err
}

// among tells whether every scope of some was given, to the letter: an engagement
// isn't given by owned alone, which only says that one may be chosen.
func among(some, given []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(given, s) })
}
