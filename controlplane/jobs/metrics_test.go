package jobs

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/oscarfed/oscarfed/store/record"
)

// One report of the year 9999 made the mean of the metric centuries, until its instance was started anew.
func TestTheTimeToASubmissionIsPossibleWhateverAClusterSays(t *testing.T) {
	accepted := time.Date(2026, 11, 20, 13, 4, 5, 0, time.UTC)
	now := accepted.Add(time.Minute)
	for name, tt := range map[string]struct {
		posted time.Time
		want   float64
	}{
		"a second later":                 {accepted.Add(time.Second), 1},
		"before the job was accepted":    {accepted.Add(-time.Hour), 0},
		"of the future":                  {now.Add(time.Hour), 60},
		"as late as a report can say it": {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), 60},
		"never":                          {time.Time{}, 0},
	} {
		m, err := newMetrics(prometheus.NewRegistry(), nil)
		if err != nil {
			t.Fatal(err)
		}
		m.noted(&step{name: "running", was: record.Job{AcceptedAt: record.At(accepted)}, posted: &tt.posted}, now)
		var got dto.Metric
		if err := m.submitted.Write(&got); err != nil {
			t.Fatal(err)
		}
		if sum := got.GetHistogram().GetSampleSum(); sum != tt.want {
			t.Errorf("%s: %g s, want %g", name, sum, tt.want)
		}
	}
}
