package oscar

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// decoder gives values their types. It keeps encoding/json's rules (keys in any
// case, null leaves a field as it is) but goes on after a wrong type, so that all
// of them are reported, and keeps unknown fields.
type decoder struct {
	violations []Violation
	// text reads a number or boolean where a string is wanted, by its text: in
	// YAML a port or a version is easily written without quotes.
	text bool
}

// fieldInfo is a struct field with its JSON name.
type fieldInfo struct {
	name      string
	index     int
	omitEmpty bool
}

// structFields are the JSON fields of a struct, and the index of its Extra or -1.
type structFields struct {
	list  []fieldInfo
	extra int
}

// knownFields are the structFields of each type that was asked for.
var knownFields sync.Map //nolint:gochecknoglobals // what types say does not change

// fieldsOf gives the structFields of a type. The caller does not change the list.
func fieldsOf(t reflect.Type) (fields []fieldInfo, extra int) {
	known, ok := knownFields.Load(t)
	if !ok {
		known, _ = knownFields.LoadOrStore(t, readFields(t))
	}
	f, _ := known.(structFields)
	return f.list, f.extra
}

func readFields(t reflect.Type) structFields {
	out := structFields{extra: -1}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if f.Type == reflect.TypeFor[Extra]() {
			out.extra = i
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		out.list = append(out.list, fieldInfo{name, i, options == "omitempty"})
	}
	return out
}

// into decodes v into dst, which is settable.
func (d *decoder) into(path string, v *value, dst reflect.Value) {
	if v.kind == kindNull {
		return
	}
	switch dst.Type() {
	case reflect.TypeFor[Ports]():
		d.ports(path, v, dst)
		return
	case reflect.TypeFor[json.RawMessage]():
		dst.SetBytes(v.appendJSON(nil))
		return
	}
	switch dst.Kind() {
	case reflect.String:
		d.string(path, v, dst)
	case reflect.Bool:
		if d.want(path, v, kindBool) {
			dst.SetBool(v.text == "true")
		}
	case reflect.Int:
		d.int(path, v, dst)
	case reflect.Float64:
		d.float(path, v, dst)
	case reflect.Pointer:
		elem := reflect.New(dst.Type().Elem())
		before := len(d.violations)
		d.into(path, v, elem.Elem())
		if len(d.violations) == before || elem.Elem().Kind() == reflect.Struct {
			dst.Set(elem)
		}
	case reflect.Slice:
		if d.want(path, v, kindArray) {
			list := reflect.MakeSlice(dst.Type(), len(v.items), len(v.items))
			for i, item := range v.items {
				d.into(indexPath(path, i), item, list.Index(i))
			}
			dst.Set(list)
		}
	case reflect.Map:
		if d.want(path, v, kindObject) {
			m := reflect.MakeMapWithSize(dst.Type(), len(v.fields))
			for _, f := range v.fields {
				elem := reflect.New(dst.Type().Elem()).Elem()
				d.into(joinPath(path, f.key), f.value, elem)
				m.SetMapIndex(reflect.ValueOf(f.key), elem)
			}
			dst.Set(m)
		}
	case reflect.Struct:
		if d.want(path, v, kindObject) {
			d.object(path, v, dst)
		}
	}
}

func (d *decoder) object(path string, v *value, dst reflect.Value) {
	fields, extraAt := fieldsOf(dst.Type())
	var extra Extra
	exact := map[string]bool{}
	for _, in := range v.fields {
		info, ok := lookup(fields, in.key)
		if !ok {
			if extra == nil {
				extra = Extra{}
			}
			if d.text && handedOnAsText(dst.Type(), in.key) {
				in.value = in.value.asText()
			}
			extra[in.key] = in.value.appendJSON(nil)
			continue
		}
		// The exact key wins over one in another case, wherever it stands.
		if in.key == info.name {
			exact[info.name] = true
		} else if exact[info.name] {
			continue
		}
		d.into(joinPath(path, in.key), in.value, dst.Field(info.index))
	}
	if extraAt >= 0 && extra != nil {
		dst.Field(extraAt).Set(reflect.ValueOf(extra))
	}
}

func lookup(fields []fieldInfo, key string) (fieldInfo, bool) {
	for _, f := range fields {
		if f.name == key {
			return f, true
		}
	}
	for _, f := range fields {
		if strings.EqualFold(f.name, key) {
			return f, true
		}
	}
	return fieldInfo{}, false
}

func (d *decoder) want(path string, v *value, k kind) bool {
	if v.kind == k {
		return true
	}
	d.wrongType(path, v, k.String())
	return false
}

func (d *decoder) string(path string, v *value, dst reflect.Value) {
	switch {
	case v.kind == kindString, d.text && (v.kind == kindNumber || v.kind == kindBool):
		dst.SetString(v.text)
	case v.kind == kindNumber || v.kind == kindBool:
		d.add(path, v, fmt.Sprintf("%s must be a string, not %s; write it in quotes", last(path), v.kind))
	default:
		d.wrongType(path, v, "a string")
	}
}

func (d *decoder) int(path string, v *value, dst reflect.Value) {
	if !d.want(path, v, kindNumber) {
		return
	}
	n, err := strconv.ParseInt(v.digits(), 10, 64)
	if err != nil || n > math.MaxInt32 || n < math.MinInt32 {
		d.add(path, v, fmt.Sprintf("%s must be a whole number of at most %d", last(path), math.MaxInt32))
		return
	}
	dst.SetInt(n)
}

func (d *decoder) float(path string, v *value, dst reflect.Value) {
	if !d.want(path, v, kindNumber) {
		return
	}
	f, err := strconv.ParseFloat(v.digits(), 64)
	if err != nil {
		d.add(path, v, last(path)+" is too large a number")
		return
	}
	dst.SetFloat(f)
}

// ports reads a number (OSCAR v3) or an array (v4); 0 means none.
func (d *decoder) ports(path string, v *value, dst reflect.Value) {
	items, paths := v.items, func(i int) string { return indexPath(path, i) }
	if v.kind == kindNumber {
		items, paths = []*value{v}, func(int) string { return path }
	} else if !d.want(path, v, kindArray) {
		return
	}
	var list Ports
	for i, item := range items {
		var port int
		d.into(paths(i), item, reflect.ValueOf(&port).Elem())
		if port != 0 {
			list = append(list, port)
		}
	}
	dst.Set(reflect.ValueOf(list))
}

func (d *decoder) wrongType(path string, v *value, want string) {
	d.add(path, v, fmt.Sprintf("%s must be %s, not %s", last(path), want, v.kind))
}

func (d *decoder) add(path string, v *value, message string) {
	violation := Violation{Path: path, Rule: RuleType, Message: message}
	if !secretPath(path) {
		switch v.kind {
		case kindString:
			violation.Value = shorten(v.text)
		case kindNumber:
			violation.Value = shorten(v.text)
			if len(v.digits()) <= 15 {
				violation.Value = json.RawMessage(v.digits())
			}
		case kindBool:
			violation.Value = v.text == "true"
		}
	}
	d.violations = append(d.violations, violation)
}

// last is the part of a path that a message speaks of.
func last(path string) string {
	if path == "" {
		return "the service"
	}
	return path
}

// secretPath says whether what stands at a path may be secret, so that it is
// never echoed.
func secretPath(path string) bool {
	path = strings.ToLower(path)
	for _, part := range []string{"secrets", "storage_providers", "clusters", "headers", "token", "environment"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}
