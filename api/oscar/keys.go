package oscar

import (
	"encoding/json"
	"reflect"
)

// Key is a key of a definition.
type Key struct {
	// Path has dots between keys, without indices of lists: federation.members.priority.
	Path string
	// Type says in words what its value is.
	Type string
}

// Keys lists every key that OSCAR or this project knows, an object before its own keys.
func Keys() []Key { return keysOf("", reflect.TypeFor[Service]()) }

func keysOf(path string, t reflect.Type) (out []Key) {
	fields, _ := fieldsOf(t)
	for _, f := range fields {
		at, of := joinPath(path, f.name), t.Field(f.index).Type
		out = append(out, Key{at, typeWords(of)})
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice && of != reflect.TypeFor[json.RawMessage]() {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct {
			out = append(out, keysOf(at, of)...)
		}
	}
	return out
}

// typeWords says what a value of a type is.
func typeWords(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Ports]():
		return "number or list of numbers"
	case reflect.TypeFor[json.RawMessage]():
		return "any"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeWords(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "list of " + typeWords(t.Elem()) + "s"
	case reflect.Map:
		return "map of " + typeWords(t.Elem()) + "s"
	case reflect.Struct:
		return "object"
	}
	return "number"
}
