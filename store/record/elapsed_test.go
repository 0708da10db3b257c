package record

import (
	"testing"

	"pgregory.net/rapid"
)

const (
	minute = 60
	day    = 24 * 60 * minute
)

// Whatever is left out, no revision is ever taken for older than it is, nor for much
// younger, and there are few marks.
func TestElapsedNeverTakesARevisionForOlder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e *Elapsed
		var came []TimeMark // every revision, and when it came
		seconds, revision := int64(0), int64(1)
		longest := int64(90 * day)
		for range rapid.IntRange(1, 3000).Draw(t, "ticks") {
			for range rapid.IntRange(0, 2).Draw(t, "writes") {
				revision++
				came = append(came, TimeMark{revision, seconds})
			}
			seconds += rapid.Int64Range(5*minute, 15*minute).Draw(t, "pause")
			e = e.Pass(seconds, revision, 5*minute, longest)
		}
		if len(e.Marks) > 400 {
			t.Fatalf("%d marks after %d days", len(e.Marks), seconds/day)
		}
		for _, one := range came {
			is, told := seconds-one.Seconds, e.Since(one.Revision)
			if told > is || told < min(is, longest)-is/8-20*minute {
				t.Fatalf("revision %d is %d seconds old, and taken for %d", one.Revision, is, told)
			}
		}
	})
}

func TestElapsedNeverGoesBack(t *testing.T) {
	e := (*Elapsed)(nil).Pass(1000, 5, minute, day)
	if e = e.Pass(10, 6, minute, day); e.Seconds != 1000 {
		t.Errorf("it is %d seconds after 1000", e.Seconds)
	}
	if e.Since(7) != 0 || !e.Knows(6) || e.Knows(5) || (*Elapsed)(nil).Since(1) != 0 {
		t.Errorf("%+v", e)
	}
}
