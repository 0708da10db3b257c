package record

import (
	"encoding/json"
	"reflect"
	"strings"
	"unsafe"
)

// Compact makes a record that was decoded from text hold less memory: its strings become parts of text, where they
// stand in it as they are, and its slices get no more room than they need. It is for records that are kept together
// with their text. Nobody may change text any more, and a string of the record that is kept keeps all of it.
func Compact(rec any, text []byte) {
	all := unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // nobody changes it, and the copy is what is saved
	c := compaction{text: all, rest: all}
	c.value(reflect.ValueOf(rec))
}

// compaction goes through one record. Its strings stand in the text in the order of its fields: each is looked for in
// the rest behind the one before.
type compaction struct{ text, rest string }

func (c *compaction) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.value(v.Elem())
		}
	case reflect.Struct:
		if _, own := reflect.TypeAssert[json.Unmarshaler](v.Addr()); own {
			return // its fields are not those of the text
		}
		for i := range v.NumField() {
			c.value(v.Field(i))
		}
	case reflect.Slice:
		if n := v.Len(); n > 0 && n < v.Cap() {
			exact := reflect.MakeSlice(v.Type(), n, n)
			reflect.Copy(exact, v)
			v.Set(exact)
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			c.value(v.Index(i))
		}
	case reflect.String:
		v.SetString(c.part(v.String()))
	default: // it has no strings, or is a map, and is kept as it is
	}
}

// part is the part of the text that is equal to s, or s itself where JSON writes it in another way.
func (c *compaction) part(s string) string {
	in := c.rest
	at := strings.Index(in, s)
	if at < 0 {
		in = c.text
		at = strings.Index(in, s)
	}
	if at < 0 || s == "" {
		return s
	}
	c.rest = in[at+len(s):]
	return in[at : at+len(s)]
}
