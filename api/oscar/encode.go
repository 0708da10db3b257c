package oscar

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
)

// encoder writes typed values as compact JSON in the order of their fields,
// maps and unknown fields sorted: two encodings of equal values are equal bytes.
type encoder struct {
	// full writes zero scalars and structs as OSCAR's answers do.
	full bool
}

func (e encoder) append(b []byte, v reflect.Value) []byte {
	if raw, ok := reflect.TypeAssert[json.RawMessage](v); ok {
		return append(b, raw...)
	}
	switch v.Kind() {
	case reflect.String:
		return appendString(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Int:
		return strconv.AppendInt(b, v.Int(), 10)
	case reflect.Float64:
		return e.float(b, v.Float())
	case reflect.Pointer:
		return e.append(b, v.Elem())
	case reflect.Slice:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.append(b, v.Index(i))
		}
		return append(b, ']')
	case reflect.Map:
		return e.mapping(b, v)
	default:
		return e.object(b, v)
	}
}

func (e encoder) float(b []byte, f float64) []byte {
	out, err := json.Marshal(f)
	if err != nil { // not finite: parsing refuses it
		return append(b, '0')
	}
	return append(b, out...)
}

func (e encoder) mapping(b []byte, v reflect.Value) []byte {
	keys := make([]string, 0, v.Len())
	for _, key := range v.MapKeys() {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		b = e.append(b, v.MapIndex(reflect.ValueOf(key)))
	}
	return append(b, '}')
}

func (e encoder) object(b []byte, v reflect.Value) []byte {
	fields, extraAt := fieldsOf(v.Type())
	b = append(b, '{')
	start := len(b)
	key := func(name string) {
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
	}
	for _, f := range fields {
		field := v.Field(f.index)
		if e.skip(field, f.omitEmpty) {
			continue
		}
		key(f.name)
		b = e.append(b, field)
	}
	if extraAt >= 0 {
		extra, _ := reflect.TypeAssert[Extra](v.Field(extraAt))
		names := make([]string, 0, len(extra))
		for name := range extra {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if len(extra[name]) == 0 {
				continue
			}
			key(name)
			b = append(b, extra[name]...)
		}
	}
	return append(b, '}')
}

func (e encoder) skip(field reflect.Value, omitEmpty bool) bool {
	switch field.Kind() {
	case reflect.Slice, reflect.Map:
		return field.IsNil() || e.full && omitEmpty && field.Len() == 0
	case reflect.Pointer:
		return field.IsNil()
	default:
		return field.IsZero() && (!e.full || omitEmpty)
	}
}

func encode(v any) ([]byte, error) { return encoder{}.append(nil, reflect.ValueOf(v)), nil }

// decode is UnmarshalJSON of every type here: the first violation is the error.
func decode(data []byte, dst any) error {
	v, violation := parseJSON(data, "the value", MaxServiceBytes)
	if violation != nil {
		return *violation
	}
	var d decoder
	d.into("", v, reflect.ValueOf(dst).Elem())
	if len(d.violations) > 0 {
		return d.violations[0]
	}
	return nil
}
