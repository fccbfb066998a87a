package tool

import "chaperone/internal/canon"

// Bounds of the contract, in bytes unless said.
const (
	MaxRead    = 262_144                // of one item_read
	MaxWrite   = 1 << 20                // of one item_write's content, decoded
	MaxResult  = 512 << 10              // of one structured result
	MaxRows    = 100                    // of one list
	maxEncoded = (MaxWrite + 2) / 3 * 4 // characters of base64
	maxText    = maxEncoded + 256<<10   // of the arguments
	maxInteger = canon.MaxInt
)

type node = map[string]any

// Parts of the input schemas. Only keywords of WebMCP's coming subset: type,
// properties, required, enum, pattern, minimum, maximum, minLength, maxLength,
// items, additionalProperties: false. A page's browser enforces none of them; Go
// does, for every transport.
var (
	collectionID = node{"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"}
	itemID       = text(1, 512)
	requestID    = node{"type": "string", "pattern": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"}
	version      = node{"type": "string", "pattern": "^[!-~]{1,128}$"}
	cursor       = node{"type": "string", "pattern": "^[A-Za-z0-9_-]{1,1000}$"}
	mediaType    = node{"type": "string", "pattern": "^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$"}
	boolean      = node{"type": "boolean"}
	onlyTrue     = node{"type": "boolean", "enum": []any{true}}
	anyText      = node{"type": "string"}
	anyObject    = node{"type": "object"}

	collectionRow = members([]string{"collection", "title", "source", "functions"}, "collection", anyText, "title", anyText,
		"source", oneOf("inbox", "storage", "external"), "functions", array(anyText), "item_count", integer(0, maxInteger))
	itemRow = members([]string{"item", "title", "version", "size", "media_type", "modified_ms"}, "item", anyText, "title", anyText,
		"version", anyText, "size", integer(0, maxInteger), "media_type", anyText, "modified_ms", integer(0, maxInteger), "metadata", anyObject)
)

func integer(least, most int64) node {
	return node{"type": "integer", "minimum": least, "maximum": most}
}

func text(least, most int64) node {
	return node{"type": "string", "minLength": least, "maxLength": most}
}

func array(items node) node { return node{"type": "array", "items": items} }

func oneOf(words ...string) node {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = w
	}
	return node{"type": "string", "enum": all}
}

// members makes an object's schema from names and schemas in turn.
func members(required []string, pairs ...any) node {
	properties := node{}
	for i := 0; i < len(pairs); i += 2 {
		properties[pairs[i].(string)] = pairs[i+1].(node)
	}
	n := node{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		all := make([]any, len(required))
		for i, r := range required {
			all[i] = r
		}
		n["required"] = all
	}
	return n
}

// object is members in canonical bytes.
func object(required []string, pairs ...any) []byte {
	data, err := canon.Marshal(members(required, pairs...))
	if err != nil {
		panic("tool: a schema of ours doesn't encode: " + err.Error())
	}
	return data
}
