package syncer

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one syncer.
type metrics struct {
	writes  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	reports *prometheus.CounterVec
	votes   *prometheus.CounterVec
	queue   prometheus.Gauge
	orphans prometheus.Gauge
	// registered is 1 while the cluster is registered as the one that we serve.
	registered prometheus.Gauge
	// leads says whether the OSCAR is ours to write to; nil outside of a term.
	leads atomic.Pointer[func() bool]
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
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
		orphans: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_orphans", Help: "Services with our marks that no desired record speaks of.",
		}),
		registered: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_registered", Help: "1 when the cluster is registered as the one that this syncer is for; 0 when it waits.",
		}),
	}
	if r != nil {
		r.MustRegister(m.writes, m.seconds, m.reports, m.votes, m.queue, m.orphans, m.registered, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_leads", Help: "1 when this syncer may write to its OSCAR; 0 while another one holds its Lease, or Kubernetes does not answer.",
		}, func() float64 {
			if leads := m.leads.Load(); leads != nil && (*leads)() {
				return 1
			}
			return 0
		}))
	}
	return m
}

func (m *metrics) serves(registered bool) {
	m.registered.Set(0)
	if registered {
		m.registered.Set(1)
	}
}

func (m *metrics) wrote(step act, outcome string, took time.Duration) {
	m.writes.WithLabelValues(step.String(), outcome).Inc()
	m.seconds.WithLabelValues(step.String()).Observe(took.Seconds())
}
