package delegation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A member that is away, however good what it last had looks, neither gets a job nor moves the
// scores of the others: topsis compares with the best of those that can take it.
func TestAMemberThatIsAwayMovesNoScores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string) func(*Candidate) {
			return free(Request{
				CPU:    rapid.Int64Range(500, 64_000).Draw(t, name+" cpu"),
				Memory: rapid.Int64Range(1<<30, 256<<30).Draw(t, name+" memory"),
			})
		}
		history := func(name string) func(*Candidate) {
			return func(c *Candidate) {
				c.History.Pending = rapid.Int64Range(0, 100).Draw(t, name+" pending")
				c.History.Duration = rapid.Float64Range(0, 1000).Draw(t, name+" duration")
				c.History.Latency = rapid.Float64Range(0, 10).Draw(t, name+" latency")
			}
		}
		stay := []Candidate{member("a", home, amount("a"), history("a")), member("b", amount("b"), history("b")), member("c", amount("c"), history("c"))}
		away := member("d", amount("d"), history("d"), func(c *Candidate) {
			if c.Alive = rapid.Bool().Draw(t, "alive"); c.Alive {
				c.Fresh = false
			}
		})
		at := rapid.IntRange(0, len(stay)).Draw(t, "place")
		with := append(append(append([]Candidate{}, stay[:at]...), away), stay[at:]...)
		alone, beside := job("topsis", stay...), job("topsis", with...)
		alone.Seed = rapid.Uint64().Draw(t, "seed")
		beside.Seed = alone.Seed
		want, got := Choose(alone), Choose(beside)
		if got.Chosen != want.Chosen || !cmp.Equal(got.Order, want.Order) {
			t.Fatalf("with it %v, without it %v", got.Order, want.Order)
		}
		scores := map[string]*float64{}
		for _, v := range want.Verdicts {
			scores[v.Place] = v.Score
		}
		for _, v := range got.Verdicts {
			if v.Place == away.Place() && (v.Score != nil || v.Why != WhyNotAlive && v.Why != WhyNoCapacity) || v.Place != away.Place() && *v.Score != *scores[v.Place] {
				t.Fatalf("%s: %s with score %v", v.Place, v.Why, v.Score)
			}
		}
	})
}
