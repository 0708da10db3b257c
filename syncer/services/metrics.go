package services

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of services. They outlive sessions.
type Metrics struct {
	writes  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	reports *prometheus.CounterVec
	votes   *prometheus.CounterVec
	queue   prometheus.Gauge
}

// newMetrics registers them, unless r is nil.
func newMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_writes_total", Help: "Writes to OSCAR by step and outcome (ok, refused, error, unanswered).",
		}, []string{"step", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oscarfed_syncer_write_seconds", Help: "How long OSCAR took to answer a write.",
			Buckets: []float64{.05, .25, 1, 4, 6, 7, 8, 10, 15, 30, 60, 400},
		}, []string{"step"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_reports_total", Help: "Reports written to etcd by phase.",
		}, []string{"phase"}),
		votes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_votes_total", Help: "Votes by answer and reason.",
		}, []string{"answer", "reason"}),
		queue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_write_queue", Help: "Services that wait for a write to OSCAR.",
		}),
	}
	if r != nil {
		r.MustRegister(m.writes, m.seconds, m.reports, m.votes, m.queue)
	}
	return m
}

func (m *Metrics) wrote(step act, outcome string, took time.Duration) {
	m.writes.WithLabelValues(step.String(), outcome).Inc()
	m.seconds.WithLabelValues(step.String()).Observe(took.Seconds())
}
