package oscar

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// OSCAR v4.1 keeps a definition as YAML in a ConfigMap, by a library (goccy/go-yaml v1.9.8) that writes some texts so that
// it reads others back, or nothing. One definition that it cannot read makes OSCAR answer every list with 500, to all users,
// and it can be neither read nor deleted through OSCAR. What is refused here was found by drawing texts at random and
// reading them back with that library.

// checkKept refuses texts that OSCAR would not read back.
func checkKept(s *Service) []Violation {
	var w keptWalk
	w.value(nil, "", reflect.ValueOf(*s))
	return w.found
}

type keptWalk struct{ found []Violation }

// notInYAML says of a field, or of one of the federation, that OSCAR is not sent it, fills it in itself, or keeps it elsewhere.
func notInYAML(at []string) bool {
	switch at[0] {
	case "script", "token", "owner", "namespace", "bucket_list", "volume_status", "deployment", "clusters", "secrets", "federation":
		return true
	}
	return len(at) == 3 && at[0] == "environment" && at[1] == "secrets" // their names are kept there, without values
}

// asSent is a text as OSCAR writes it into the definition: it trims some.
func asSent(at []string, text string) string {
	switch {
	case at[0] == "volume", at[0] == "allowed_users", at[len(at)-1] == "storage_provider":
		return strings.TrimSpace(text)
	case (at[0] == "input" || at[0] == "output") && at[len(at)-1] == "path":
		return strings.Trim(text, " /")
	}
	return text
}

// value walks down. at has the names and keys on the way, and path is how a violation says it.
func (w *keptWalk) value(at []string, path string, v reflect.Value) {
	if len(at) > 0 && notInYAML(at) {
		return
	}
	if raw, ok := reflect.TypeAssert[json.RawMessage](v); ok {
		var doc any
		if json.Unmarshal(raw, &doc) == nil && doc != nil {
			w.value(at, path, reflect.ValueOf(doc))
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		w.text(at, path, asSent(at, v.String()))
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			w.value(at, path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.value(at, indexPath(path, i), v.Index(i))
		}
	case reflect.Map:
		w.mapping(at, path, v)
	case reflect.Struct:
		fields, extraAt := fieldsOf(v.Type())
		for _, f := range fields {
			w.value(slices.Concat(at, []string{f.name}), joinPath(path, f.name), v.Field(f.index))
		}
		if keys, _ := handedOn(v.Type()); extraAt >= 0 && keys != nil { // OSCAR drops what it does not know
			w.mapping(at, path, v.Field(extraAt))
		}
	default:
	}
}

func (w *keptWalk) mapping(at []string, path string, v reflect.Value) {
	for _, key := range keysInOrder(v) {
		name := key.String()
		in := joinPath(path, name)
		switch why, way := unkept(name); {
		case why != "":
			w.report(in, name, "key "+quote(name), why, way)
		case strings.ContainsAny(name, `"\`):
			w.report(in, name, "key "+quote(name), `has a " or \`, "leave that out")
		}
		w.value(slices.Concat(at, []string{name}), in, v.MapIndex(key))
	}
}

func (w *keptWalk) text(at []string, path, text string) {
	why, way := unkept(text)
	switch {
	case why == "":
	case secretAt(at):
		w.report(path, nil, path, why, way)
	default:
		w.report(path, shorten(text), path+" "+quote(text), why, way)
	}
}

func (w *keptWalk) report(path string, value any, what, why, way string) {
	w.found = append(w.found, Violation{Path: path, Rule: RuleReadBack, Value: value, Message: fmt.Sprintf(
		"%s %s: OSCAR would read back something else, or none of the services of its cluster; %s", what, why, way)})
}

// unkept says why OSCAR does not read a text back, and the way out; empty when it does.
func unkept(text string) (why, way string) {
	const otherwise = "begin it otherwise"
	switch {
	case strings.Trim(text, " \t") != text:
		return "begins or ends with a blank", "take that away"
	case text == "-" || strings.HasPrefix(text, "- "):
		return "begins with a single -", otherwise
	case strings.HasPrefix(text, "? "):
		return "begins with a single ?", otherwise
	case strings.ContainsFunc(text, unkeptRune):
		return "has a control character", "take that away"
	}
	return "", ""
}

func unkeptRune(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u2028' || r == '\u2029'
}
