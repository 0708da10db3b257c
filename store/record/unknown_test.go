package record_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// fill gives every field of a record a value, so that every level of it is there.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[record.Time]() {
			return
		}
		for f, value := range v.Fields() {
			if f.IsExported() {
				fill(t, value)
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.Set(reflect.ValueOf(json.RawMessage(`{"name":"x"}`)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0))
		fill(t, v.Index(1))
	case reflect.String:
		v.SetString(rapid.StringMatching(`[a-z<&]{6,12}`).Draw(t, "string"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(1, 1<<40).Draw(t, "int"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	}
}

// TestFieldsOfANewerVersionAreDropped reads each record with an unknown field at every level,
// changes what does not make it another life, and writes it.
func TestFieldsOfANewerVersionAreDropped(t *testing.T) {
	for _, ref := range keys() {
		kind := ref.Kind
		of := reflect.TypeOf(record.New(kind)).Elem()
		t.Run(string(kind), func(t *testing.T) {
			outer := t
			rapid.Check(t, func(t *rapid.T) {
				rec := reflect.New(of)
				fill(t, rec.Elem())
				line, err := record.Encode(rec.Interface())
				if err != nil {
					t.Fatal(err)
				}
				stored, planted := storetest.Newer(outer, kind, line)
				next := reflect.New(of)
				if err := json.Unmarshal(stored, next.Interface()); err != nil {
					t.Fatal(err)
				}
				touch(next.Elem())
				plain, err := record.Encode(next.Interface())
				if err != nil {
					t.Fatal(err)
				}
				kept, err := record.KeepUnknown(stored, plain, next.Interface())
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Count(string(kept), `"`+storetest.NewerField+`"`); got != planted {
					t.Fatalf("%d of %d unknown fields are left\nstored %s\nkept   %s", got, planted, stored, kept)
				}
				again := reflect.New(of)
				if err := json.Unmarshal(kept, again.Interface()); err != nil {
					t.Fatal(err)
				}
				if line, err := record.Encode(again.Interface()); err != nil || !bytes.Equal(line, plain) {
					t.Fatalf("what is known is not as it was written: %s, error %v", cmp.Diff(string(plain), string(line)), err)
				}
				if !bytes.Equal(kept, stored) && !bytes.HasPrefix(kept, []byte(`{"v":`)) || bytes.ContainsAny(kept, "\r\n") {
					t.Fatalf("it is not a record: %s", kept)
				}
			})
		})
	}
}

// touch changes a record in what is no part of its identity, and turns its lists round.
func touch(v reflect.Value) {
	for f, value := range v.Fields() {
		switch {
		case !f.IsExported() || f.Tag.Get("record") == "id":
		case value.Kind() == reflect.String && f.Name != "V":
			value.SetString(value.String() + "x")
		case value.Kind() == reflect.Slice && value.Len() == 2 && f.Type.Elem().Kind() == reflect.Struct:
			first := reflect.New(f.Type.Elem()).Elem()
			first.Set(value.Index(0))
			value.Index(0).Set(value.Index(1))
			value.Index(1).Set(first)
		}
	}
}

// TestEachElementOfAListIsFoundAgain holds every list of objects to having something that
// tells its elements from each other.
func TestEachElementOfAListIsFoundAgain(t *testing.T) {
	var walk func(of reflect.Type, listed bool, at string) (ids int)
	walk = func(of reflect.Type, listed bool, at string) (ids int) {
		switch of.Kind() {
		case reflect.Pointer:
			return walk(of.Elem(), listed, at)
		case reflect.Slice:
			return walk(of.Elem(), true, at)
		case reflect.Struct:
			for f := range of.Fields() {
				if f.Tag.Get("record") == "id" {
					ids++
				}
				if f.Type == reflect.TypeFor[record.Time]() || f.Type == reflect.TypeFor[*record.Time]() {
					continue
				}
				inner := walk(f.Type, false, at+"."+f.Name)
				if f.Anonymous {
					ids += inner
				}
			}
			if listed && ids == 0 {
				t.Errorf("nothing identifies the elements of %s: give a field the tag record:\"id\"", at)
			}
		}
		return ids
	}
	for _, rec := range records() {
		walk(reflect.TypeOf(rec), false, fmt.Sprintf("%T", rec))
	}
}

func TestWhatIsKeptOfANewerVersion(t *testing.T) {
	for name, c := range map[string]struct {
		before, want string
		next         any
	}{
		"nothing of another life": {
			`{"v":1,"uid":"a","new":1}`, `{"v":1,"uid":"b"}`, record.Name{V: 1, UID: "b"},
		},
		"a member that goes takes its field along": {
			`{"v":1,"uid":"f","members":[{"cluster_id":"a","uid":"1","new":1},{"cluster_id":"b","uid":"2","new":2}]}`,
			`"leaving":[{"type":"","cluster_id":"b","service_name":"","priority":0,"uid":"2","new":2}]`,
			record.Federation{V: 1, UID: "f", Members: []record.Member{{ClusterID: "a", UID: "1"}}, Leaving: []record.Member{{ClusterID: "b", UID: "2"}}},
		},
		"nothing for a member that comes": {
			`{"v":1,"uid":"f","members":[{"cluster_id":"a","uid":"1","new":1}]}`,
			`{"type":"","cluster_id":"b","service_name":"","priority":0,"uid":"2"}]`,
			record.Federation{V: 1, UID: "f", Members: []record.Member{{ClusterID: "a", UID: "1"}, {ClusterID: "b", UID: "2"}}},
		},
		"a name in other letters is the same name": {
			`{"v":1,"UID":"a"}`, `{"v":1,"uid":"a"}`, record.Name{V: 1, UID: "a"},
		},
		"what is no record is replaced": {
			`[1]`, `{"v":1,"uid":"a"}`, record.Name{V: 1, UID: "a"},
		},
		"numbers stay to the last digit": {
			`{"v":1,"uid":"a","new":12345678901234567890123}`, `"new":12345678901234567890123`, record.Name{V: 1, UID: "a"},
		},
		"the order of another version is left": {
			`{"new":{"b":1,"a":2},"uid":"a", "v":1}`, `{"new":{"b":1,"a":2},"uid":"a", "v":1}`, &record.Name{V: 1, UID: "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plain, err := record.Encode(c.next)
			if err != nil {
				t.Fatal(err)
			}
			got, err := record.KeepUnknown([]byte(c.before), plain, c.next)
			if err != nil || !strings.Contains(string(got), c.want) {
				t.Errorf("it is %s, without %s, error %v", got, c.want, err)
			}
		})
	}
}

// FuzzKeepUnknown lays any bytes beside any record: what comes out is always that record.
func FuzzKeepUnknown(f *testing.F) {
	f.Add([]byte(`{"v":1,"uid":"f","members":[{"cluster_id":"a","uid":"1","new":[{}]}],"change":{"members":null,"new":""}}`), []byte(`{"v":1,"uid":"f","leaving":[{"cluster_id":"a","uid":"1"}]}`))
	f.Add([]byte(`{"v":1,"jobs":[{"cpu":1,"memory_bytes":2,"gpu":0,"count":3,"disk":9}]}`), []byte(`{"v":1,"jobs":[{"cpu":1,"memory_bytes":2,"gpu":0,"count":2}]}`))
	f.Add([]byte(`{"a":1,"a":2,"A":{}}`), []byte(`{"uid":""}`))
	f.Fuzz(func(t *testing.T, before, data []byte) {
		for _, next := range records() {
			if json.Unmarshal(data, next) != nil {
				continue
			}
			plain, err := record.Encode(next)
			if err != nil {
				continue
			}
			kept, err := record.KeepUnknown(before, plain, next)
			if err != nil {
				t.Fatalf("%T: %v", next, err)
			}
			again := reflect.New(reflect.TypeOf(next).Elem()).Interface()
			if err := json.Unmarshal(kept, again); err != nil {
				t.Fatalf("%T became %s: %v", next, kept, err)
			}
			if line, err := record.Encode(again); err != nil || !slices.Equal(line, plain) {
				t.Errorf("%T beside %s became another one, error %v: %s", next, before, err, cmp.Diff(string(plain), string(line)))
			}
		}
	})
}

func BenchmarkKeepUnknown(b *testing.B) {
	fed := record.Federation{V: 1, UID: "f"}
	for i := range 3 {
		fed.Members = append(fed.Members, record.Member{ClusterID: fmt.Sprint(i), UID: fmt.Sprint(i)})
	}
	stored, err := record.Encode(fed)
	if err != nil {
		b.Fatal(err)
	}
	next := fed
	next.Phase = record.PhaseReady
	plain, err := record.Encode(next)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := record.KeepUnknown(stored, plain, next); err != nil {
			b.Fatal(err)
		}
	}
}
