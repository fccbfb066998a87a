package ref_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

func TestMint(t *testing.T) {
	for prefix, texts := range map[string][2]string{
		"login":     {ref.Mint[ref.LoginKind]().String(), ref.Mint[ref.LoginKind]().String()},
		"browser":   {ref.Mint[ref.BrowserKind]().String(), ref.Mint[ref.BrowserKind]().String()},
		"document":  {ref.Mint[ref.DocumentKind]().String(), ref.Mint[ref.DocumentKind]().String()},
		"attended":  {ref.Mint[ref.AttendedKind]().String(), ref.Mint[ref.AttendedKind]().String()},
		"principal": {ref.Mint[ref.PrincipalKind]().String(), ref.Mint[ref.PrincipalKind]().String()},
	} {
		form := regexp.MustCompile("^" + prefix + "_[0-9a-f]{64}$")
		if !form.MatchString(texts[0]) || texts[0] == texts[1] {
			t.Errorf("%s: %v", prefix, texts)
		}
	}
}

func TestParse(t *testing.T) {
	good := "login_" + strings.Repeat("0a", 32)
	r, err := ref.Parse[ref.LoginKind](good)
	if err != nil || r.String() != good {
		t.Errorf("got %v, %v", r, err)
	}
	for _, text := range []string{"", "login_", good[:len(good)-1], good + "0", strings.ToUpper(good), "login_" + strings.Repeat("0A", 32),
		"browser_" + strings.Repeat("0a", 32), " " + good, good + "\n", strings.Replace(good, "_", "-", 1)} {
		if r, err := ref.Parse[ref.LoginKind](text); refusal.Of(err) != refusal.BadDocument || !r.IsZero() {
			t.Errorf("%q: got %v, %v", text, r, err)
		}
	}
}

func TestEqual(t *testing.T) {
	a, b := ref.Mint[ref.DocumentKind](), ref.Mint[ref.DocumentKind]()
	var none ref.Document
	if !a.Equal(a) || a.Equal(b) || a.Equal(none) || none.Equal(a) || none.Equal(none) {
		t.Error("a reference equals itself and nothing else, and no reference equals nothing")
	}
}

func TestText(t *testing.T) {
	type message struct {
		Document ref.Document `json:"document_ref"`
	}
	in := message{ref.Mint[ref.DocumentKind]()}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out message
	if err := json.Unmarshal(data, &out); err != nil || !out.Document.Equal(in.Document) {
		t.Errorf("%s comes back as %v, %v", data, out, err)
	}
	if err := json.Unmarshal([]byte(strings.Replace(string(data), `:"document_`, `:"attended_`, 1)), &out); err == nil {
		t.Error("an arm was read as a document")
	}
	if data, err := json.Marshal(message{}); err == nil {
		t.Errorf("nothing was written as %s", data)
	}
}

func key(t *testing.T, fill string) ref.Key {
	t.Helper()
	k, err := ref.NewKey([]byte(strings.Repeat(fill, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestDerive(t *testing.T) {
	k := key(t, "k")
	base := ref.Derive[ref.PrincipalKind](k, "tenant", "actor")
	if again := ref.Derive[ref.PrincipalKind](k, "tenant", "actor"); !again.Equal(base) {
		t.Error("the same facts gave another reference")
	}
	// Pinned, so that what is stored stays readable by later versions.
	if want := "principal_d6ab618d"; !strings.HasPrefix(base.String(), want) {
		t.Errorf("got %s, want %s…", base, want)
	}
	for name, other := range map[string]ref.Principal{
		"another key":    ref.Derive[ref.PrincipalKind](key(t, "l"), "tenant", "actor"),
		"another split":  ref.Derive[ref.PrincipalKind](k, "tenanta", "ctor"),
		"joined":         ref.Derive[ref.PrincipalKind](k, "tenantactor"),
		"another order":  ref.Derive[ref.PrincipalKind](k, "actor", "tenant"),
		"one more, void": ref.Derive[ref.PrincipalKind](k, "tenant", "actor", ""),
	} {
		if other.Equal(base) {
			t.Errorf("%s gave the same reference", name)
		}
	}
	if d := ref.Derive[ref.DocumentKind](k, "tenant", "actor"); strings.HasSuffix(base.String(), strings.TrimPrefix(d.String(), "document_")) {
		t.Error("two kinds share their digits")
	}
}

func TestKey(t *testing.T) {
	if _, err := ref.NewKey(make([]byte, 31)); refusal.Of(err) != refusal.BadDocument {
		t.Error(err)
	}
	k := key(t, "S")
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, k); strings.Contains(text, "SSS") {
			t.Errorf("%s prints %s", format, text)
		}
	}
	secret := []byte(strings.Repeat("x", 32))
	mine, err := ref.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	before := ref.Derive[ref.LoginKind](mine, "a")
	clear(secret)
	if !ref.Derive[ref.LoginKind](mine, "a").Equal(before) {
		t.Error("the key changed with its caller's bytes")
	}
	defer func() {
		if recover() == nil {
			t.Error("a key that isn't one derived something")
		}
	}()
	ref.Derive[ref.LoginKind](ref.Key{}, "a")
}

// The kinds are types of their own: one can't be passed for another.
func TestKindsDiffer(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, r := range []any{ref.Login{}, ref.Browser{}, ref.Document{}, ref.Attended{}, ref.Principal{}} {
		seen[reflect.TypeOf(r)] = true
	}
	if len(seen) != 5 {
		t.Error(seen)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("login_" + strings.Repeat("0a", 32))
	f.Add("browser_" + strings.Repeat("0a", 32))
	f.Add("login_")
	form := regexp.MustCompile(`^login_[0-9a-f]{64}$`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ref.Parse[ref.LoginKind](text)
		if (err == nil) != (form.MatchString(text) && !strings.HasSuffix(text, "\n")) || err == nil && r.String() != text {
			t.Fatalf("%q: %v, %v", text, r, err)
		}
	})
}
