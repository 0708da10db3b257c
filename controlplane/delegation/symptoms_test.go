package delegation

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// What OSCAR v4.1.2's own delegation does wrong where it chooses, each with a test that
// is named after it.

func TestTopsisPanicsWithOneMember(t *testing.T) {
	d := Choose(job("topsis", member("a", home)))
	if d.Chosen != "a/s" || *d.Verdicts[0].Score != 1 {
		t.Errorf("%+v", d)
	}
}

func TestTopsisPanicsWithNoMember(t *testing.T) {
	for _, s := range []Snapshot{job("topsis"), job("topsis", member("a", home, func(c *Candidate) { c.Alive = false }))} {
		if d := Choose(s); d.Chosen != "" || len(d.Order) != 0 {
			t.Errorf("%+v", d)
		}
	}
}

func TestTopsisIsNeverSorted(t *testing.T) {
	weak := func(c *Candidate) { free(Request{CPU: 600, Memory: gib})(c); c.History.Pending = 50 }
	strong := func(c *Candidate) { free(Request{CPU: 64000, Memory: 256 * gib})(c) }
	for seed := range uint64(50) {
		s := job("topsis", member("a", home, weak), member("b", weak), member("c", strong), member("d", weak))
		s.Seed = seed
		if d := Choose(s); d.Order[0] != "c/s" {
			t.Fatalf("seed %d: %v", seed, d.Order)
		}
	}
}

func TestHalfACoreInMillicoresIsNeverEligible(t *testing.T) {
	request, err := RequestOf(&oscar.Service{CPU: "500m", Memory: "256Mi"})
	if err != nil {
		t.Fatal(err)
	}
	s := job("load-based", member("a", home, free(Request{CPU: 500, Memory: gib})))
	s.Request = request
	if d := Choose(s); d.Chosen != "a/s" {
		t.Errorf("%+v", d)
	}
}

func TestAnAllZeroColumnIsNotANumber(t *testing.T) {
	s := job("topsis", member("a", home, free(Request{CPU: 4000})), member("b", free(Request{CPU: 2000})))
	s.Request.Memory = 0 // so that members without memory fit
	d := Choose(s)
	for _, v := range d.Verdicts {
		if v.Score == nil || math.IsNaN(*v.Score) || *v.Score < 0 || *v.Score > 1 {
			t.Errorf("%s: %v", v.Place, v.Score)
		}
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
	s.Request = Request{}
	for i := range s.Candidates { // and nothing but zeros in every column
		s.Candidates[i].Capacity = nodes(Request{})
	}
	if d := Choose(s); *d.Verdicts[0].Score != 1 || *d.Verdicts[1].Score != 1 {
		t.Errorf("%+v", d)
	}
}

func TestAnEmptyPolicyMeansNobody(t *testing.T) {
	for _, policy := range []string{"", "no-such-policy"} {
		if d := Choose(job(policy, member("a", home), member("b"))); d.Chosen != "a/s" || d.Policy != "static" {
			t.Errorf("%q: %+v", policy, d)
		}
	}
}

func TestNegativeFreeCapacityIsAHugeNumber(t *testing.T) {
	over := free(Request{CPU: -3000, Memory: -1}, Request{CPU: 1000, Memory: gib})
	d := Choose(job("load-based", member("a", home, over), member("b", free(Request{CPU: 900, Memory: gib}))))
	if a, b := *d.Verdicts[0].Score, *d.Verdicts[1].Score; a != 100-100*1000/32000.0 || b <= a || d.Chosen != "a/s" {
		t.Errorf("%v %v: %+v", a, b, d)
	}
	if d := Choose(job("load-based", member("a", home, free(Request{CPU: -3000, Memory: -1})))); d.Verdicts[0].Why != WhyNoRoom {
		t.Errorf("%+v", d)
	}
}

func TestAMemberThatIsDownCrashesTheChoice(t *testing.T) {
	down := func(c *Candidate) { *c = Candidate{Cluster: c.Cluster, Service: c.Service} } // nothing is known of it
	for _, policy := range []string{"static", "random", "load-based", "topsis"} {
		d := Choose(job(policy, member("a", home), member("b", down), member("c", down)))
		if d.Chosen != "a/s" || d.Verdicts[1].Why != WhyNotAlive {
			t.Errorf("%s: %+v", policy, d)
		}
	}
}

func TestAJobThatNeedsAGPUIsSentWhereThereIsNone(t *testing.T) {
	for _, policy := range []string{"static", "random", "load-based", "topsis"} {
		s := job(policy, member("a", home, free(Request{CPU: 64000, Memory: 256 * gib})), member("b", free(Request{CPU: 1000, Memory: gib, GPU: 1})))
		s.Request.GPU = 1
		if d := Choose(s); !slices.Equal(d.Order, []string{"b/s"}) {
			t.Errorf("%s: %+v", policy, d)
		}
	}
}

// TestAJobGoesRoundAndRoundInAMesh: it never goes where it was, and not on for ever.
func TestAJobGoesRoundAndRoundInAMesh(t *testing.T) {
	s := job("random", member("a"), member("b"), member("c"), member("d"), member("e"), member("f"))
	s.Candidates[0].Entry, s.Candidates[0].Visited = true, true
	for hop := range MaxHops + 1 {
		s.Hops, s.Seed = hop, uint64(hop)
		d := Choose(s)
		if (d.Chosen == "") != (hop == MaxHops) {
			t.Fatalf("hop %d: %+v", hop, d)
		}
		for i := range s.Candidates {
			if c := &s.Candidates[i]; c.Place() == d.Chosen {
				if c.Visited {
					t.Fatalf("hop %d: back at %s", hop, d.Chosen)
				}
				c.Visited, s.From = true, d.Chosen
			}
		}
	}
}
