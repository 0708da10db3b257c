package jobs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of jobs. They outlive sessions.
type Metrics struct {
	posts, reports *prometheus.CounterVec
	seconds        prometheus.Histogram
}

// NewMetrics registers them, unless r is nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_job_posts_total", Help: "POSTs of jobs to OSCAR by outcome (taken, other event, refused, failed, not sent, unanswered).",
		}, []string{"outcome"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_job_reports_total", Help: "Reports about jobs written to etcd by state.",
		}, []string{"state"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "oscarfed_syncer_job_post_seconds", Help: "How long OSCAR took to answer the POST of a job.",
			Buckets: []float64{.01, .05, .25, 1, 2, 4, 8, 15, 30, 60},
		}),
	}
	if r != nil {
		r.MustRegister(m.posts, m.reports, m.seconds)
	}
	return m
}

func (m *Metrics) posted(outcome postOutcome, took time.Duration) {
	m.posts.WithLabelValues(outcome.String()).Inc()
	m.seconds.Observe(took.Seconds())
}
