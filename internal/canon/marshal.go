package canon

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"chaperone/internal/refusal"
)

// Text is JSON text inside a value for [Marshal], which canonicalises it.
type Text []byte

// Marshal answers the canonical bytes of a Go value: nil, booleans, strings,
// integers, [Text], and slices and maps of strings to such values (of type any
// or of one of these types). Anything else is an *Error: a struct has no one
// canonical form, so its caller builds the map that the spec names.
func Marshal(v any) ([]byte, error) { return appendValue(nil, v, 0) }

func appendValue(out []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, fault("invalid UTF-8")
		}
		return appendString(out, v), nil
	case int:
		return appendInt(out, int64(v))
	case int64:
		return appendInt(out, v)
	case Text:
		return appendText(out, v, depth)
	}
	// The rest by reflection: []string, map[string]string, named strings, uint8…
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(out, r.Bool()), nil
	case reflect.String:
		return appendValue(out, r.String(), depth)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int, reflect.Int64:
		return appendInt(out, r.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint, reflect.Uint64:
		return appendInt(out, int64(min(r.Uint(), MaxInt+1)))
	case reflect.Slice:
		return appendSlice(out, r, depth)
	case reflect.Map:
		return appendMap(out, r, depth)
	}
	return nil, fault(fmt.Sprintf("a %T has no canonical form", v))
}

func fault(why string) error { return &Error{refusal.BadDocument, -1, why} }

func appendInt(out []byte, n int64) ([]byte, error) {
	if n < -MaxInt || n > MaxInt {
		return nil, fault("an integer beyond 2^53-1")
	}
	return strconv.AppendInt(out, n, 10), nil
}

// appendText canonicalises text at the depth where it stands.
func appendText(out, text []byte, depth int) ([]byte, error) {
	s := scanner{text: text}
	if err := s.value(depth); err != nil {
		return nil, err
	}
	if s.next(); s.at < len(text) {
		return nil, s.bad("data after the value")
	}
	return append(out, s.out...), nil
}

func deeper(depth int) (int, error) {
	if depth == MaxDepth {
		return 0, &Error{refusal.TooDeep, -1, "nested over 64 deep"}
	}
	return depth + 1, nil
}

func appendSlice(out []byte, r reflect.Value, depth int) ([]byte, error) {
	if r.Type().Elem().Kind() == reflect.Uint8 {
		return nil, fault("bytes have no canonical form: encode them, or say Text")
	}
	depth, err := deeper(depth)
	if err != nil {
		return nil, err
	}
	out = append(out, '[')
	for i := range r.Len() {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendValue(out, r.Index(i).Interface(), depth); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func appendMap(out []byte, r reflect.Value, depth int) ([]byte, error) {
	if r.Type().Key().Kind() != reflect.String {
		return nil, fault("a map's keys are strings")
	}
	depth, err := deeper(depth)
	if err != nil {
		return nil, err
	}
	keys := r.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return compare(a.String(), b.String()) })
	out = append(out, '{')
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendValue(out, key.String(), depth); err != nil {
			return nil, err
		}
		out = append(out, ':')
		if out, err = appendValue(out, r.MapIndex(key).Interface(), depth); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}
