package operation

import (
	"encoding/base64"
	"strings"

	"chaperone/internal/portal/tool"
)

// A cursor of collections_list is the id of the last collection told, in a form
// that says nothing. It grants nothing: what follows is judged like the first page.
const cursorMark = "c1:"

func cursor(after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorMark + after))
}

// parseCursor is its inverse; one that cursor never made is invalid_input.
func parseCursor(text string) (after string, err error) {
	if text == "" {
		return "", nil
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	after, ok := strings.CutPrefix(string(data), cursorMark)
	if err != nil || !ok || !isCollection.MatchString(after) {
		return "", tool.Fail(tool.InvalidInput, "path", "/cursor", "rule", "pattern")
	}
	return after, nil
}
