package scope_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/scope"
)

func TestImportROE(t *testing.T) {
	s, err := scope.ImportROE("roe.json", []byte(`{
	"engagement_name": "acme-2026", "in_scope": ["prose for people"], "client": {"name": "Acme"},
	"machine_enforcement": {
		"mode": "enforce",
		"in_scope": ["app.acme.com", {"target": "*.acme.com", "type": "domain-glob"}, {"target": "10.20.0.5/16", "type": "cidr"}, "10.30.0.1",
			"api.acme.net:8443", "https://portal.acme.net/app/", "http://old.acme.net", "app.acme.com", "gone.acme.org"],
		"out_of_scope": [{"target": "pay.acme.com", "type": "host", "notes": "third party"}, "10.20.9.0/24", "gone.acme.org"],
		"forbidden_destinations": ["metadata.azure.com", "*.corp.acme.com"],
		"forbidden_command_patterns": [],
		"allow_cloud_metadata": false,
		"allow_sensitive_tlds": false,
		"max_concurrent_connections": null,
		"min_inter_request_delay_ms": 0,
		"authorized_windows": [{"start": "2026-12-01T00:00:00+00:00", "end": "2026-12-10T00:00:00Z"}, ["2026-12-10T00:00:00Z", "2026-12-24T00:00:00Z"]],
		"blackout_windows": [["2026-12-20T00:00:00Z", "2026-12-25T00:00:00Z"], ["2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z"]]
	}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `engagement: acme-2026
allow:
  - host: app.acme.com
    ports: "*"
  - host: "*.acme.com"
    ports: "*"
  - cidr: "10.20.0.0/16"
    ports: "*"
  - host: "10.30.0.1"
    ports: "*"
  - host: api.acme.net
    ports: [8443]
  - host: portal.acme.net
    ports: [443]
    schemes: [https, wss]
    paths: ["/app", "/app/**"]
  - host: old.acme.net
    ports: [80]
    schemes: [http, ws]
deny:
  - host: pay.acme.com
  - cidr: "10.20.9.0/24"
  - host: gone.acme.org
  - host: metadata.azure.com
  - host: "*.corp.acme.com"
not_before: "2026-12-01T00:00:00Z"
not_after: "2026-12-20T00:00:00Z"
`
	if diff := cmp.Diff(want, string(s.YAML())); diff != "" {
		t.Error(diff)
	}
	again, err := scope.Parse("scope.yaml", s.YAML())
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest() != s.Digest() {
		t.Error("the imported scope isn't the file that it is written as")
	}
	renamed, err := s.WithEngagement("other")
	if err != nil || renamed.Engagement() != "other" || renamed.Digest() == s.Digest() || s.Engagement() != "acme-2026" {
		t.Errorf("WithEngagement: %v %v", renamed, err)
	}
}

// An empty in_scope denies everything, whatever else is said.
func TestImportedNothingDeniesAll(t *testing.T) {
	for _, block := range []string{`{}`, `{"in_scope": []}`, `{"in_scope": null}`, `{"in_scope": [], "allow_cloud_metadata": true, "mode": "enforce"}`} {
		s, err := scope.ImportROE("roe.json", []byte(`{"machine_enforcement": `+block+`}`))
		if err != nil {
			t.Errorf("%s: %v", block, err)
			continue
		}
		for _, u := range []string{"https://example.com/", "http://127.0.0.1/", "http://localhost/"} {
			if got := judge(s, row{"GET", u, "", noon}); got != "no_rule no rule" {
				t.Errorf("%s: %s is %s", block, u, got)
			}
		}
	}
}

// What can't be kept exactly is an error, never a wider or a narrower scope.
func TestImportRefusesWhatItCantKeep(t *testing.T) {
	window := func(authorized, blackout string) string {
		return `"in_scope": ["a.com"], "authorized_windows": [` + authorized + `], "blackout_windows": [` + blackout + `]`
	}
	for block, want := range map[string]string{
		`"mode": "audit"`:                                              "a scope always enforces",
		`"mode": "warn"`:                                               "a scope always enforces",
		`"forbidden_command_patterns": ["hydra"]`:                      "patterns of commands",
		`"max_concurrent_connections": 3`:                              "a rate",
		`"min_inter_request_delay_ms": 100`:                            "a rate",
		`"surprise": 1`:                                                "unknown key",
		`"in_scope": "a.com"`:                                          "must be a list",
		`"in_scope": [1]`:                                              "must be a string",
		`"in_scope": [{"type": "host"}]`:                               "has a target",
		`"in_scope": [{"target": "a.com", "x": 1}]`:                    "unknown key",
		`"in_scope": [{"target": "a.com", "type": "cidr"}]`:            "is of type host, not cidr",
		`"in_scope": [{"target": "10.0.0.0/8", "type": "host"}]`:       "is of type cidr, not host",
		`"in_scope": ["app-*.acme.com"]`:                               "only glob",
		`"in_scope": ["*"]`:                                            "only glob",
		`"in_scope": ["host?.acme.com"]`:                               "is no host",
		`"in_scope": ["*.com"]`:                                        "public suffix",
		`"in_scope": ["a.com/x"]`:                                      "a path needs its scheme",
		`"in_scope": ["ftp://a.com/"]`:                                 "only http, https, ws and wss",
		`"in_scope": ["https://u:p@a.com/"]`:                           "user name",
		`"in_scope": ["https://a.com/?q=1"]`:                           "query",
		`"in_scope": ["https://a.com/*"]`:                              "can't be kept",
		`"in_scope": ["https://a.com/%41"]`:                            "decoded character",
		`"in_scope": ["127.1"]`:                                        "odd spelling",
		`"in_scope": ["agency.gov"]`:                                   "allow_sensitive_tlds",
		`"in_scope": ["*.navy.mil"]`:                                   "allow_sensitive_tlds",
		`"in_scope": ["a.com:99999"]`:                                  "the port must be",
		`"allow_cloud_metadata": "yes"`:                                "must be true or false",
		window(`["2026-01-01T00:00:00", "2026-02-01T00:00:00"]`, ``):   "with zone",
		window(`["2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"]`, ``): "ends before it starts",
		window(`["2026-01-01T00:00:00Z"]`, ``):                         "a window is",
		window(`{"start": "2026-01-01T00:00:00Z"}`, ``):                "a window is",
		window(`["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"], ["2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"]`, ``): "2 separate spans",
		window(`["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]`, `["2026-01-10T00:00:00Z", "2026-01-11T00:00:00Z"]`):   "2 separate spans",
		window(`["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]`, `["2025-01-10T00:00:00Z", "2027-01-11T00:00:00Z"]`):   "leave nothing",
		window(``, `["2026-01-10T00:00:00Z", "2026-01-11T00:00:00Z"]`):                                                   "2 separate spans",
	} {
		_, err := scope.ImportROE("roe.json", []byte(`{"machine_enforcement": {`+block+`}}`))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "roe.json:1:") {
			t.Errorf("%s: got %v, want %q", block, err, want)
		}
	}
	for text, want := range map[string]string{`{}`: "machine_enforcement: missing", `[]`: "must be a mapping", `{"machine_enforcement": []}`: "must be a mapping", ``: "roe.json", `{`: "not JSON"} {
		if _, err := scope.ImportROE("roe.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
