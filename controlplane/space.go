package controlplane

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/store"
)

// Pauses that are asked of callers while etcd has no space to spare.
const (
	retryShort = 30 * time.Second
	retryFull  = time.Minute
)

// roomToAdd refuses what adds to the store while etcd is short of space, so that
// what must go on can: tombstones, votes, reports and sessions are puts, too.
// What was accepted before goes on to its end.
func (c *ControlPlane) roomToAdd() error {
	s := c.space.Space()
	if !s.Tight() {
		return nil
	}
	after := retryShort
	if s.Level == store.SpaceFull {
		after = retryFull
	}
	return &Error{Code: CodeUnavailable, Message: "nothing was changed: " + s.Advice(), RetryAfter: after}
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

func (c *ControlPlane) spaceView() Space {
	s := c.space.Space()
	return Space{Level: string(s.Level), Size: s.Worst.Size, InUse: s.Worst.InUse, Quota: s.Worst.Quota, Advice: s.Advice()}
}

// watchSpace makes the watch of etcd's space and registers what it is seen by.
func (c *ControlPlane) watchSpace() error {
	steps := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oscarfed_etcd_recoveries_total", Help: "Steps that this instance took to make space in etcd, by step and outcome.",
	}, []string{"step", "outcome"})
	gauge := func(opts prometheus.GaugeOpts, value func(store.Space) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(opts, func() float64 { return value(c.space.Space()) })
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
	} {
		if err := c.cfg.Registry.Register(collector); err != nil {
			return fmt.Errorf("controlplane: register metrics: %w", err)
		}
	}
	c.space = c.store.NewSpaceWatch(store.SpaceConfig{
		Interval: c.cfg.SpaceInterval, Retention: c.cfg.EtcdRetention, Logger: c.cfg.Logger, Root: c.cfg.Root,
		OnStep: func(step, outcome string) { steps.WithLabelValues(step, outcome).Inc() },
	})
	return nil
}
