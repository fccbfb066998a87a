package pagesock_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"chaperone/internal/refusal"
	"chaperone/internal/surface/pagesock"
)

var kinds = []string{pagesock.Recent, pagesock.Arm, pagesock.Document}

// A cookie opens as its own kind, under its own key, and as it was sealed.
func TestSeal(t *testing.T) {
	key, text := bytes.Repeat([]byte{1}, 32), []byte("what is sealed")
	for _, k := range kinds {
		sealed, err := pagesock.Seal(key, k, text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pagesock.Open(key, k, sealed); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %q, %v", k, got, err)
		}
		again, _ := pagesock.Seal(key, k, text)
		if again == sealed {
			t.Errorf("%s: twice the same", k)
		}
		refused := func(what string, key []byte, k, value string) {
			t.Helper()
			if got, err := pagesock.Open(key, k, value); refusal.Of(err) != refusal.Tampered || got != nil {
				t.Errorf("%s: %s: %q, %v", k, what, got, err)
			}
		}
		for _, other := range kinds {
			if other != k {
				refused("as "+other, key, other, sealed)
			}
		}
		refused("another key", bytes.Repeat([]byte{2}, 32), k, sealed)
		raw, err := base64.RawURLEncoding.DecodeString(sealed)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			for bit := range 8 {
				touched := bytes.Clone(raw)
				touched[i] ^= 1 << bit
				refused("a bit", key, k, base64.RawURLEncoding.EncodeToString(touched))
			}
		}
		for n := range sealed {
			refused("cut", key, k, sealed[:n])
		}
		for _, value := range []string{sealed + "A", sealed + "=", sealed + "\n", " " + sealed, strings.Repeat("A", 5000), base64.StdEncoding.EncodeToString(raw) + "=="} {
			refused("spelt otherwise", key, k, value)
		}
		// The last character of base64 may have bits that mean nothing.
		if last := base64.RawURLEncoding.EncodeToString(raw[:len(raw)-len(raw)%3]); len(raw)%3 != 0 {
			for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
				if other := sealed[:len(sealed)-1] + string(c); other != sealed && strings.HasPrefix(other, last) {
					refused("another spelling", key, k, other)
				}
			}
		}
	}
}

// contents are good contents of each kind, as a page has them.
func contents(t testing.TB) map[string][]byte {
	w := fast(t)
	p := w.person()
	p.stepUp()
	p.load()
	grant := p.jar[recentCookie]
	if a := p.send("POST", finalize, offer(), nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	p.jar[recentCookie] = grant
	all := map[string][]byte{}
	for _, k := range kinds {
		text, err := pagesock.Open(w.key, k, p.jar[k])
		if err != nil {
			t.Fatal(err)
		}
		all[k] = text
	}
	return all
}

// What is inside a cookie is read as strictly as if anybody could write it.
func TestContents(t *testing.T) {
	all := contents(t)
	for k, text := range all {
		if again, err := pagesock.Again(k, text); err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s: %v\n%s", k, err, cmp.Diff(string(text), string(again)))
		}
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		refused := func(what string, text []byte) {
			t.Helper()
			if again, err := pagesock.Again(k, text); refusal.Of(err) != refusal.Tampered {
				t.Errorf("%s: %s: %v %s", k, what, err, again)
			}
		}
		changed := func(change func(map[string]any)) []byte {
			other := map[string]any{}
			for name, value := range m {
				other[name] = value
			}
			change(other)
			text, err := json.Marshal(other)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		for name := range m {
			refused("without "+name, changed(func(o map[string]any) { delete(o, name) }))
			refused("null as "+name, changed(func(o map[string]any) { o[name] = nil }))
			refused("a list as "+name, changed(func(o map[string]any) { o[name] = []any{} }))
			refused("upper case "+name, changed(func(o map[string]any) { o[strings.ToUpper(name)] = o[name]; delete(o, name) }))
		}
		refused("more", changed(func(o map[string]any) { o["more"] = 1 }))
		for other, text := range all {
			if other != k {
				refused("what is inside "+other, text)
			}
		}
		for _, text := range []string{"", "null", "{}", "[]", string(text) + "{}", string(text) + "x"} {
			refused("text", []byte(text))
		}
	}
}

// FuzzContents begins at contents of each kind, which are committed.
func FuzzContents(f *testing.F) {
	f.Fuzz(func(t *testing.T, k string, text []byte) {
		if k != pagesock.Recent && k != pagesock.Arm {
			k = pagesock.Document
		}
		again, err := pagesock.Again(k, text)
		if err != nil {
			if refusal.Of(err) != refusal.Tampered {
				t.Errorf("%v", err)
			}
			return
		}
		twice, err := pagesock.Again(k, again)
		if err != nil || !bytes.Equal(twice, again) {
			t.Errorf("what was read once reads otherwise: %v\n%s\n%s", err, again, twice)
		}
	})
}

func FuzzCookie(f *testing.F) {
	key := bytes.Repeat([]byte{1}, 32)
	sealed, err := pagesock.Seal(key, pagesock.Arm, []byte("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add(flip(sealed))
	f.Add("")
	f.Fuzz(func(t *testing.T, value string) {
		if text, err := pagesock.Open(key, pagesock.Arm, value); err == nil && string(text) != "x" {
			t.Errorf("%q opened to %q", value, text)
		}
	})
}

// A finalize's body is read to the end or not at all, and what was read is within
// its limits.
func FuzzOffer(f *testing.F) {
	good, err := json.Marshal(offer(), json.Deterministic(true))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"route_id":"a","registration_generation":1.0,"catalog_digest":null,"tools":[{}]}`))
	f.Add([]byte(`{"route_id":"a","registration_generation":9007199254740992,"catalog_digest":"sha256:","tools":[null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := pagesock.Offer(body)
		if err == nil && (p.Route.IsZero() || p.Generation.IsZero() || p.Catalog.IsZero() || p.Scope.IsZero()) {
			t.Errorf("half a place of %s", body)
		}
	})
}
