package view

import (
	"math"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestWhatIsPromisedIsTheLargestNumberAtMost, and nothing is less than nothing.
func TestWhatIsPromisedIsTheLargestNumberAtMost(t *testing.T) {
	for name, c := range map[string]struct {
		promises []record.Promise
		want     delegation.Request
	}{
		"nothing": {nil, delegation.Request{}},
		"two sizes": {
			[]record.Promise{{Room: record.Room{Millicores: 500, Bytes: 1 << 30}, Count: 3}, {Room: record.Room{Millicores: 1000, GPUs: 1}, Count: 2}},
			delegation.Request{CPU: 3500, Memory: 3 << 30, GPU: 2},
		},
		"many of a large size": {
			[]record.Promise{{Room: record.Room{Millicores: 1, Bytes: math.MaxInt64/2 + 1}, Count: 2}},
			delegation.Request{CPU: 2, Memory: math.MaxInt64},
		},
		"several large sizes": {
			[]record.Promise{{Room: record.Room{Bytes: math.MaxInt64}, Count: 1}, {Room: record.Room{Millicores: 1, Bytes: 7}, Count: 1}},
			delegation.Request{CPU: 1, Memory: math.MaxInt64},
		},
	} {
		v := newView()
		raw, err := record.Encode(record.Reserved{V: record.Version, Jobs: c.promises})
		if err != nil {
			t.Fatal(err)
		}
		v.news = newChanges()
		v.apply(record.ReservedKey("a"), store.KV{Key: record.ReservedKey("a"), Value: raw}, true)
		if got := v.Promised("a"); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
