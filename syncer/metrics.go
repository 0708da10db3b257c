package syncer

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one syncer.
type metrics struct {
	orphans prometheus.Gauge
	// registered is 1 while the cluster is registered as the one that we serve.
	registered prometheus.Gauge
	// leads says whether the OSCAR is ours to write to; nil outside of a session.
	leads atomic.Pointer[func() bool]
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		orphans: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_orphans", Help: "Services with our marks that no desired record speaks of.",
		}),
		registered: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_registered", Help: "1 when the cluster is registered as the one that this syncer is for; 0 when it waits.",
		}),
	}
	if r != nil {
		r.MustRegister(m.orphans, m.registered, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
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
