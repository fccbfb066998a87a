package rest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
	"chaperone/spec"
)

// TestCodesPage holds the page's table of codes to what is answered.
func TestCodesPage(t *testing.T) {
	data := must[[]byte](t)(spec.Files.ReadFile("attended-control.md"))
	_, section, _ := strings.Cut(string(data), "## 8.")
	seen := 0
	for _, m := range regexp.MustCompile(`(?m)^\| (\d{3})(, retryable)? \| ([a-z_, ]+) \|$`).FindAllStringSubmatch(section, -1) {
		for _, code := range strings.Split(m[3], ", ") {
			seen++
			if got := fmt.Sprint(controlv1.RESTStatus(refusal.Code(code))); got != m[1] || controlv1.Retryable(refusal.Code(code)) != (m[2] != "") {
				t.Errorf("%s is %s", code, got)
			}
		}
	}
	if seen != 25 {
		t.Errorf("%d codes", seen)
	}
}
