package oidc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// claims are a token's, undecoded. Names are matched exactly; a name that stands
// twice, at any depth, is refused.
type claims map[string]jsontext.Value

// readClaims reads a payload.
func readClaims(payload []byte) (claims, error) {
	var c claims
	if v := jsontext.Value(payload); len(payload) > maxToken || !v.IsValid() || v.Kind() != '{' || json.Unmarshal(payload, &c) != nil {
		return nil, fmt.Errorf("token: its claims don't decode: %w", refusal.BadToken)
	}
	return c, nil
}

// wrong is the refusal of a claim; it never repeats its value.
func wrong(claim string, code refusal.Code) error {
	return fmt.Errorf("token: the claim %s isn't valid: %w", claim, code)
}

// maxClaim bounds a claim that is kept, in bytes.
const maxClaim = 255

// text answers a string claim: "" where it is absent, refused where it is
// anything else than a printable string of bounded size.
func (c claims) text(name string) (string, error) {
	raw, ok := c[name]
	if !ok {
		return "", nil
	}
	var s string
	if raw.Kind() != '"' || json.Unmarshal(raw, &s) != nil || s == "" || len(s) > maxClaim ||
		strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", wrong(name, refusal.BadToken)
	}
	return s, nil
}

// must answers a string claim that has to be there.
func (c claims) must(name string) (string, error) {
	s, err := c.text(name)
	if err == nil && s == "" {
		err = wrong(name, refusal.BadToken)
	}
	return s, err
}

// seconds answers a NumericDate claim. Only a plain literal of whole seconds is
// one: no string, fraction, exponent, sign or leading zero, and nothing beyond
// the year 2286, which is where milliseconds would land. ok is false where it is
// absent.
func (c claims) seconds(name string, code refusal.Code) (t time.Time, ok bool, err error) {
	raw, ok := c[name]
	if !ok {
		return time.Time{}, false, nil
	}
	text := string(raw)
	if len(text) == 0 || len(text) > 10 || text[0] == '0' || strings.Trim(text, "0123456789") != "" {
		return time.Time{}, true, wrong(name, code)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, true, wrong(name, code)
	}
	return time.Unix(n, 0), true, nil
}

// audience answers aud as a list; a lone string is a list of one.
func (c claims) audience() ([]string, error) {
	raw := c["aud"]
	var list []string
	switch raw.Kind() {
	case '"':
		s, err := c.text("aud")
		return []string{s}, err
	case '[':
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 && len(list) <= 16 && !slices.Contains(list, "") {
			return list, nil
		}
	}
	return nil, wrong("aud", refusal.BadToken)
}

// list answers the strings at a claim, or at a path of claims with dots between
// (a claim whose own name has dots comes first). Absent: none.
func (c claims) list(path string) ([]string, error) {
	raw, ok := c[path]
	for at, rest := c, path; !ok && rest != ""; {
		name, more, _ := strings.Cut(rest, ".")
		raw, ok = at[name]
		if !ok {
			return nil, nil
		}
		if rest = more; rest != "" {
			var inner claims
			if raw.Kind() != '{' || json.Unmarshal(raw, &inner) != nil {
				return nil, wrong(path, refusal.BadToken)
			}
			at, ok = inner, false
		}
	}
	var list []string
	switch raw.Kind() {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return nil, wrong(path, refusal.BadToken)
		}
		return strings.Fields(s), nil
	case '[':
		if json.Unmarshal(raw, &list) == nil {
			return list, nil
		}
	}
	return nil, wrong(path, refusal.BadToken)
}

// name answers what to call the person: the first claim that can be shown.
func (c claims) name() string {
	for _, claim := range []string{"name", "preferred_username", "email", "sub"} {
		if s, err := c.text(claim); err == nil && s != "" && strings.TrimSpace(s) == s {
			return s
		}
	}
	return ""
}
