package oscar

import (
	"reflect"
	"slices"
	"strings"
)

// UnknownKey is a key of a definition that neither OSCAR nor this project knows. It is kept and has
// no effect.
type UnknownKey struct {
	// Path of the key in the definition.
	Path string
	Key  string
	// Known are the keys that could stand in its place.
	Known []string
}

// UnknownKeys lists the keys of a service that nothing reads, sorted by path.
func UnknownKeys(s *Service) []UnknownKey {
	var found []UnknownKey
	unknownIn("", reflect.ValueOf(s), &found)
	return found
}

// unknownIn looks at a value and at all that is in it.
func unknownIn(path string, v reflect.Value, found *[]UnknownKey) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			unknownIn(path, v.Elem(), found)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				unknownIn(indexPath(path, i), v.Index(i), found)
			}
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Struct {
			for _, key := range keysInOrder(v) {
				unknownIn(joinPath(path, key.String()), v.MapIndex(key), found)
			}
		}
	case reflect.Struct:
		unknownOf(path, v, found)
	}
}

// unknownOf looks at an object.
func unknownOf(path string, v reflect.Value, found *[]UnknownKey) {
	fields, extra := fieldsOf(v.Type())
	if extra >= 0 {
		known := make([]string, 0, len(fields))
		for _, f := range fields {
			known = append(known, f.name)
		}
		passed, _ := handedOn(v.Type())
		known = append(known, passed...)
		for _, key := range keysInOrder(v.Field(extra)) {
			if slices.ContainsFunc(passed, func(name string) bool { return strings.EqualFold(name, key.String()) }) {
				continue
			}
			*found = append(*found, UnknownKey{Path: joinPath(path, key.String()), Key: key.String(), Known: known})
		}
	}
	for _, f := range fields {
		unknownIn(joinPath(path, f.name), v.Field(f.index), found)
	}
}

// handedOn lists the keys of an object that OSCAR v4.1.2 knows and that no field here holds: they are sent as they came.
// texts are those of them that are text, or hold it.
func handedOn(t reflect.Type) (keys, texts []string) {
	switch t {
	case reflect.TypeFor[Kserve]():
		texts = []string{"llm_inference", "api_version", "cpu", "memory", "args", "env"}
		return append([]string{"min_scale", "max_scale", "enable_gpu", "set_auth"}, texts...), texts
	case reflect.TypeFor[KserveInference]():
		texts = []string{"runtime"}
		return texts, texts
	}
	return nil, nil
}

// handedOnAsText says whether a key of handedOn is text, or holds it.
func handedOnAsText(t reflect.Type, key string) bool {
	_, texts := handedOn(t)
	return slices.ContainsFunc(texts, func(name string) bool { return strings.EqualFold(name, key) })
}

func keysInOrder(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
