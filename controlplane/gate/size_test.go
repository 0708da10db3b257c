package gate

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
)

func TestRecordsAreCutIntoRunsThatFit(t *testing.T) {
	of := func(sizes ...int) (out []Staged) {
		for _, n := range sizes {
			out = append(out, Staged{Key: "k", Rec: record.Spec{Service: make(json.RawMessage, n)}})
		}
		return out
	}
	for name, tt := range map[string]struct {
		records []Staged
		want    []int
	}{
		"nothing":                  {},
		"all at once":              {of(10, 20, 30), []int{3}},
		"by their number":          {of(make([]int, 250)...), []int{100, 100, 50}},
		"by their bytes":           {of(600_000, 600_000, 600_000), []int{2, 1}},
		"one that is too large":    {of(10, 2_000_000, 10), []int{1, 1, 1}},
		"a large one at the front": {of(2_000_000, 10, 10), []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			for run := range Runs(tt.records) {
				got = append(got, len(run))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("runs of %v", got)
			}
		})
	}
}
