package record

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestAnIDHasItsTime: it lies between the first of its millisecond and that of the next one.
func TestAnIDHasItsTime(t *testing.T) {
	for range 1000 {
		id := uuid.Must(uuid.NewV7())
		sec, nsec := id.Time().UnixTime()
		at := time.Unix(sec, nsec).Truncate(time.Millisecond)
		if first, next := FirstUID(at), FirstUID(at.Add(time.Millisecond)); id.String() < first || id.String() >= next {
			t.Fatalf("%s is not from %s to %s", id, first, next)
		}
	}
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := FirstUID(at); len(got) != len("00000000-0000-") {
			t.Errorf("%v: %q", at, got)
		}
	}
}
