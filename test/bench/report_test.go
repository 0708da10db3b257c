package main

import (
	"strings"
	"testing"
	"time"

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
