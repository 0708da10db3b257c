package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestPercentilesByNearestRank(t *testing.T) {
	var hundred samples
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i))
	}
	for _, tc := range []struct {
		of      samples
		percent int
		want    time.Duration
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred, 0, 1},
		{samples{7}, 50, 7}, {samples{7}, 99, 7}, {samples{3, 1, 2}, 50, 2}, {samples{3, 1, 2}, 99, 3}, {nil, 50, 0},
	} {
		if got := tc.of.p(tc.percent); got != tc.want {
			t.Errorf("p%d of %d samples: %d, want %d", tc.percent, len(tc.of), got, tc.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("the samples were sorted in place")
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	(&report{w: &b}).table([]string{"a", "b"}, [][]string{{"1", "2"}})
	if want := "| a | b |\n|---|---|\n| 1 | 2 |\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// A transaction that does more than stage must be counted.
func TestStagedOnly(t *testing.T) {
	spec, fed := seen{key: record.SpecKey("c", "s/u.1")}, seen{key: record.FederationKey("u")}
	if !stagedOnly([]seen{spec}) || stagedOnly([]seen{spec, fed}) || stagedOnly([]seen{fed}) {
		t.Error("specs alone are staged, with anything else they are not")
	}
}

func TestTheExponentOfGrowth(t *testing.T) {
	var r report
	for _, n := range []int{1, 10, 100, 1000} {
		r.grows("square", "things", "ms", n, 3*float64(n)*float64(n))
	}
	a, b, ok := r.curves["square"].exponent()
	if !ok || math.Abs(a-3) > 1e-6 || math.Abs(b-2) > 1e-6 {
		t.Errorf("%.3f * n^%.3f, %t", a, b, ok)
	}
	var out strings.Builder
	r.w = &out
	dir := t.TempDir()
	if err := r.growth(dir); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "growth-square.svg"))
	if err != nil || !strings.Contains(string(svg), "<svg") || !strings.Contains(out.String(), "| 2.00 |") {
		t.Errorf("%v; %s", err, out.String())
	}
	r = report{w: &out}
	r.grows("few", "things", "ms", 1, 1)
	if err := r.growth(dir); err != nil {
		t.Error("one point has no exponent:", err)
	}
}

func TestThePopulation(t *testing.T) {
	all := population(5000, 100_000)
	sum, most := 0, 0
	for _, p := range all {
		if p.n < 1 || p.n > oscar.MaxReplicas || p.first < 0 || p.first+p.n > 5000 {
			t.Fatalf("%+v", p)
		}
		sum, most = sum+p.n, max(most, p.n)
	}
	if sum != 100_000 || most < oscar.MaxReplicas/2 || len(all) < 1000 {
		t.Errorf("%d replicas in %d federations, the largest has %d", sum, len(all), most)
	}
}
