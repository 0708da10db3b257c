package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// A record may have been written by a newer version, with fields that this one does not
// know. They survive each change that is made here: what is stored is laid beside what is
// to be written, and the fields that the Go type does not have are taken over, at every
// level. An object stays the same one as long as its identifying fields, those with the
// tag record:"id", do; of another life of a replica nothing is taken over. The elements of
// lists are found by the same fields, also where they have moved to another list of the
// record.

// KeepUnknown returns next, the encoding of rec, with the fields of before, what the key
// holds, that rec's type does not know. It returns before itself when nothing else but
// the order of fields differs, so that two versions do not write in turns. What is not an
// object of JSON has no fields.
func KeepUnknown(before, next []byte, rec any) ([]byte, error) {
	t := structOf(reflect.TypeOf(rec))
	if t == nil || bytes.Equal(before, next) {
		return next, nil
	}
	strict := json.NewDecoder(bytes.NewReader(before))
	strict.DisallowUnknownFields()
	if strict.Decode(reflect.New(t).Interface()) == nil {
		return next, nil
	}
	k := keeper{elements: map[element][]json.RawMessage{}}
	k.index(t, before)
	out, err := k.merge(t, before, next)
	if err != nil {
		return nil, fmt.Errorf("keep the unknown fields of %s: %w", t, err)
	}
	if sameJSON(before, out) {
		return before, nil
	}
	return out, nil
}

// element names an object in a list of a record.
type element struct {
	of reflect.Type
	id string
}

// keeper takes over the unknown fields of one record.
type keeper struct {
	// elements are the objects of all lists of what is stored.
	elements map[element][]json.RawMessage
}

// index finds the elements of all lists in what is stored.
func (k *keeper) index(t reflect.Type, raw json.RawMessage) {
	known := fieldsOf(t)
	for _, f := range objectOf(raw) {
		kind, ok := known[f.name]
		if !ok {
			continue
		}
		switch of := structOf(kind.t); {
		case of != nil:
			k.index(of, f.value)
		case structOf(elementOf(kind.t)) != nil:
			of := structOf(elementOf(kind.t))
			for _, e := range listOf(f.value) {
				at := element{of, idOf(of, e)}
				k.elements[at] = append(k.elements[at], e)
				k.index(of, e)
			}
		}
	}
}

// merge returns the object now with the unknown fields of before, where it is the same one.
func (k *keeper) merge(t reflect.Type, before, now json.RawMessage) (json.RawMessage, error) {
	had, has := objectOf(before), objectOf(now)
	if has == nil {
		return now, nil
	}
	if had != nil && idOf(t, before) != idOf(t, now) {
		had = nil
	}
	known := fieldsOf(t)
	out := make([]field, 0, len(has)+len(had))
	for _, f := range has {
		value, err := k.value(known[f.name].t, valueOf(had, f.name), f.value)
		if err != nil {
			return nil, err
		}
		out = append(out, field{f.name, value})
	}
	for _, f := range had {
		if !isKnown(known, f.name) {
			out = append(out, f)
		}
	}
	return encodeObject(out)
}

// value is merge for what a known field holds.
func (k *keeper) value(t reflect.Type, before, now json.RawMessage) (json.RawMessage, error) {
	if of := structOf(t); of != nil {
		return k.merge(of, before, now)
	}
	of := structOf(elementOf(t))
	if of == nil {
		return now, nil
	}
	list := listOf(now)
	if list == nil {
		return now, nil
	}
	here := map[string][]json.RawMessage{}
	for _, e := range listOf(before) {
		id := idOf(of, e)
		here[id] = append(here[id], e)
	}
	for i, e := range list {
		id := idOf(of, e)
		var had json.RawMessage
		switch elsewhere := k.elements[element{of, id}]; {
		case len(here[id]) > 0:
			had, here[id] = here[id][0], here[id][1:]
		case len(elsewhere) > 0:
			had = elsewhere[0]
		}
		var err error
		if list[i], err = k.merge(of, had, e); err != nil {
			return nil, err
		}
	}
	return Encode(list)
}

// known is a field that a type has.
type known struct {
	t  reflect.Type
	id bool
}

// fieldsOf are the fields of a record's type by their names in JSON.
func fieldsOf(t reflect.Type) map[string]known {
	out := map[string]known{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(out, fieldsOf(f.Type))
		case f.IsExported() && name != "" && name != "-":
			out[name] = known{t: f.Type, id: f.Tag.Get("record") == "id"}
		}
	}
	return out
}

// isKnown takes a name for known as encoding/json does, whatever its case.
func isKnown(fields map[string]known, name string) bool {
	if _, ok := fields[name]; ok {
		return true
	}
	for f := range fields {
		if strings.EqualFold(f, name) {
			return true
		}
	}
	return false
}

// structOf is the struct type of a field whose fields are those of a record; nil for
// others: what writes itself as JSON has none.
func structOf(t reflect.Type) reflect.Type {
	if t == nil {
		return nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	return t
}

// elementOf is the type of a list's elements; nil for what is no list.
func elementOf(t reflect.Type) reflect.Type {
	if t == nil || t.Kind() != reflect.Slice {
		return nil
	}
	return t.Elem()
}

// idOf tells objects of a type from each other. A missing field is its zero value.
func idOf(t reflect.Type, raw json.RawMessage) string {
	into := reflect.New(t)
	if json.Unmarshal(raw, into.Interface()) != nil {
		return string(raw)
	}
	var b strings.Builder
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for f, value := range v.Fields() {
			switch {
			case f.Anonymous && f.Type.Kind() == reflect.Struct:
				walk(value)
			case f.Tag.Get("record") == "id":
				fmt.Fprintf(&b, "%#v,", value.Interface())
			}
		}
	}
	walk(into.Elem())
	return b.String()
}

// field is one of an object, as it is written.
type field struct {
	name  string
	value json.RawMessage
}

// objectOf takes an object apart; nil for what is none. Of a name that stands twice the
// last counts, as it does when a record is decoded.
func objectOf(raw json.RawMessage) []field {
	if len(raw) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	out := []field{}
	at := map[string]int{}
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil
		}
		f := field{name: name}
		if dec.Decode(&f.value) != nil {
			return nil
		}
		if i, twice := at[f.name]; twice {
			out[i] = f
			continue
		}
		at[f.name] = len(out)
		out = append(out, f)
	}
	return out
}

func valueOf(fields []field, name string) json.RawMessage {
	for _, f := range fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

func listOf(raw json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

// encodeObject writes fields in their order, on one line.
func encodeObject(fields []field) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := Encode(f.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		if err := json.Compact(&b, f.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// sameJSON says whether two texts differ in nothing but the order of fields and spaces.
func sameJSON(a, b []byte) bool {
	decode := func(raw []byte) (any, error) {
		var out any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		return out, dec.Decode(&out)
	}
	x, err := decode(a)
	if err != nil {
		return false
	}
	y, err := decode(b)
	return err == nil && reflect.DeepEqual(x, y)
}
