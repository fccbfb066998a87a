package mcp

import "encoding/json"

// Read answers how the border judges a line: "" for a message.
func Read(line []byte) string {
	if _, bad := read(line); bad != nil {
		return bad.text
	}
	return ""
}

// Parse answers how a tool's arguments are judged, and the params made of them.
func Parse(name string, raw []byte) (json.RawMessage, error) {
	for i := range tools {
		if tools[i].name == name {
			args, err := tools[i].parse(raw)
			if err != nil {
				return nil, err
			}
			return args.encode(), nil
		}
	}
	panic("no tool " + name)
}

// Names lists the tools.
func Names() (names []string) {
	for _, t := range tools {
		names = append(names, t.name)
	}
	return names
}
