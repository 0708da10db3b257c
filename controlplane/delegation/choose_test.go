package delegation

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// member is a candidate that nothing speaks against, with one node of 4 cores and 8 GiB.
func member(cluster string, edit ...func(*Candidate)) Candidate {
	c := Candidate{
		Cluster: cluster, Service: "s", Ready: true, Alive: true, Fresh: true, State: StateActive, Inputs: InputsReadable,
		Capacity: nodes(Request{CPU: 4000, Memory: 8 << 30}),
	}
	for _, e := range edit {
		e(&c)
	}
	return c
}

func nodes(n ...Request) Capacity { return Capacity{Nodes: n} }

func free(n ...Request) func(*Candidate) { return func(c *Candidate) { c.Capacity = nodes(n...) } }

// home is where the job came in: the coordinator of a federation.
func home(c *Candidate) { c.Coordinator, c.Entry = true, true }

// job is a small job at a/s in a mesh of the candidates.
func job(policy string, candidates ...Candidate) Snapshot {
	return Snapshot{
		Policy: policy, Topology: "mesh", From: "a/s", Seed: 1, Request: Request{CPU: 500, Memory: 256 << 20}, Candidates: candidates,
	}
}

func whys(d Decision) map[string]Why {
	out := map[string]Why{}
	for _, v := range d.Verdicts {
		out[v.Place] = v.Why
	}
	return out
}

func TestEligible(t *testing.T) {
	endpoint := Candidate{URL: "https://e.example.org/run"}
	for name, c := range map[string]struct {
		edit func(s *Snapshot, b *Candidate) // of the snapshot and of member b
		want Why                             // of b
	}{
		"nothing speaks against it":         {func(*Snapshot, *Candidate) {}, WhyChosen},
		"cordoned":                          {func(_ *Snapshot, b *Candidate) { b.State = StateCordoned }, WhyCordoned},
		"paused":                            {func(_ *Snapshot, b *Candidate) { b.State = StatePaused }, WhyPaused},
		"removing":                          {func(_ *Snapshot, b *Candidate) { b.State = StateRemoving }, WhyRemoving},
		"revoked":                           {func(_ *Snapshot, b *Candidate) { b.State = StateRevoked }, WhyRevoked},
		"a state of a newer version":        {func(_ *Snapshot, b *Candidate) { b.State = "draining" }, WhyCordoned},
		"no session":                        {func(_ *Snapshot, b *Candidate) { b.Alive = false }, WhyNotAlive},
		"capacity of an earlier session":    {func(_ *Snapshot, b *Candidate) { b.Fresh = false }, WhyNoCapacity},
		"the service is not in place":       {func(_ *Snapshot, b *Candidate) { b.Ready = false }, WhyNotReady},
		"inputs cannot be read":             {func(_ *Snapshot, b *Candidate) { b.Inputs = InputsUnreadable }, WhyInputsUnreadable},
		"inputs are not known":              {func(_ *Snapshot, b *Candidate) { b.Inputs = InputsUnknown }, WhyInputsUnknown},
		"it was there before":               {func(_ *Snapshot, b *Candidate) { b.Visited = true }, WhyVisited},
		"the third hop":                     {func(s *Snapshot, _ *Candidate) { s.Hops = 2 }, WhyChosen},
		"a fourth hop":                      {func(s *Snapshot, _ *Candidate) { s.Hops = 3 }, WhyTooManyHops},
		"where it is needs no hop":          {func(s *Snapshot, _ *Candidate) { s.Hops, s.From = 3, "b/s" }, WhyChosen},
		"topology none":                     {func(s *Snapshot, _ *Candidate) { s.Topology = "none" }, WhyNoEdge},
		"no topology":                       {func(s *Snapshot, _ *Candidate) { s.Topology = "" }, WhyNoEdge},
		"none, but it came in there":        {func(s *Snapshot, b *Candidate) { s.Topology, b.Entry = "none", true }, WhyChosen},
		"star, from the coordinator":        {func(s *Snapshot, _ *Candidate) { s.Topology = "star" }, WhyChosen},
		"tree, from the coordinator":        {func(s *Snapshot, _ *Candidate) { s.Topology = "tree" }, WhyChosen},
		"star, from a worker":               {func(s *Snapshot, _ *Candidate) { s.Topology, s.From = "star", "c/s" }, WhyNoEdge},
		"mesh, from a worker":               {func(s *Snapshot, _ *Candidate) { s.From = "c/s" }, WhyChosen},
		"mesh, from a member that is gone":  {func(s *Snapshot, _ *Candidate) { s.From = "z/s" }, WhyChosen},
		"star, from a member that is gone":  {func(s *Snapshot, _ *Candidate) { s.Topology, s.From = "star", "z/s" }, WhyNoEdge},
		"from nowhere, but it came in here": {func(s *Snapshot, b *Candidate) { s.From, b.Entry = "", true }, WhyChosen},
		"priority 100":                      {func(_ *Snapshot, b *Candidate) { b.Priority = 100 }, WhyChosen},
		"priority 101":                      {func(_ *Snapshot, b *Candidate) { b.Priority = 101 }, WhyNeverUsed},
		"priority 101, load-based":          {func(s *Snapshot, b *Candidate) { s.Policy, b.Priority = "load-based", 300 }, WhyNeverUsed},
		"priority 101 where it came in":     {func(_ *Snapshot, b *Candidate) { b.Entry, b.Priority = true, 101 }, WhyChosen},
		"weight 0":                          {func(s *Snapshot, b *Candidate) { s.Policy, b.Weight = "random", new(0) }, WhyZeroWeight},
		"weight 0 is of random alone":       {func(_ *Snapshot, b *Candidate) { b.Weight = new(0) }, WhyChosen},
		"an exact fit":                      {func(_ *Snapshot, b *Candidate) { free(Request{CPU: 500, Memory: 256 << 20})(b) }, WhyChosen},
		"too little CPU":                    {func(_ *Snapshot, b *Candidate) { free(Request{CPU: 499, Memory: 1 << 40})(b) }, WhyNoRoom},
		"too little memory":                 {func(_ *Snapshot, b *Candidate) { free(Request{CPU: 1e6, Memory: 256<<20 - 1})(b) }, WhyNoRoom},
		"no single node has both": {func(_ *Snapshot, b *Candidate) {
			free(Request{CPU: 1e6, Memory: 1}, Request{CPU: 1, Memory: 1 << 40})(b)
		}, WhyNoRoom},
		"room only on nodes not listed": {func(_ *Snapshot, b *Candidate) { b.Capacity = Capacity{More: Sum{Request{1e6, 1 << 40, 0}, 9}} }, WhyNoRoom},
		"no nodes":                      {func(_ *Snapshot, b *Candidate) { free()(b) }, WhyNoRoom},
		"a GPU":                         {func(s *Snapshot, b *Candidate) { s.Request.GPU = 1; free(Request{4000, 8 << 30, 1})(b) }, WhyChosen},
		"no GPU":                        {func(s *Snapshot, _ *Candidate) { s.Request.GPU = 1 }, WhyNoGPU},
		"the GPU's node is full": {func(s *Snapshot, b *Candidate) {
			s.Request.GPU = 1
			free(Request{1, 8 << 30, 1}, Request{4000, 8 << 30, 0})(b)
		}, WhyNoRoom},
		"the GPU is promised": {func(s *Snapshot, b *Candidate) {
			s.Request.GPU = 1
			free(Request{4000, 8 << 30, 1})(b)
			b.Promised = []Promise{{Request{1, 1, 1}, 1}}
		}, WhyNoGPU},
		"promised to others":              {func(_ *Snapshot, b *Candidate) { b.Promised = []Promise{{Request{500, 1, 0}, 8}} }, WhyNoRoom},
		"one is left beside the promised": {func(_ *Snapshot, b *Candidate) { b.Promised = []Promise{{Request{500, 1, 0}, 7}} }, WhyChosen},
		"more is promised than there is": {func(_ *Snapshot, b *Candidate) {
			b.Promised = []Promise{{Request{1, 1, 0}, math.MaxInt64}, {Request{9, 9, 0}, math.MaxInt64}}
		}, WhyNoRoom},
		"what is promised is nothing": {func(_ *Snapshot, b *Candidate) {
			b.Promised = []Promise{{Request{500, 1, 0}, -8}, {Request{-1, 0, 0}, 5}}
		}, WhyChosen},
	} {
		t.Run(name, func(t *testing.T) {
			a := member("a", func(c *Candidate) { c.Coordinator, c.State = true, StateCordoned })
			s := job("static", a, member("b"), member("c", func(c *Candidate) { c.Priority = 101 }))
			c.edit(&s, &s.Candidates[1])
			d := Choose(s)
			if got := whys(d)["b/s"]; got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, d.Verdicts[1].Message)
			}
			if (d.Chosen == "b/s") != (c.want == WhyChosen) {
				t.Errorf("chosen is %q", d.Chosen)
			}
			if v := d.Verdicts[1]; v.Message == "" {
				t.Error("no sentence")
			}
		})
	}
	t.Run("an endpoint has no capacity", func(t *testing.T) {
		for _, policy := range []string{"static", "random", "load-based", "topsis"} {
			if d := Choose(job(policy, member("a", func(c *Candidate) { c.Coordinator, c.Alive = true, false }), endpoint)); d.Chosen != endpoint.URL {
				t.Errorf("%s: %+v", policy, d)
			}
		}
	})
}

func TestOrder(t *testing.T) {
	p := func(priority int) func(*Candidate) { return func(c *Candidate) { c.Priority = priority } }
	cpu := func(millicores ...int64) func(*Candidate) {
		return func(c *Candidate) {
			c.Capacity = Capacity{}
			for _, m := range millicores {
				c.Capacity.Nodes = append(c.Capacity.Nodes, Request{CPU: m, Memory: 8 << 30})
			}
		}
	}
	promised := func(count int64) func(*Candidate) {
		return func(c *Candidate) { c.Promised = []Promise{{Request{1000, 1, 0}, count}} }
	}
	endpoint := Candidate{URL: "https://e"}
	for name, c := range map[string]struct {
		s      Snapshot
		order  string
		scores []float64 // by candidate; -1 is none
	}{
		"no policy is static":               {job("", member("a", home), member("b", p(3)), member("c", p(1))), "a/s c/s b/s", []float64{0, 3, 1}},
		"an unknown policy is static":       {job("fastest", member("a", home, p(9)), member("b", p(3))), "b/s a/s", []float64{9, 3}},
		"ties stay in order":                {job("static", member("a", home), member("c"), member("b")), "a/s c/s b/s", []float64{0, 0, 0}},
		"static takes endpoints as others":  {job("static", member("a", home, p(2)), endpoint), "https://e a/s", []float64{2, 0}},
		"a last place where it came in":     {job("static", member("a", home, p(101)), member("b", p(100))), "b/s a/s", []float64{101, 100}},
		"the same, load-based":              {job("load-based", member("a", home, p(101), cpu(64000)), member("b", cpu(600))), "b/s a/s", []float64{0, 98.125}},
		"most free CPU":                     {job("load-based", member("a", home, cpu(4000)), member("b", cpu(3000, 3000))), "b/s a/s", []float64{87.5, 81.25}},
		"what is promised is not free":      {job("load-based", member("a", home, cpu(4000)), member("b", cpu(3000, 3000), promised(3))), "a/s b/s", []float64{87.5, 90.625}},
		"most free, but no room":            {job("load-based", member("a", home, cpu(600)), member("b", cpu(499, 499, 499))), "a/s", []float64{98.125, -1}},
		"scores are kept within 0 and 100":  {job("load-based", member("a", home, cpu(33000)), member("b", cpu(64000))), "b/s a/s", []float64{0, 0}},
		"load-based ties stay in order":     {job("load-based", member("a", home), member("c"), member("b")), "a/s c/s b/s", []float64{87.5, 87.5, 87.5}},
		"load-based puts endpoints behind":  {job("load-based", endpoint, member("a", home, cpu(500))), "a/s https://e", []float64{-1, 98.4375}},
		"topsis with one member":            {job("topsis", member("a", home)), "a/s", []float64{1}},
		"topsis puts endpoints behind":      {job("topsis", endpoint, member("a", home)), "a/s https://e", []float64{-1, 1}},
		"random with one that has a weight": {job("random", member("a", home, func(c *Candidate) { c.Weight = new(0) }), member("b")), "b/s a/s", []float64{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Choose(c.s)
			if got := strings.Join(d.Order, " "); got != c.order {
				t.Errorf("order %q, want %q", got, c.order)
			}
			for i, v := range d.Verdicts {
				if got := v.Score; (got == nil) != (c.scores[i] < 0) || got != nil && *got != c.scores[i] {
					t.Errorf("score of %s: %v, want %v", v.Place, got, c.scores[i])
				}
			}
			if d.Chosen != d.Order[0] {
				t.Errorf("chosen is %q", d.Chosen)
			}
		})
	}
}

func TestRequestOf(t *testing.T) {
	got, err := RequestOf(&oscar.Service{CPU: "500m", Memory: "0.5Gi", EnableGPU: true})
	if want := (Request{500, 512 << 20, 1}); got != want || err != nil {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := RequestOf(&oscar.Service{CPU: "lots"}); err == nil {
		t.Error("lots is a quantity")
	}
}

// draw of anything that a caller might hand in, sensible or not.
func drawRequest(t *rapid.T, name string) Request {
	amount := rapid.OneOf(rapid.Int64Range(0, 20), rapid.SampledFrom([]int64{-1, -math.MaxInt64, math.MinInt64, math.MaxInt64, math.MaxInt64 - 1, 1 << 53}))
	return Request{amount.Draw(t, name+" cpu"), amount.Draw(t, name+" memory"), rapid.SampledFrom([]int64{0, 0, 0, 1, 2, -1}).Draw(t, name+" gpu")}
}

func drawSnapshot(t *rapid.T) Snapshot {
	s := Snapshot{
		Policy:   rapid.SampledFrom([]string{"", "static", "random", "load-based", "topsis", "other"}).Draw(t, "policy"),
		Topology: rapid.SampledFrom([]string{"", "none", "star", "tree", "mesh", "mesh"}).Draw(t, "topology"),
		Hops:     rapid.IntRange(0, 4).Draw(t, "hops"), Seed: rapid.Uint64().Draw(t, "seed"), Request: drawRequest(t, "request"),
	}
	if rapid.Bool().Draw(t, "weights") {
		s.Weights = map[string]float64{}
		for _, key := range []string{"c0", "c1/s", "cpu", "latency", "pending"} {
			s.Weights[key] = rapid.Float64().Draw(t, "weight of "+key)
		}
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "members") {
		c := Candidate{
			Cluster: fmt.Sprintf("c%d", i), Service: "s", Coordinator: i == 0, Entry: rapid.Bool().Draw(t, "entry"),
			Visited: rapid.IntRange(0, 9).Draw(t, "visited") == 0, Priority: rapid.SampledFrom([]int{0, 0, 1, 2, 101}).Draw(t, "priority"),
			Ready: rapid.IntRange(0, 9).Draw(t, "ready") > 0, Alive: rapid.IntRange(0, 9).Draw(t, "alive") > 0, Fresh: rapid.IntRange(0, 9).Draw(t, "fresh") > 0,
			State:  rapid.SampledFrom([]State{"", "", "", StateActive, StateCordoned, StatePaused, "other"}).Draw(t, "state"),
			Inputs: rapid.SampledFrom([]Inputs{InputsReadable, InputsReadable, InputsReadable, InputsUnknown, InputsUnreadable}).Draw(t, "inputs"),
			History: History{
				Latency:  rapid.SampledFrom([]float64{0, 0.01, 2, -1, math.MaxFloat64}).Draw(t, "latency"),
				Duration: rapid.SampledFrom([]float64{0, 10, 1e6}).Draw(t, "duration"), Pending: rapid.Int64Range(-1, 50).Draw(t, "pending"),
			},
		}
		if rapid.IntRange(0, 5).Draw(t, "endpoint") == 0 {
			c.URL, c.Coordinator = fmt.Sprintf("https://e/%d", i), false
		}
		if rapid.Bool().Draw(t, "weighted") {
			c.Weight = new(rapid.IntRange(0, 5).Draw(t, "weight"))
		}
		for range rapid.IntRange(0, 4).Draw(t, "nodes") {
			c.Capacity.Nodes = append(c.Capacity.Nodes, drawRequest(t, "node"))
		}
		if rapid.IntRange(0, 3).Draw(t, "unlisted") == 0 {
			c.Capacity.More = Sum{drawRequest(t, "more"), rapid.Int64Range(-1, 9).Draw(t, "more nodes")}
		}
		for range rapid.IntRange(0, 3).Draw(t, "promises") {
			c.Promised = append(c.Promised, Promise{drawRequest(t, "promise"), rapid.Int64Range(-1, 5).Draw(t, "count")})
		}
		s.Candidates = append(s.Candidates, c)
		if rapid.Bool().Draw(t, "from") {
			s.From = c.Place()
		}
	}
	return s
}

// What is stored with a job gives the same choice again, in every bit.
func TestARecordedSnapshotGivesTheRecordedDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		d := Choose(s)
		if after, _ := json.Marshal(s); string(after) != string(before) {
			t.Fatal("the choice changed its snapshot")
		}
		decision, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err) // as for a NaN
		}
		for name, kept := range map[string]Snapshot{"whole": s, "compact": s.Compact(), "compacted twice": s.Compact().Compact()} {
			stored, err := json.Marshal(kept)
			if err != nil {
				t.Fatal(err)
			}
			var again Snapshot
			if err := json.Unmarshal(stored, &again); err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(Choose(again)); string(got) != string(decision) {
				t.Fatalf("%s: %s", name, cmp.Diff(string(decision), string(got)))
			}
		}
		var again Decision
		if err := json.Unmarshal(decision, &again); err != nil || cmp.Diff(d, again) != "" {
			t.Fatalf("the decision is stored as another one: %v %s", err, cmp.Diff(d, again))
		}
	})
}

// allWhys lists all reasons.
func allWhys() []Why {
	return []Why{
		WhyChosen, WhyOutranked, WhyNoEdge, WhyNeverUsed, WhyZeroWeight, WhyVisited, WhyTooManyHops, WhyRevoked, WhyRemoving,
		WhyPaused, WhyCordoned, WhyNotAlive, WhyNotReady, WhyNoCapacity, WhyInputsUnreadable, WhyInputsUnknown, WhyNoGPU, WhyNoRoom,
	}
}

// Whatever is handed in: everybody has a known verdict, the order holds exactly those
// who could take the job, and the first of them is chosen.
func TestEveryMemberHasAVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		d := Choose(s)
		if len(d.Verdicts) != len(s.Candidates) {
			t.Fatalf("%d verdicts on %d candidates", len(d.Verdicts), len(s.Candidates))
		}
		var able []string
		for i, v := range d.Verdicts {
			if v.Place != s.Candidates[i].Place() || !slices.Contains(allWhys(), v.Why) || v.Message == "" {
				t.Fatalf("verdict %d: %+v", i, v)
			}
			if v.Why == WhyChosen || v.Why == WhyOutranked {
				able = append(able, v.Place)
			}
			if (v.Why == WhyChosen) != (v.Place == d.Chosen) {
				t.Fatalf("%q is chosen, and %s is %s", d.Chosen, v.Place, v.Why)
			}
		}
		if (d.Chosen == "") != (len(d.Order) == 0) || d.Chosen != "" && d.Order[0] != d.Chosen {
			t.Fatalf("%q is chosen of %v", d.Chosen, d.Order)
		}
		slices.Sort(able)
		if order := slices.Sorted(slices.Values(d.Order)); !slices.Equal(order, able) {
			t.Fatalf("order %v, able %v", order, able)
		}
	})
}

func TestACompactSnapshotIsSmall(t *testing.T) {
	s := job("topsis")
	for i := range 120 {
		s.Candidates = append(s.Candidates, member(fmt.Sprintf("cluster-%03d", i), func(c *Candidate) {
			c.Capacity.Nodes = slices.Repeat([]Request{{123456, 1 << 40, 8}}, 200)
			c.Promised = []Promise{{Request{1000, 1 << 30, 0}, 10}, {Request{2000, 1 << 30, 1}, 10}}
		}))
	}
	s.Candidates[0].Coordinator, s.Candidates[0].Entry, s.From = true, true, s.Candidates[0].Place()
	stored, err := json.Marshal(s.Compact())
	if err != nil || len(stored) > 120*350 {
		t.Errorf("%d bytes, %v", len(stored), err)
	}
}

func FuzzReplay(f *testing.F) {
	whole, _ := json.Marshal(job("topsis", member("a", home), member("b")))
	f.Add(string(whole))
	f.Fuzz(func(t *testing.T, stored string) {
		var s Snapshot
		if json.Unmarshal([]byte(stored), &s) != nil || len(s.Candidates) > 200 {
			return
		}
		if diff := cmp.Diff(Choose(s), Choose(s.Compact())); diff != "" {
			t.Error(diff)
		}
	})
}

// TestADecisionOfBeforeInputsWereJudgedReplays: it said of every replica that it reads
// the inputs, and was stored so.
func TestADecisionOfBeforeInputsWereJudgedReplays(t *testing.T) {
	const stored = `{"policy":"static","topology":"mesh","from":"a/s0","seed":"7","request":{"cpu":500,"memory":268435456},"candidates":[` +
		`{"cluster":"a","service":"s0","coordinator":true,"entry":true,"ready":true,"alive":true,"fresh":true,"state":"active","inputs":"readable","capacity":{"nodes":[{"cpu":100,"memory":8589934592}]}},` +
		`{"cluster":"b","service":"s1","priority":1,"ready":true,"alive":true,"fresh":true,"state":"active","inputs":"readable","capacity":{"nodes":[{"cpu":4000,"memory":8589934592}]}},` +
		`{"cluster":"c","service":"s2","ready":true,"fresh":true,"state":"active","inputs":"readable"}]}`
	var s Snapshot
	if err := json.Unmarshal([]byte(stored), &s); err != nil {
		t.Fatal(err)
	}
	d := Choose(s)
	want := map[string]Why{"a/s0": WhyNoRoom, "b/s1": WhyChosen, "c/s2": WhyNotAlive}
	if diff := cmp.Diff(want, whys(d)); d.Chosen != "b/s1" || diff != "" {
		t.Errorf("%s: %s", d.Chosen, diff)
	}
}

// TestTheNodesOfAClusterAreTheLargestNumberAtMost, whatever its syncer says of those that it does not list.
func TestTheNodesOfAClusterAreTheLargestNumberAtMost(t *testing.T) {
	c := nodes(Request{CPU: 1000, Memory: 1 << 30})
	c.More.Nodes = math.MaxInt64
	if r := measure(c, nil, Request{}); r.sum.Nodes != math.MaxInt64 {
		t.Errorf("%d nodes", r.sum.Nodes)
	}
}
