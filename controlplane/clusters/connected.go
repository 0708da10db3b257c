package clusters

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/view"
)

// connectedGauge says of each cluster whether its syncer is connected, when it is asked. Of one whose syncer never was, and of
// one that is being removed, it says nothing.
type connectedGauge struct {
	state *view.State
	desc  *prometheus.Desc
}

func newConnectedGauge(s *view.State) *connectedGauge {
	gauge := prometheus.GaugeOpts{
		Name: "oscarfed_cluster_connected", Help: "1 while the syncer of a registered cluster has a session in etcd, 0 when it had one and has none.",
	}
	return &connectedGauge{s, prometheus.NewDesc(gauge.Name, gauge.Help, []string{"cluster"}, nil)}
}

// Describe implements prometheus.Collector.
func (g *connectedGauge) Describe(out chan<- *prometheus.Desc) { out <- g.desc }

// Collect implements prometheus.Collector.
func (g *connectedGauge) Collect(out chan<- prometheus.Metric) {
	connected := map[string]float64{}
	g.state.Read(func(v *view.View) {
		for id, reg := range v.Clusters.All() {
			switch {
			case reg.Rec.Removal != nil:
			case v.Alive(id):
				connected[id] = 1
			case v.Nodes.Get(id).Self.Rec != nil: // the last report stays
				connected[id] = 0
			}
		}
	})
	for id, is := range connected {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, is, id)
	}
}
