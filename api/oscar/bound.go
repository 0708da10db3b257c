package oscar

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// bound limits a field of a definition: a text in bytes; a list or a map in entries and
// in the bytes of all of them together. 0 is the default of its kind, and -1 says that
// another check has the limit.
type bound struct{ entries, bytes int }

const (
	maxTextBytes   = 4 << 10
	maxTokenBytes  = 16 << 10
	maxValueBytes  = 128 << 10 // Linux takes no longer environment variable
	maxObjectBytes = 64 << 10
	maxKeyBytes    = 512
	maxEntries     = 1000
	maxListBytes   = 256 << 10
)

// bounds of fields that have others than the defaults, by path: [] is any entry of a
// list, and * any key of a map. A new field has the defaults without being named here.
var bounds = map[string]bound{ //nolint:gochecknoglobals // a constant
	"script":                                  {bytes: -1},
	"annotations":                             {bytes: -1},
	"annotations.*":                           {bytes: MaxAnnotationsBytes},
	"environment.variables.*":                 {bytes: maxValueBytes},
	"environment.variables":                   {bytes: 512 << 10},
	"environment.secrets.*":                   {bytes: maxValueBytes},
	"environment.secrets":                     {bytes: 512 << 10},
	"allowed_users":                           {entries: -1, bytes: MaxAllowedUsersBytes},
	"allowed_users[]":                         {bytes: MaxUserBytes},
	"federation.members":                      {entries: -1, bytes: -1},
	"federation.weights":                      {entries: -1, bytes: -1},
	"federation.members[].headers.*":          {bytes: maxTokenBytes},
	"input":                                   {entries: -1},
	"output":                                  {entries: -1},
	"secrets.*":                               {bytes: maxTokenBytes},
	"storage_providers.onedata.*.token":       {bytes: maxTokenBytes},
	"storage_providers.webdav.*.password":     {bytes: maxTokenBytes},
	"storage_providers.rucio.*.refresh_token": {bytes: maxTokenBytes},
}

// checkBounds holds every field against its bound, whatever it means: also what this
// project does not interpret is kept in records of limited size.
func checkBounds(s *Service) []Violation {
	var w boundWalk
	w.value("", "", reflect.ValueOf(*s))
	return w.found
}

type boundWalk struct{ found []Violation }

// value walks down. path is where it stands in this service, and at the same with [] and
// * in the place of indexes and keys. It returns how many bytes of text are there.
func (w *boundWalk) value(path, at string, v reflect.Value) int {
	limit := bounds[at]
	if raw, ok := reflect.TypeAssert[json.RawMessage](v); ok {
		return w.bytes(path, len(raw), limit.bytes, maxObjectBytes)
	}
	switch v.Kind() {
	case reflect.String:
		return w.bytes(path, v.Len(), limit.bytes, maxTextBytes)
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return w.value(path, at, v.Elem())
	case reflect.Slice:
		if !w.entries(path, v.Len(), limit.entries) {
			return 0
		}
		sum := 0
		for i := range v.Len() {
			sum += w.value(indexPath(path, i), at+"[]", v.Index(i))
		}
		return w.bytes(path, sum, limit.bytes, maxListBytes)
	case reflect.Map:
		return w.mapping(path, at, v, limit)
	case reflect.Struct:
		return w.object(path, at, v)
	default:
		return 0
	}
}

func (w *boundWalk) object(path, at string, v reflect.Value) int {
	sum := 0
	fields, extraAt := fieldsOf(v.Type())
	for _, f := range fields {
		sum += w.value(joinPath(path, f.name), strings.TrimPrefix(at+"."+f.name, "."), v.Field(f.index))
	}
	if extraAt >= 0 {
		sum += w.mapping(path, at+".", v.Field(extraAt), bound{})
	}
	return sum
}

func (w *boundWalk) mapping(path, at string, v reflect.Value, limit bound) int {
	if !w.entries(path, v.Len(), limit.entries) {
		return 0
	}
	sum := 0
	for iter := v.MapRange(); iter.Next(); {
		key := iter.Key().String()
		sum += w.bytes(joinPath(path, key), len(key), 0, maxKeyBytes)
		sum += w.value(joinPath(path, key), at+".*", iter.Value())
	}
	return w.bytes(path, sum, limit.bytes, maxListBytes)
}

// entries says whether a list or a map is within its bound; one that is not is not
// looked into.
func (w *boundWalk) entries(path string, n, limit int) bool {
	if limit == 0 {
		limit = maxEntries
	}
	if limit < 0 || n <= limit {
		return true
	}
	w.found = append(w.found, checkLength(path, n, limit)...)
	return false
}

func (w *boundWalk) bytes(path string, n, limit, otherwise int) int {
	if limit == 0 {
		limit = otherwise
	}
	if limit > 0 && n > limit {
		w.found = append(w.found, Violation{Path: path, Rule: RuleMaxBytes, Value: n, Message: fmt.Sprintf(
			"%s has %d bytes; the limit is %d", path, n, limit)})
	}
	return n
}
