package history_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/test/history"
)

// A failure that needs two of a hundred steps is shrunk to these two.
func TestShrink(t *testing.T) {
	var p history.Plan
	for i := range 100 {
		p.Steps = append(p.Steps, history.Step{At: time.Duration(i), Client: i})
	}
	has := func(p history.Plan, n int) bool {
		return slices.ContainsFunc(p.Steps, func(s history.Step) bool { return s.Client == n })
	}
	tries := 0
	small := history.Shrink(p, 1000, func(p history.Plan) bool { tries++; return has(p, 17) && has(p, 80) })
	if len(small.Steps) != 2 || !has(small, 17) || !has(small, 80) {
		t.Errorf("%d steps are left, after %d tries", len(small.Steps), tries)
	}
	all := history.Shrink(p, 50, func(history.Plan) bool { return false })
	if len(all.Steps) != 100 {
		t.Errorf("a plan that does not fail keeps its steps; %d are left", len(all.Steps))
	}
}

// A seed gives the same plan each time.
func TestASeedIsAPlan(t *testing.T) {
	if a, b := history.Draw(7).String(), history.Draw(7).String(); a != b || a == history.Draw(8).String() {
		t.Error("seed 7 gives two plans, or the plan of seed 8")
	}
}

// A plan that is kept as JSON is the plan that was played.
func TestAPlanIsJSON(t *testing.T) {
	for seed := range uint64(200) {
		plan := history.Draw(seed)
		doc, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		var again history.Plan
		if err := json.Unmarshal(doc, &again); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(plan, again) {
			t.Fatalf("seed %d: %+v is read as %+v", seed, plan, again)
		}
	}
}
