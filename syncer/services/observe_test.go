package services

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// A full compare took every answer of OSCAR apart again, also where neither it nor the definition was another.
func TestWhatHasNotChangedIsNotTakenApartAgain(t *testing.T) {
	s := &Services{process: NewProcess(nil, time.Minute, time.Minute, nil)}
	compare := func(shown string, def *definition.Definition) comparison {
		t.Helper()
		v := &observation{situation: situation{desired: &record.Desired{}}, name: "s", def: def, service: &manager.Service{JSON: []byte(shown)}}
		if err := s.compare(v); err != nil {
			t.Fatal(err)
		}
		return comparison{hash: v.local.hash, differs: v.local.differs}
	}
	const first, second = `{"name":"s","image":"one"}`, `{"name":"s","image":"two"}`
	asked := func(image string) *definition.Definition {
		return &definition.Definition{Compare: map[string]any{"image": image}}
	}
	def := asked("one")
	was := compare(first, def)
	if was.hash == "" || was.differs != "" {
		t.Fatalf("%+v", was)
	}
	def.Compare["image"] = "three" // which nobody does: it shows whether it is looked at
	if got := compare(first, def); got != was {
		t.Errorf("compared again: %+v", got)
	}
	same := asked("one")
	compare(first, same)
	if got := compare(second, same); got.differs != "image" || got.hash == was.hash {
		t.Errorf("another answer, the same definition: %+v, before %+v", got, was)
	}
	if got := compare(second, asked("one")); got.differs != "image" || got.hash == was.hash {
		t.Errorf("another answer: %+v, before %+v", got, was)
	}
	if got := compare(second, asked("two")); got.differs != "" {
		t.Errorf("another definition: %+v", got)
	}
	if got := compare(second, nil); got.differs != "" || got.hash == was.hash {
		t.Errorf("no definition: %+v", got)
	}
	if got := compare(first, asked("one")); got != was {
		t.Errorf("as at first: %+v, want %+v", got, was)
	}
}
