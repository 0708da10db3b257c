package storetest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
)

// NewerField is the name of the field that Newer plants.
const NewerField = "of_tomorrow"

// Newer is a record as a newer version could have written it: with an unknown field in every
// object of it. It tells how many there are.
func Newer(t testing.TB, kind record.Kind, value []byte) (out []byte, planted int) {
	t.Helper()
	var tree map[string]any
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	plant(reflect.TypeOf(record.New(kind)), tree, &planted)
	version := tree["v"]
	delete(tree, "v")
	rest, err := record.Encode(tree)
	if err != nil {
		t.Fatal(err)
	}
	first, err := record.Encode(map[string]any{"v": version})
	if err != nil {
		t.Fatal(err)
	}
	return append(append(first[:len(first)-1], ','), rest[1:]...), planted
}

// plant goes through what a type describes: other objects are data, as labels are.
func plant(t reflect.Type, value any, n *int) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch object := value.(type) {
	case []any:
		if t.Kind() == reflect.Slice {
			for _, e := range object {
				plant(t.Elem(), e, n)
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return
		}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if inner, ok := object[name]; ok && !f.Anonymous {
				plant(f.Type, inner, n)
			}
		}
		*n++
		object[NewerField] = map[string]any{"n": *n, "list": []any{"<", 1.5, nil}}
	}
}
