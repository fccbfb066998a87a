package tool

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/canon"
	"chaperone/internal/schema"
)

// Input is what one of the five tools was asked. Only Decode makes one.
type Input interface{ Tool() Name }

// CollectionsList asks for the account's collections.
type CollectionsList struct {
	Cursor string
	Limit  int // 1..100
}

// ItemsList asks for a collection's items.
type ItemsList struct {
	Collection, Cursor string
	Limit              int // 1..100
	Prefix, Query      string
}

// ItemRead asks for a part of an item's content.
type ItemRead struct {
	Collection, Item string
	MaxBytes         int // 1..262144
	Offset           int64
}

// ItemWrite asks for a new or another item, or another metadata.
type ItemWrite struct {
	Collection, Item string
	RequestID        string // UUID, lower case
	HasContent       bool
	Content          []byte // at most 1 MiB
	MediaType        string // "" where it isn't given
	Metadata         map[string]any
	IfVersion        string // exactly one of the two, or for an inbox IfVersion
	IfAbsent         bool
}

// ItemDelete asks for a version of an item to be gone.
type ItemDelete struct {
	Collection, Item     string
	RequestID, IfVersion string
}

// Tool answers which tool it is for.
func (CollectionsList) Tool() Name { return ListCollections }

// Tool answers which tool it is for.
func (ItemsList) Tool() Name { return ListItems }

// Tool answers which tool it is for.
func (ItemRead) Tool() Name { return ReadItem }

// Tool answers which tool it is for.
func (ItemWrite) Tool() Name { return WriteItem }

// Tool answers which tool it is for.
func (ItemDelete) Tool() Name { return DeleteItem }

var compiled = func() map[Name]*schema.Schema {
	all := map[Name]*schema.Schema{}
	for _, t := range catalog {
		s, err := schema.Compile(t.Input)
		if err != nil {
			panic("tool: a schema of ours doesn't compile: " + err.Error())
		}
		all[t.Name] = s
	}
	return all
}()

// raw is the union of the five inputs as they travel.
type raw struct {
	Collection string         `json:"collection"`
	Item       string         `json:"item"`
	Cursor     string         `json:"cursor"`
	Limit      int            `json:"limit"`
	Prefix     string         `json:"prefix"`
	Query      string         `json:"query"`
	MaxBytes   int            `json:"max_bytes"`
	Offset     int64          `json:"offset"`
	RequestID  string         `json:"request_id"`
	Content    *string        `json:"content"`
	Encoding   string         `json:"encoding"`
	MediaType  string         `json:"media_type"`
	Metadata   jsontext.Value `json:"metadata"`
	IfVersion  string         `json:"if_version"`
	IfAbsent   bool           `json:"if_absent"`
}

// Decode reads a tool's arguments, JSON text of the closed subset. Its error is an
// *Error: unknown_tool, too_large, or invalid_input with the path of the first
// fault and the schema's keyword, never with the value.
func Decode(name string, arguments []byte) (Input, error) {
	t, ok := Lookup(name)
	if !ok {
		return nil, Fail(UnknownTool)
	}
	if len(arguments) > maxText {
		return nil, Fail(TooLarge, "limit", maxText)
	}
	clean, err := canon.Within(arguments, maxText)
	if err != nil {
		return nil, Fail(InvalidInput, "path", "", "rule", "json")
	}
	var r raw
	if err := json.Unmarshal(clean, &r); err != nil {
		return nil, invalid("", "type")
	}
	if err := conform(t, clean, r); err != nil {
		return nil, err
	}
	return r.input(t.Name)
}

func invalid(path, rule string) *Error { return Fail(InvalidInput, "path", path, "rule", rule) }

// conform holds the arguments to the tool's schema. Content is left out of what the
// validator sees, whose budget is smaller, and measured by itself.
func conform(t Tool, clean []byte, r raw) error {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(clean, &all); err != nil {
		return invalid("", "type")
	}
	if r.Content != nil {
		if len(*r.Content) > maxEncoded {
			return Fail(TooLarge, "limit", MaxWrite)
		}
		all["content"] = jsontext.Value(`""`)
		clean, _ = json.Marshal(all)
	}
	err := compiled[t.Name].Validate(clean)
	var bad *schema.Invalid
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad) && bad.Keyword == "required":
		return invalid("/"+missing(t, all), "required")
	case errors.As(err, &bad):
		return invalid(bad.Pointer, bad.Keyword)
	}
	return Fail(TooLarge, "limit", schema.MaxValue)
}

// missing answers the first member that the schema asks for and isn't there.
func missing(t Tool, all map[string]jsontext.Value) string {
	var s struct {
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(t.Input, &s); err != nil {
		return ""
	}
	for _, name := range s.Required {
		if _, ok := all[name]; !ok {
			return name
		}
	}
	return ""
}

// input keeps the rules that no schema of the subset can say.
func (r raw) input(name Name) (Input, error) {
	if name != ListCollections && !validCollection(r.Collection) {
		return nil, invalid("/collection", "pattern")
	}
	if (name == ReadItem || name == WriteItem || name == DeleteItem) && !ValidItem(r.Item) {
		return nil, invalid("/item", "text")
	}
	switch name {
	case ListCollections:
		return CollectionsList{r.Cursor, or(r.Limit, 50)}, nil
	case ListItems:
		if len(r.Prefix) > 512 || !Plain(r.Prefix) {
			return nil, invalid("/prefix", "text")
		}
		if len(r.Query) > 256 || !Plain(r.Query) {
			return nil, invalid("/query", "text")
		}
		return ItemsList{r.Collection, r.Cursor, or(r.Limit, 50), r.Prefix, r.Query}, nil
	case ReadItem:
		return ItemRead{r.Collection, r.Item, or(r.MaxBytes, 65_536), r.Offset}, nil
	case DeleteItem:
		return ItemDelete{r.Collection, r.Item, strings.ToLower(r.RequestID), r.IfVersion}, nil
	}
	return r.write()
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// write reads what is to be written. Whether its source takes content, metadata or
// if_absent is the operation's to say, where the collection is known.
func (r raw) write() (Input, error) {
	w := ItemWrite{Collection: r.Collection, Item: r.Item, RequestID: strings.ToLower(r.RequestID),
		MediaType: r.MediaType, IfVersion: r.IfVersion, IfAbsent: r.IfAbsent}
	if w.IfAbsent == (w.IfVersion != "") {
		return nil, invalid("/if_version", "oneOf")
	}
	if r.Content == nil && len(r.Metadata) == 0 {
		return nil, invalid("/content", "required")
	}
	if r.Content == nil && (r.Encoding != "" || r.MediaType != "") {
		return nil, invalid("/content", "dependentRequired")
	}
	if len(r.Metadata) > 0 {
		m, err := metadata(r.Metadata)
		if err != nil {
			return nil, err
		}
		w.Metadata = m
	}
	if r.Content != nil {
		content, err := decode(*r.Content, r.Encoding)
		if err != nil {
			return nil, err
		}
		w.HasContent, w.Content = true, content
		if w.IfAbsent && w.MediaType == "" && r.Encoding != "base64" {
			w.MediaType = "text/plain" // a new item that was written as text is text
		}
	}
	return w, nil
}

func decode(content, encoding string) ([]byte, error) {
	data := []byte(content)
	if encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.Strict().DecodeString(content); err != nil {
			return nil, invalid("/content", "contentEncoding")
		}
	}
	if len(data) > MaxWrite {
		return nil, Fail(TooLarge, "limit", MaxWrite)
	}
	return data, nil
}

// metadata reads an object whose numbers are integers (the subset has no others).
func metadata(text jsontext.Value) (map[string]any, error) {
	integers := json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) error {
		if dec.PeekKind() == '0' {
			var n int64
			if err := json.UnmarshalDecode(dec, &n); err != nil {
				return err
			}
			*v = n
			return nil
		}
		return errors.ErrUnsupported
	}))
	var m map[string]any
	if err := json.Unmarshal(text, &m, integers); err != nil {
		return nil, invalid("/metadata", "type")
	}
	if _, ok := validMetadata(m); !ok {
		return nil, invalid("/metadata", "text")
	}
	if m == nil {
		m = map[string]any{}
	}
	return m, nil
}
