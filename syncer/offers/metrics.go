package offers

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of Jobs that wait. They outlive sessions.
type Metrics struct {
	offers, steps *prometheus.CounterVec
	rescheduled   prometheus.Gauge
}

// NewMetrics registers them, unless r is nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		offers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_offers_total", Help: "Reports about Jobs that wait here, by state.",
		}, []string{"state"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_offer_steps_total", Help: "Changes of Jobs that are offered, by step and outcome (ok, changed, refused, error).",
		}, []string{"step", "outcome"}),
		rescheduled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_rescheduler_jobs", Help: "Jobs that OSCAR's own rescheduler may take elsewhere; it must be off.",
		}),
	}
	if r != nil {
		r.MustRegister(m.offers, m.steps, m.rescheduled)
	}
	return m
}
