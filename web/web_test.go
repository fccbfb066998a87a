package web_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"chaperone/internal/pagetest"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// esbuild drops types without reading them; the type checker reads them. A key that
// one catalogue lacks fails here.
func TestTypes(t *testing.T) {
	if out, err := exec.Command("node", filepath.Join(pagetest.NPM(t), "typescript/bin/tsc"), "-p", ".").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// sources are the portal's own, without the catalogues.
func sources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir("src", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".ts" || path == "src/idp.ts" {
			return err // the provider's pages have their words from the server
		}
		if path == "src/text/en.ts" || path == "src/text/es.ts" {
			return nil
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil || len(all) < 30 {
		t.Fatalf("%d sources: %v", len(all), err)
	}
	return all
}

var entry = regexp.MustCompile(`(?m)^  "([^"]+)": "((?:[^"\\]|\\.)*)",$`)

func catalogue(t *testing.T, name string) map[string]string {
	t.Helper()
	data, err := os.ReadFile("src/text/" + name + ".ts")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range entry.FindAllStringSubmatch(string(data), -1) {
		if _, twice := out[m[1]]; twice {
			t.Errorf("%s has %s twice", name, m[1])
		}
		out[m[1]] = m[2]
	}
	return out
}

// families are keys whose last part comes from outside; each has a text for the
// rest, or a closed set that the code names.
var families = []string{"acr.", "call.", "class.", "closed.", "controlled.", "denied.", "effect.", "error.", "fix.", "function.", "kill.scope.", "level.", "outcome.", "partial.", "run.", "scope.", "source.", "state.", "theme.", "transport.", "item.set.", "item.clear."}

func TestCatalogues(t *testing.T) {
	en, es := catalogue(t, "en"), catalogue(t, "es")
	var whole strings.Builder
	for _, s := range sources(t) {
		whole.WriteString(s)
	}
	code := whole.String()
	holes := regexp.MustCompile(`\{[a-z_]+\}`)
	for key, words := range en {
		other, ok := es[key]
		if !ok {
			t.Errorf("es lacks %s", key)
			continue
		}
		a, b := holes.FindAllString(words, -1), holes.FindAllString(other, -1)
		slices.Sort(a)
		slices.Sort(b)
		// "One item" needs no number.
		if !slices.Equal(a, b) && !strings.HasSuffix(key, ".one") {
			t.Errorf("%s names %v in English and %v in Spanish", key, a, b)
		}
		stem := strings.TrimSuffix(strings.TrimSuffix(key, ".one"), ".other")
		family := slices.ContainsFunc(families, func(f string) bool { return strings.HasPrefix(key, f) })
		if !family && !strings.Contains(code, `"`+key+`"`) && !(stem != key && strings.Contains(code, `count("`+stem+`"`)) {
			t.Errorf("nothing uses %s", key)
		}
	}
	for key := range es {
		if _, ok := en[key]; !ok {
			t.Errorf("en lacks %s", key)
		}
	}
	if len(en) < 300 {
		t.Errorf("only %d texts were read", len(en))
	}
}

// Every code of the contract is told in words.
func TestCodesHaveWords(t *testing.T) {
	en := catalogue(t, "en")
	codes := tool.Codes()
	codes = append(codes, refusal.SessionExpired, refusal.OtherPerson, refusal.StepUpRequired, refusal.CSRFDenied, refusal.OriginDenied,
		refusal.Conflict, refusal.Replayed, refusal.Unknown, refusal.Expired, refusal.DatabaseBusy, refusal.Malformed, refusal.BadDocument,
		refusal.TooMany, refusal.PrerequisiteMissing, refusal.BadCredential, refusal.Failed)
	for _, c := range codes {
		if en["error."+string(c)] == "" {
			t.Errorf("no text tells %s", c)
		}
	}
}

// No words stand in the code: a literal that reads like a sentence or a label is
// one that was forgotten.
func TestNoWordsInCode(t *testing.T) {
	literal := regexp.MustCompile(`"((?:[^"\\\n]|\\.)*)"`)
	words := regexp.MustCompile(`^[A-ZÁÉÍÓÚ¿¡][a-záéíóúñ’']+( [a-záéíóúñ’'.,]+)+|^[A-Z][a-z]+[.!?…]$`)
	for path, code := range sources(t) {
		for n, line := range strings.Split(code, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "//") || strings.HasPrefix(strings.TrimSpace(line), "*") {
				continue
			}
			for _, m := range literal.FindAllStringSubmatch(line, -1) {
				if words.MatchString(m[1]) {
					t.Errorf("%s:%d: %q isn't in the catalogues", path, n+1, m[1])
				}
			}
		}
	}
}
