package spec

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names is what the placeholders of one conversation stand for. A player fills
// in the descriptor's (engagement_id, run_id, epoch, bootstrap_token,
// host_commit, authority); Expand and Match add the others as they come.
type Names map[string]string

var (
	placeholder = regexp.MustCompile(`\{\{[^{}]*\}\}`)
	pattern     = regexp.MustCompile(`^\{\{(hex(?:32|40|64) [a-z_0-9]+|within \d+|capabilities|string(?: [a-z_0-9]+)?|integer|any)\}\}$`)
)

// capabilities is what the pattern of that name matches.
var capabilities = strings.Fields("cancel click close console_logs eval_js goto launch list_tabs page_source pdf scope-enforced screenshot scroll switch_tab type")

// Expand replaces the placeholders of a request's header value, path or body.
func (n Names) Expand(text []byte, now time.Time) ([]byte, error) {
	return n.expand(text, now, false)
}

// expand leaves patterns alone where they are allowed, which is in answers.
func (n Names) expand(text []byte, now time.Time, patterns bool) ([]byte, error) {
	var bad error
	out := placeholder.ReplaceAllFunc(text, func(p []byte) []byte {
		if patterns && pattern.Match(p) {
			return p
		}
		value, err := n.value(string(p[2:len(p)-2]), now)
		if err != nil {
			bad = err
		}
		return value
	})
	return out, bad
}

func (n Names) value(name string, now time.Time) ([]byte, error) {
	word, rest, _ := strings.Cut(name, " ")
	switch {
	case name == "identity":
		return n.expand([]byte(`"protocol":"owned-browser-v1","engagement_id":"{{engagement_id}}","run_id":"{{run_id}}","epoch":"{{epoch}}"`), now, false)
	case strings.HasPrefix(name, "now+"), strings.HasPrefix(name, "now-"):
		offset, err := strconv.ParseInt(name[3:], 10, 64)
		return strconv.AppendInt(nil, now.UnixMilli()+offset, 10), err
	case word == "new":
		kind, into, _ := strings.Cut(rest, " ")
		digits := map[string]int{"hex32": 32, "hex64": 64}[kind]
		if digits == 0 || into == "" {
			break
		}
		b := make([]byte, digits/2)
		rand.Read(b)
		n[into] = hex.EncodeToString(b)
		return []byte(n[into]), nil
	case word == "repeat":
		count, text, _ := strings.Cut(rest, " ")
		times, err := strconv.Atoi(count)
		return bytes.Repeat([]byte(text), max(times, 0)), err
	case word == "bytes":
		return hex.DecodeString(rest)
	}
	if v, ok := n[name]; ok {
		return []byte(v), nil
	}
	return nil, fmt.Errorf("unknown placeholder {{%s}}", name)
}

// Match compares an answer's body with what a step wants, and binds the names in
// its patterns. The error names the place by a JSON pointer; it repeats what the
// file says and not what came, which may hold a token.
func (n Names) Match(want, got []byte, now time.Time) error {
	want, err := n.expand(want, now, true)
	if err != nil {
		return err
	}
	w, err := parse(want)
	if err != nil {
		return fmt.Errorf("the transcript's body isn't JSON: %w", err)
	}
	g, err := parse(got)
	if err != nil {
		return fmt.Errorf("the answer's body isn't JSON")
	}
	return n.match("", w, g, now)
}

func parse(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && d.More() {
		err = fmt.Errorf("more than one value")
	}
	return v, err
}

func (n Names) match(at string, want, got any, now time.Time) error {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return fmt.Errorf("%s/: want an object of exactly %d keys", at, len(w))
		}
		for key, value := range w {
			if _, ok := g[key]; !ok {
				return fmt.Errorf("%s/%s is missing", at, key)
			}
			if err := n.match(at+"/"+key, value, g[key], now); err != nil {
				return err
			}
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Errorf("%s: want an array of %d", at, len(w))
		}
		for i, value := range w {
			if err := n.match(fmt.Sprint(at, "/", i), value, g[i], now); err != nil {
				return err
			}
		}
		return nil
	case string:
		if p := pattern.FindStringSubmatch(w); p != nil {
			if !n.fits(p[1], got, now) {
				return fmt.Errorf("%s: want %s", at, w)
			}
			return nil
		}
	}
	if want != got {
		return fmt.Errorf("%s: want %v", at, want)
	}
	return nil
}

// fits tests one value against a pattern.
func (n Names) fits(pattern string, got any, now time.Time) bool {
	kind, rest, _ := strings.Cut(pattern, " ")
	text, isText := got.(string)
	number, isNumber := got.(json.Number)
	whole, err := strconv.ParseInt(number.String(), 10, 64)
	switch kind {
	case "any":
		return true
	case "string":
		if rest != "" {
			n[rest] = text
		}
		return isText
	case "integer":
		return isNumber && err == nil
	case "within":
		limit, _ := strconv.ParseInt(rest, 10, 64)
		return isNumber && err == nil && whole > now.UnixMilli() && whole <= now.UnixMilli()+limit
	case "capabilities":
		list, _ := got.([]any)
		var words []string
		for _, v := range list {
			word, _ := v.(string)
			words = append(words, word)
		}
		slices.Sort(words)
		return slices.Equal(words, capabilities)
	}
	digits, _ := strconv.Atoi(strings.TrimPrefix(kind, "hex"))
	n[rest] = text
	return isText && len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}
