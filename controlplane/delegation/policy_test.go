package delegation

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/oscar"
)

const gib = int64(1) << 30

// draws counts who is chosen in n jobs, which differ by their seed alone.
func draws(s Snapshot, n int) (counts map[string]float64, order []string) {
	counts = map[string]float64{}
	for i := range n {
		s.Seed = SeedOf("0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21", i)
		d := Choose(s)
		counts[d.Chosen]++
		order = append(order, d.Chosen)
	}
	return counts, order
}

// probability that counts are at least as far from what the weights say, by chance.
func probability(counts map[string]float64, weights map[string]float64) float64 {
	n, total, x := 0.0, 0.0, 0.0
	for place, w := range weights {
		n += counts[place]
		total += w
	}
	for place, w := range weights {
		want := n * w / total
		x += (counts[place] - want) * (counts[place] - want) / want
	}
	return distuv.ChiSquared{K: float64(len(weights) - 1)}.Survival(x)
}

func members(n int, edit ...func(i int, c *Candidate)) []Candidate {
	var out []Candidate
	for i := range n {
		c := member(string(rune('a' + i)))
		if i == 0 {
			home(&c)
		}
		for _, e := range edit {
			e(i, &c)
		}
		out = append(out, c)
	}
	return out
}

// TestRandomIsUniform, or by weights, by chi-square.
func TestRandomIsUniform(t *testing.T) {
	const jobs = 20_000
	for name, c := range map[string]struct {
		edit    func(i int, c *Candidate)
		weights map[string]float64 // of the federation
		want    map[string]float64
	}{
		"uniform":         {func(int, *Candidate) {}, nil, map[string]float64{"a/s": 1, "b/s": 1, "c/s": 1, "d/s": 1}},
		"weights of some": {func(i int, c *Candidate) { c.Weight = []*int{nil, new(3), new(0), new(2)}[i] }, nil, map[string]float64{"a/s": 1, "b/s": 3, "d/s": 2}},
		"the federation's weights go first": {func(_ int, c *Candidate) { c.Weight = new(7) }, map[string]float64{"a": 0.5, "b": 9, "b/s": 1.5, "gone": 100},
			map[string]float64{"a/s": 0.5, "b/s": 1.5, "c/s": 7, "d/s": 7}},
		"capacity is no weight": {func(i int, c *Candidate) { free(Request{CPU: 1000 << i, Memory: gib})(c) }, nil, map[string]float64{"a/s": 1, "b/s": 1, "c/s": 1, "d/s": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := job("random", members(4, c.edit)...)
			s.Weights = c.weights
			counts, _ := draws(s, jobs)
			sum := 0.0
			for place := range c.want {
				sum += counts[place]
			}
			if p := probability(counts, c.want); p <= 0.001 || sum != jobs {
				t.Errorf("p is %g: %v", p, counts)
			}
		})
	}
	t.Run("the check finds a bias", func(t *testing.T) {
		counts, _ := draws(job("random", members(4)...), jobs)
		if p := probability(counts, map[string]float64{"a/s": 1, "b/s": 1, "c/s": 1, "d/s": 1.15}); p > 0.001 {
			t.Errorf("p is %g", p)
		}
	})
	t.Run("the second choice is drawn, too", func(t *testing.T) {
		seconds := map[string]float64{}
		s := job("random", members(4, func(i int, c *Candidate) { c.Weight = new(1); c.Visited = i == 0 })...)
		for i := range jobs {
			s.Seed = SeedOf("j", i)
			seconds[Choose(s).Order[1]]++
		}
		if p := probability(seconds, map[string]float64{"b/s": 1, "c/s": 1, "d/s": 1}); p <= 0.001 {
			t.Errorf("p is %g: %v", p, seconds)
		}
	})
}

// TestTenRandomJobsReachTwoClusters in 99 of 100 windows of ten.
func TestTenRandomJobsReachTwoClusters(t *testing.T) {
	const jobs, window = 10_000, 10
	_, order := draws(job("random", members(3)...), jobs)
	wide := 0
	for i := range jobs - window + 1 {
		seen := slices.Clone(order[i : i+window])
		slices.Sort(seen)
		if len(slices.Compact(seen)) >= 2 {
			wide++
		}
	}
	if share := float64(wide) / (jobs - window + 1); share < 0.99 {
		t.Errorf("%.4f of the windows", share)
	}
}

// TestTopsisByHand: two members, each column 3 and 4 of something, so that its unit
// vector is 0.6 and 0.8 and the two differ by 0.2 of its weight. a is better in latency
// (1), nodes (8), CPU (65) and duration (2), b in memory (18); they have as many
// pending jobs.
//
//	a: d+ = 0.2*18 = 3.6, d- = 0.2*sqrt(1*1 + 8*8 + 65*65 + 2*2) = 0.2*sqrt(4294)
//	score of a = d-/(d+ + d-) = 13.1057/16.7057 = 0.7845, of b = 3.6/16.7057 = 0.2155
func TestTopsisByHand(t *testing.T) {
	of := func(latency float64, nodes, cpu, memory int64, duration float64) func(*Candidate) {
		return func(c *Candidate) {
			first := Request{CPU: 1000, Memory: gib}
			c.Capacity = Capacity{Nodes: []Request{first}, More: Sum{Nodes: nodes - 1, Request: Request{CPU: cpu - 1000, Memory: (memory - 1) * gib}}}
			c.History = History{Latency: latency, Duration: duration, Pending: 5}
		}
	}
	s := job("topsis", member("b", home, of(0.4, 3, 3000, 4, 40)), member("a", of(0.3, 4, 4000, 3, 30)))
	d := Choose(s)
	down := 0.2 * math.Sqrt(4294)
	for i, want := range []float64{3.6 / (3.6 + down), down / (3.6 + down)} {
		if got := *d.Verdicts[i].Score; math.Abs(got-want) > 1e-12 {
			t.Errorf("score of %s: %.15f, want %.15f", d.Verdicts[i].Place, got, want)
		}
	}
	if d.Chosen != "a/s" {
		t.Errorf("%+v", d)
	}
	// With memory alone it is the other way round.
	s.Weights = map[string]float64{"latency": 0, "nodes": 0, "cpu": 0, "duration": 0, "pending": 0}
	if d := Choose(s); d.Chosen != "b/s" || *d.Verdicts[0].Score != 1 || *d.Verdicts[1].Score != 0 {
		t.Errorf("%+v", d)
	}
	// What is not known of a member speaks neither for nor against it.
	s.Weights, s.Candidates[0].History, s.Candidates[1].History = nil, History{}, History{Latency: 3, Duration: 20}
	if d, e := Choose(s), Choose(s.Compact()); *d.Verdicts[1].Score != *e.Verdicts[1].Score || d.Chosen != "a/s" {
		t.Errorf("%+v %+v", d, e)
	}
}

// TestTopsisDrawsAmongTheNearlyBest: those within a fifth of the best score, and nobody else.
func TestTopsisDrawsAmongTheNearlyBest(t *testing.T) {
	cpu := []int64{8000, 7900, 7800, 2000}
	s := job("topsis", members(4, func(i int, c *Candidate) { free(Request{CPU: cpu[i], Memory: 8 * gib})(c) })...)
	counts, _ := draws(s, 20_000)
	if p := probability(counts, map[string]float64{"a/s": 1, "b/s": 1, "c/s": 1}); p <= 0.001 || counts["d/s"] != 0 {
		t.Errorf("p is %g: %v", p, counts)
	}
}

func TestTopsisHasTheCriteriaThatDefinitionsMayWeigh(t *testing.T) {
	var names []string
	for _, c := range criteria() {
		names = append(names, string(c.name))
	}
	if !slices.Equal(names, oscar.TopsisCriteria()) {
		t.Errorf("%v, and definitions may name %v", names, oscar.TopsisCriteria())
	}
}

// packs says whether items, one by one, can be put on nodes, by trying every way.
func packs(nodes, items []Request) bool {
	if len(items) == 0 {
		return true
	}
	for i := range nodes {
		if nodes[i].holds(items[0]) == 0 {
			continue
		}
		left := slices.Clone(nodes)
		left[i] = left[i].minus(items[0], 1)
		if packs(left, items[1:]) {
			return true
		}
	}
	return false
}

// TestPromisesNeverExceedWhatWasMeasured: jobs are chosen one after another from one
// measurement, each promised where it goes. However many come, all that is promised to
// a cluster can be put on its nodes, in CPU, memory and GPUs, and who was chosen had
// the most free CPU of those that fit.
func TestPromisesNeverExceedWhatWasMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string, cpu, memory, gpu int64) Request {
			return Request{CPU: rapid.Int64Range(0, cpu).Draw(t, name+" cpu"), Memory: rapid.Int64Range(0, memory).Draw(t, name+" memory"), GPU: rapid.Int64Range(0, gpu).Draw(t, name+" gpu")}
		}
		s := job("load-based", members(rapid.IntRange(1, 3).Draw(t, "members"), func(_ int, c *Candidate) {
			c.Capacity = Capacity{}
			for range rapid.IntRange(0, 3).Draw(t, "nodes") {
				c.Capacity.Nodes = append(c.Capacity.Nodes, amount("node", 12, 12, 2))
			}
		})...)
		placed := map[string][]Request{}
		for range rapid.IntRange(1, 8).Draw(t, "jobs") {
			s.Request = amount("job", 6, 6, 1)
			d := Choose(s)
			for i := range s.Candidates {
				c := &s.Candidates[i]
				if c.Place() != d.Chosen {
					continue
				}
				if !slices.ContainsFunc(c.Capacity.Nodes, func(n Request) bool { return n.holds(s.Request) > 0 }) {
					t.Fatalf("%v does not fit any node of %v", s.Request, c.Capacity.Nodes)
				}
				placed[d.Chosen] = append(placed[d.Chosen], s.Request)
				if !packs(c.Capacity.Nodes, placed[d.Chosen]) {
					t.Fatalf("%v do not fit %v", placed[d.Chosen], c.Capacity.Nodes)
				}
				at := slices.IndexFunc(c.Promised, func(p Promise) bool { return p.Request == s.Request })
				if at < 0 {
					c.Promised = append(slices.Clone(c.Promised), Promise{Request: s.Request})
					at = len(c.Promised) - 1
				}
				c.Promised[at].Count++
			}
			for i, v := range d.Verdicts {
				c := &s.Candidates[i]
				// A cluster with nothing promised is refused only when no node has room.
				if v.Why == WhyNoRoom && len(placed[v.Place]) == 0 && slices.ContainsFunc(c.Capacity.Nodes, func(n Request) bool { return n.holds(s.Request) > 0 }) {
					t.Fatalf("%s has room on a node: %v %v", v.Place, s.Request, c.Capacity.Nodes)
				}
			}
		}
	})
}

func TestSeedsOfJobsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for job := range 100 {
		for attempt := range 5 {
			seen[SeedOf(fmt.Sprint(job), attempt)] = true
		}
	}
	if len(seen) != 500 {
		t.Errorf("%d of 500", len(seen))
	}
}
