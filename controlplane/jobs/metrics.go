package jobs

import (
	"errors"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// metrics are the metrics of jobs.
type metrics struct {
	steps     *prometheus.CounterVec
	submitted prometheus.Histogram
	// rounds are the scans of the queues, and classes what they looked at.
	rounds  prometheus.Histogram
	classes prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *view.State) (*metrics, error) {
	m := &metrics{
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_job_steps_total", Help: "Steps of jobs that this instance took, by name: assign, end, requeue, withdraw and others.",
		}, []string{"step"}),
		submitted: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "oscarfed_job_submit_seconds", Help: "Time from the acceptance of a job to its submission to an OSCAR, of those that this instance has seen running or ended.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 12),
		}),
	}
	m.rounds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "oscarfed_job_round_seconds", Help: "Time that one scan of the queues took to find the jobs that can be assigned.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
	})
	m.classes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "oscarfed_job_round_classes_total", Help: "Classes of queued jobs that the scans looked at: jobs of one class wait for the same capacity.",
	})
	gauge := prometheus.GaugeOpts{Name: "oscarfed_jobs", Help: "Jobs that are known, by the state in their record."}
	return m, errors.Join(reg.Register(m.steps), reg.Register(m.submitted), reg.Register(m.rounds), reg.Register(m.classes),
		reg.Register(&stateGauge{s, prometheus.NewDesc(gauge.Name, gauge.Help, []string{"state"}, nil)}))
}

// noted counts a step that was taken now. When OSCAR was asked, its cluster says: that was not before the job was
// accepted, and not later than now.
func (m *metrics) noted(p *step, now time.Time) {
	m.steps.WithLabelValues(p.name).Inc()
	if p.posted != nil {
		took, most := p.posted.Sub(p.was.AcceptedAt.Time), now.Sub(p.was.AcceptedAt.Time)
		m.submitted.Observe(max(min(took, most), 0).Seconds())
	}
}

// scanned counts a scan of the queues.
func (m *metrics) scanned(p *round, took time.Duration) {
	m.rounds.Observe(took.Seconds())
	m.classes.Add(float64(p.classes))
}

// stateGauge counts jobs by state when it is asked.
type stateGauge struct {
	state *view.State
	desc  *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (g *stateGauge) Describe(out chan<- *prometheus.Desc) { out <- g.desc }

// Collect implements prometheus.Collector.
func (g *stateGauge) Collect(out chan<- prometheus.Metric) {
	var counts map[record.JobState]int
	g.state.Read(func(v *view.View) { counts = maps.Collect(v.Jobs.States.All()) })
	for state, n := range counts {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(n), string(state))
	}
}

// postedAt is when OSCAR was asked for an attempt; nil when its job was counted already.
func postedAt(was *record.Job, r *record.JobReport) *time.Time {
	if r == nil || was.State != record.JobAssigned || r.PostedAt == nil || !r.State.Posted() {
		return nil
	}
	return &r.PostedAt.Time
}
