package tool

import (
	"slices"
	"strings"

	"chaperone/internal/canon"
)

// Selected is one collection and the functions of it that a grant names. There
// is no wildcard: a collection that isn't named isn't in it.
type Selected struct {
	Collection string `json:"collection"`
	Functions  []Name `json:"functions"`
}

// MaxSelected is how many collections one selection can name.
const MaxSelected = 200

// Selectable are the functions that a selection can name; collections_list comes
// with any of them.
var Selectable = []Name{ListItems, ReadItem, WriteItem, DeleteItem}

// Order puts a selection into its one form: by collection, functions in the
// catalog's order, none twice. An unknown function, a collection named twice or
// without a function, a malformed id: InvalidInput.
func Order(selection []Selected) ([]Selected, error) {
	if len(selection) > MaxSelected {
		return nil, Fail(InvalidInput, "path", "/selection", "rule", "maxItems")
	}
	out := make([]Selected, 0, len(selection))
	for _, s := range selection {
		if !validCollection(s.Collection) {
			return nil, Fail(InvalidInput, "path", "/selection/collection", "rule", "pattern")
		}
		functions := make([]Name, 0, len(s.Functions))
		for _, f := range Selectable {
			if slices.Contains(s.Functions, f) {
				functions = append(functions, f)
			}
		}
		if len(functions) == 0 || len(functions) != len(s.Functions) {
			return nil, Fail(InvalidInput, "path", "/selection/functions", "rule", "enum")
		}
		out = append(out, Selected{s.Collection, functions})
	}
	slices.SortFunc(out, func(a, b Selected) int { return strings.Compare(a.Collection, b.Collection) })
	for i := 1; i < len(out); i++ {
		if out[i].Collection == out[i-1].Collection {
			return nil, Fail(InvalidInput, "path", "/selection/collection", "rule", "uniqueItems")
		}
	}
	return out, nil
}

// Allows tells whether the selection names that function of that collection, and
// whether it names the collection at all.
func Allows(selection []Selected, collection string, f Name) (allowed, named bool) {
	for _, s := range selection {
		if s.Collection == collection {
			return slices.Contains(s.Functions, f), true
		}
	}
	return false, false
}

// Digest names {tool, arguments}: what a prepare receipt and a request record
// bind. arguments is JSON text of the closed subset; its error is a *canon.Error.
func Digest(name string, arguments []byte) (string, error) {
	data, err := canon.Marshal(map[string]any{"tool": name, "arguments": canon.Text(arguments)})
	if err != nil {
		return "", err
	}
	return canon.Digest(data), nil
}
