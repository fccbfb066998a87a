package site_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"chaperone/internal/pagetest"
)

// Where another provider signs people in, passkeys are told as what they are there:
// for confirming. Nothing is said of recovery codes, and the last isn't to be removed.
func TestPasskeysToConfirmWith(t *testing.T) {
	for lang, says := range map[string]struct{ lead, elsewhere, none, remove string }{
		"en": {"For confirming what agents ask.", "You sign in at https://id.example.org", "No passkey", "Remove"},
		"es": {"Para confirmar lo que piden los agentes.", "Inicias sesión en https://id.example.org", "Ninguna llave de acceso", "Quitar"},
	} {
		t.Run(lang, func(t *testing.T) {
			b := start(t)
			var keys []m
			b.hook["GET /api/session"] = b.owner(func(w http.ResponseWriter, r *http.Request) {
				now := time.Now().UnixMilli()
				answer(w, 200, m{"person": m{"name": b.person}, "csrf": "csrf-" + b.key, "session": "5e55", "session_generation": 1, "acr": "gold", "fresh_until_ms": now + 290_000,
					"idle_ends_ms": now + 1_800_000, "ends_ms": now + 12*3_600_000, "recovery": false, "provider": m{"built_in": false, "issuer": "https://id.example.org"},
					"browser_surface": m{"allowed": true}, "agents": true, "passkeys": true})
			})
			b.hook["GET /api/passkeys"] = b.owner(func(w http.ResponseWriter, r *http.Request) {
				answer(w, 200, m{"passkeys": append([]m{}, keys...)})
			})
			p := pagetest.Start(t).Page(pagetest.Look{Language: lang})
			look := func(want string, buttons int) {
				t.Helper()
				open(b, p, "/settings")
				p.See(says.lead)
				p.See(want)
				text := p.Text("main section")
				if !strings.Contains(text, says.elsewhere) || strings.Contains(strings.ToLower(text), "recover") || strings.Contains(strings.ToLower(text), "recuperaci") {
					t.Errorf("settings say\n%s", text)
				}
				var got int
				p.Eval("[...document.querySelectorAll('main button')].filter(b => b.innerText.trim() === "+pagetest.Quote(says.remove)+").length", &got)
				if got != buttons {
					t.Errorf("%d can be removed, want %d", got, buttons)
				}
			}
			look(says.none, 0)
			add := func(k m) { b.mu.Lock(); keys = append(keys, k); b.mu.Unlock() }
			now := time.Now().UnixMilli()
			add(m{"id": "p1", "name": "Laptop", "synced": false, "created_ms": now - 30*day, "used_ms": now - 60_000})
			look("Laptop", 0)
			add(m{"id": "p2", "name": "Phone", "synced": true, "created_ms": now - 29*day})
			look("Phone", 2)
		})
	}
}
