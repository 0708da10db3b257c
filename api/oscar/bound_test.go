package oscar

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// overfull calls try with every field of v that holds text or grows, one after the other,
// filled beyond any limit. A field that is new is found here by itself.
func overfull(v reflect.Value, path string, try func(path string)) {
	filled := func(path string, set reflect.Value) {
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		v.Set(set)
		try(path)
		v.Set(before)
	}
	long := strings.Repeat("x", MaxScriptBytes+1)
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		filled(path, reflect.ValueOf(json.RawMessage(`"`+long+`"`)))
		return
	case v.Type() == reflect.TypeFor[Extra]():
		filled(path, reflect.ValueOf(Extra{"unknown": json.RawMessage(`"` + long + `"`)}))
		filled(path, reflect.ValueOf(Extra{long: json.RawMessage(`1`)}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		filled(path, reflect.ValueOf(long))
	case reflect.Pointer:
		before := v.Elem()
		v.Set(reflect.New(v.Type().Elem()))
		overfull(v.Elem(), path, try)
		if before.IsValid() {
			v.Set(before.Addr())
		} else {
			v.SetZero()
		}
	case reflect.Slice:
		filled(path, reflect.MakeSlice(v.Type(), 20_000, 20_000))
		before := reflect.ValueOf(v.Interface())
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		overfull(v.Index(0), path+"[0]", try)
		v.Set(before)
	case reflect.Map:
		many := reflect.MakeMap(v.Type())
		for i := range 20_000 {
			many.SetMapIndex(reflect.ValueOf("k"+strconv.Itoa(i)), reflect.New(v.Type().Elem()).Elem())
		}
		filled(path, many)
		one := reflect.New(v.Type().Elem()).Elem()
		overfull(one, path+".k", func(path string) {
			m := reflect.MakeMap(v.Type())
			m.SetMapIndex(reflect.ValueOf("k"), one)
			filled(path, m)
		})
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				name = ""
			}
			overfull(v.Field(i), strings.TrimSuffix(strings.TrimPrefix(path+"."+name, "."), "."), try)
		}
	}
}

func TestEveryFieldOfADefinitionHasABound(t *testing.T) {
	s := with(t, `{}`)
	fields := 0
	overfull(reflect.ValueOf(s).Elem(), "", func(path string) {
		fields++
		for _, v := range Validate(s) {
			named := strings.NewReplacer(`["`, ".", `"]`, "").Replace(v.Path)
			if v.Path != "" && (strings.HasPrefix(named, path) || path == "") {
				return
			}
		}
		t.Errorf("%s may be as long as the whole service", path)
	})
	if fields < 100 {
		t.Errorf("only %d fields were tried", fields)
	}
}

func TestAllowedUsersAreBoundedInBytes(t *testing.T) {
	s := with(t, `{}`)
	for range MaxAllowedUsers {
		s.AllowedUsers = append(s.AllowedUsers, strings.Repeat("u", 200))
	}
	vs := Validate(s)
	if len(vs) != 1 || vs[0].Path != "allowed_users" || vs[0].Rule != RuleMaxBytes {
		t.Errorf("%v", vs)
	}
	s.AllowedUsers = []string{strings.Repeat("u", MaxUserBytes+1)}
	if vs := Validate(s); len(vs) != 1 || vs[0].Path != "allowed_users[0]" {
		t.Errorf("%v", vs)
	}
}
