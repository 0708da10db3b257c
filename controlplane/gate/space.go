package gate

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store"
)

// ReserveSpace refuses a write of so many bytes while etcd is short of space, or would become
// so by it. The space that is left is needed for tombstones, votes, reports and sessions. The
// bytes stay reserved until release is called. A request that was accepted before goes on to
// its end.
func (g *Gate) ReserveSpace(size int64) (release func(), err error) {
	if s := g.space.Space(); s.Tight() {
		after := fault.RetryShort
		if s.Level == store.SpaceFull {
			after = fault.RetryFull
		}
		return nil, &fault.Error{Code: fault.CodeUnavailable, Message: "nothing was changed: " + s.Advice(), RetryAfter: after}
	}
	release, free, ok := g.space.Reserve(size)
	if !ok {
		return nil, &fault.Error{Code: fault.CodeUnavailable, RetryAfter: fault.RetryShort, Message: fmt.Sprintf(
			"nothing was changed: this needs %s in etcd, and %s are free before creates and changes are refused: %s",
			MiB(size), MiB(free), g.space.Space().Figures())}
	}
	return release, nil
}

// Space is what this instance knows of etcd's space; sizes are in bytes.
type Space struct {
	// Level is unknown, ok, short (creates and changes are refused) or full (every
	// write is refused).
	Level string
	// Size, InUse and Quota are of the etcd member that is nearest to its quota.
	Size, InUse, Quota int64
	// Advice is what to do; empty when nothing is.
	Advice string
}

// SpaceView shows etcd's space to callers.
func (g *Gate) SpaceView() Space {
	s := g.space.Space()
	return Space{Level: string(s.Level), Size: s.Worst.Size, InUse: s.Worst.InUse, Quota: s.Worst.Quota, Advice: s.Advice()}
}

// watchSpace makes the watch of etcd's space and registers its metrics.
func (g *Gate) watchSpace() error {
	steps := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oscarfed_etcd_recoveries_total", Help: "Steps that this instance took to make space in etcd, by step and outcome.",
	}, []string{"step", "outcome"})
	gauge := func(opts prometheus.GaugeOpts, value func(store.Space) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(opts, func() float64 { return value(g.space.Space()) })
	}
	reads := prometheus.GaugeOpts{
		Name: "oscarfed_etcd_member_read_seconds", Help: "Time that a linearizable read took at each member of etcd that answers, by endpoint, every 5 s.",
	}
	is := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	for _, collector := range []prometheus.Collector{
		steps,
		gauge(prometheus.GaugeOpts{Name: "oscarfed_etcd_db_size_bytes", Help: "Size of the database file of the etcd member that is nearest to its quota."},
			func(s store.Space) float64 { return float64(s.Worst.Size) }),
		gauge(prometheus.GaugeOpts{Name: "oscarfed_etcd_db_in_use_bytes", Help: "How much of that file is in use."},
			func(s store.Space) float64 { return float64(s.Worst.InUse) }),
		gauge(prometheus.GaugeOpts{Name: "oscarfed_etcd_quota_bytes", Help: "The quota of that member; negative when there is none."},
			func(s store.Space) float64 { return float64(s.Worst.Quota) }),
		gauge(prometheus.GaugeOpts{Name: "oscarfed_etcd_short", Help: "1 while creates and changes are refused for want of space in etcd."},
			func(s store.Space) float64 { return is(s.Tight()) }),
		gauge(prometheus.GaugeOpts{Name: "oscarfed_etcd_full", Help: "1 while etcd refuses every write."},
			func(s store.Space) float64 { return is(s.Level == store.SpaceFull) }),
		gauge(prometheus.GaugeOpts{Name: "oscarfed_etcd_silent_endpoints", Help: "Endpoints of etcd that did not answer this instance when it asked last, every 5 s."},
			func(s store.Space) float64 { return float64(len(s.Silent)) }),
		memberReads{g.spaceMembers, prometheus.NewDesc(reads.Name, reads.Help, []string{"endpoint"}, nil)},
	} {
		if err := g.cfg.Registry.Register(collector); err != nil {
			return fmt.Errorf("controlplane: register metrics: %w", err)
		}
	}
	g.space = g.store.NewSpaceWatch(store.SpaceConfig{
		Interval: g.cfg.SpaceInterval, Retention: g.cfg.EtcdRetention, Logger: g.cfg.Logger, Root: g.cfg.Root,
		OnStep: func(step, outcome string) { steps.WithLabelValues(step, outcome).Inc() },
	})
	return nil
}

// spaceMembers are the members of etcd that answered when they were asked last.
func (g *Gate) spaceMembers() []store.SpaceMember { return g.space.Space().Members }

// memberReads tells how long a read takes at each member.
type memberReads struct {
	members func() []store.SpaceMember
	desc    *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (r memberReads) Describe(to chan<- *prometheus.Desc) { to <- r.desc }

// Collect implements prometheus.Collector.
func (r memberReads) Collect(to chan<- prometheus.Metric) {
	for _, m := range r.members() {
		to <- prometheus.MustNewConstMetric(r.desc, prometheus.GaugeValue, m.Read.Seconds(), m.Endpoint)
	}
}

// Quota is the quota, in bytes, of the etcd member that is nearest to its own; 0 or less
// without one.
func (g *Gate) Quota() int64 { return g.space.Space().Worst.Quota }

// SpaceAdvice says what to do about etcd's space; empty when nothing is to be done.
func (g *Gate) SpaceAdvice() string { return g.space.Space().Advice() }
