package invariants_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// inParts has the replica there created with a spec that names a part.
func (f *federation) inParts(cluster string) {
	r := f.at(cluster)
	f.s.on(f.uid+" specs", func(x *txn) {
		edit(x, r.specOf(1), func(spec *record.Spec) {
			name := record.NewPartName()
			x.put(record.PartKey(f.uid, name), record.Part{V: 1, Service: spec.Service})
			spec.Parts, spec.Service, spec.Changes = []string{name}, nil, json.RawMessage(`{"memory":"0.5Gi"}`)
		})
	})
}

// makeWhole gives the replica there a spec without parts, and changes a text in it.
func (f *federation) makeWhole(x *txn, cluster, old, text string) {
	r := f.at(cluster)
	var spec record.Spec
	var part record.Part
	read := func(key string, rec any) {
		if err := json.Unmarshal(x.s.keys[key].value, rec); err != nil {
			x.s.t.Fatal(key, err)
		}
	}
	read(r.specOf(1), &spec)
	read(record.PartKey(f.uid, spec.Parts[0]), &part)
	whole, err := oscar.MergePatch(part.Service, spec.Changes)
	if err != nil {
		x.s.t.Fatal(err)
	}
	spec.Service, spec.Parts, spec.Changes = json.RawMessage(strings.Replace(string(whole), old, text, 1)), nil, nil
	name := record.WholeSpecName(r.specName(1))
	x.put(record.SpecKey(cluster, name), spec)
	x.remove(r.specOf(1))
	edit(x, f.key(), func(*record.Federation) {})
	edit(x, r.desired(), func(d *record.Desired) { d.Spec = name })
}

func TestAServiceIsTakenOutOfParts(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	f := s.federation("f1", "one")
	f.inParts("b")
	f.createdStory()
	s.step("whole", func(x *txn) { f.makeWhole(x, "b", "", "") })
	for _, v := range check(t, s).Violations {
		t.Error(v)
	}
}
