package source

import (
	"context"
	"encoding/xml"
	"errors"
	"strings"
)

// titlesAtOnce is how many entries one REPORT asks for.
const titlesAtOnce = 50

// entitle gives calendar and address book entries the names that they have inside
// (SUMMARY, FN), which their files' names rarely tell. It asks with a multiget
// REPORT (RFC 4791 section 7.9, RFC 6352 section 8.7); a server that refuses it
// leaves the files' names.
func (s site) entitle(ctx context.Context, at string, rows []resource) error {
	var open, close, property string
	switch s.config.Kind {
	case "caldav":
		open, close, property = `<c:calendar-multiget xmlns="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><prop><c:calendar-data/></prop>`, `</c:calendar-multiget>`, "SUMMARY"
	case "carddav":
		open, close, property = `<c:addressbook-multiget xmlns="DAV:" xmlns:c="urn:ietf:params:xml:ns:carddav"><prop><c:address-data/></prop>`, `</c:addressbook-multiget>`, "FN"
	default:
		return nil
	}
	var body strings.Builder
	body.WriteString(xml.Header + open)
	for _, r := range rows {
		if r.folder {
			continue
		}
		body.WriteString("<href>")
		if err := xml.EscapeText(&body, []byte(davAt(s.base, r.rel).EscapedPath())); err != nil {
			return errUnavailable
		}
		body.WriteString("</href>")
	}
	body.WriteString(close)
	found, err := s.rows(ctx, "REPORT", at, body.String(), "1")
	if errors.Is(err, errRefused) {
		return nil
	}
	if err != nil {
		return err
	}
	named := map[string]string{}
	for _, f := range found {
		named[f.rel] = entryName(f.entry, property)
	}
	for i := range rows {
		if name := named[rows[i].rel]; name != "" {
			rows[i].name = name
		}
	}
	return nil
}

// entryName answers a property's first value in the text of an entry (RFC 5545
// section 3.1, RFC 6350 section 3), or "".
func entryName(text, property string) string {
	text = strings.NewReplacer("\r\n ", "", "\r\n\t", "", "\n ", "", "\n\t", "").Replace(text)
	inside := property != "SUMMARY" // a time zone's or an alarm's isn't the entry's
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch strings.ToUpper(line) {
		case "BEGIN:VEVENT", "BEGIN:VTODO", "BEGIN:VJOURNAL":
			inside = true
		case "BEGIN:VALARM":
			inside = false
		}
		name, value, ok := cutProperty(line)
		if _, plain, grouped := strings.Cut(name, "."); grouped {
			name = plain
		}
		if inside && ok && strings.EqualFold(name, property) && strings.TrimSpace(value) != "" {
			return strings.NewReplacer(`\n`, " ", `\N`, " ", `\,`, ",", `\;`, ";", `\\`, `\`).Replace(value)
		}
	}
	return ""
}

// cutProperty cuts NAME;PARAMETERS:VALUE at the first colon outside quotes.
func cutProperty(line string) (name, value string, ok bool) {
	quoted := false
	for i := range len(line) {
		switch {
		case line[i] == '"':
			quoted = !quoted
		case line[i] == ':' && !quoted:
			name, _, _ = strings.Cut(line[:i], ";")
			return name, line[i+1:], true
		}
	}
	return "", "", false
}
