package controlplane

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Pauses that are asked of callers while etcd has no space to spare.
const (
	retryShort = 30 * time.Second
	retryFull  = time.Minute
)

// roomToAdd refuses what adds so many bytes to the store while etcd is short of space, or
// would become so by them, so that what must go on can: tombstones, votes, reports and
// sessions are puts, too. The room is held until release, before the first part is
// written. What was accepted before goes on to its end.
func (c *ControlPlane) roomToAdd(size int64) (release func(), err error) {
	if s := c.space.Space(); s.Tight() {
		after := retryShort
		if s.Level == store.SpaceFull {
			after = retryFull
		}
		return nil, &Error{Code: CodeUnavailable, Message: "nothing was changed: " + s.Advice(), RetryAfter: after}
	}
	release, free, ok := c.space.Reserve(size)
	if !ok {
		return nil, &Error{Code: CodeUnavailable, RetryAfter: retryShort, Message: fmt.Sprintf(
			"nothing was changed: this needs %s in etcd, and %s are free before creates and changes are refused: %s",
			mib(size), mib(free), c.space.Space().Figures())}
	}
	return release, nil
}

// room is roomToAdd and spend: both are held until release.
func (c *ControlPlane) room(caller identity.Caller, account string, size int64) (release func(), err error) {
	spent, err := c.spend(caller, account, size)
	if err != nil {
		return nil, err
	}
	reserved, err := c.roomToAdd(size)
	if err != nil {
		spent()
		return nil, err
	}
	return func() {
		reserved()
		spent()
	}, nil
}

// Sizes of small writes, in bytes.
const (
	registrationBytes = 256 << 10
	jobBytes          = 8 << 10
)

// bytesOf is about how many bytes records take.
func bytesOf(records ...staged) int64 {
	sum := 0
	for _, r := range records {
		sum += len(r.key)
		switch rec := r.rec.(type) {
		case record.Spec: // the large ones are not encoded for this
			sum += len(rec.Service) + len(rec.Sealed) + 512
		case record.History:
			sum += len(rec.Service) + 512
		case record.Secrets:
			sum += len(rec.Sealed) + 512
		default:
			if value, err := record.Encode(rec); err == nil {
				sum += len(value)
			}
		}
	}
	return int64(sum)
}

// bytesThrough is how many bytes a federation takes until a creation or change of it has
// its outcome: its record and what is desired are written several times.
func bytesThrough(fed record.Federation, desired []placed, before ...staged) int64 {
	const times = 4
	size := bytesOf(before...) + times*bytesOf(staged{"", fed})
	for _, p := range desired {
		size += times * bytesOf(staged{"", p.rec})
	}
	return size
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
