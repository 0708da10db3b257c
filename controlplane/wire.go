package controlplane

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/events"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/forms"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/plan"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/controlplane/stats"
	"github.com/oscarfed/oscarfed/controlplane/support"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/watch"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// wire makes the use cases, each with those that it stands on.
func (c *ControlPlane) wire(counters *request.Counters, meter *access.Meter) error {
	cfg, sealer := c.cfg, c.cfg.Identity.Sealer(c.cfg.Now)
	steps := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oscarfed_federation_steps_total", Help: "Steps that this instance took, by name.",
	}, []string{"step"})
	if err := cfg.Registry.Register(steps); err != nil {
		return err
	}
	step := func(name string) { steps.WithLabelValues(name).Inc() }
	hub, err := relay.New(relay.Config{Logger: cfg.Logger, Registry: cfg.Registry})
	if err != nil {
		return err
	}
	if c.Forms, err = forms.New(forms.Config{
		Store: c.cfg.Store, State: c.state, Gate: c.gate, Instance: c.instance, Forms: cfg.Forms, Now: cfg.Now, Logger: cfg.Logger,
		Registry: cfg.Registry,
	}); err != nil {
		return err
	}
	c.Requests = request.New(request.Config{
		Store: c.cfg.Store, State: c.state, Gate: c.gate, Counters: counters, ListKey: cfg.Identity.Derive("oscarfed list"),
		KeepAudit: cfg.KeepAudit, KeepRequest: cfg.KeepRequest, RequestsPerUser: cfg.RequestsPerUser, BytesPerUser: cfg.BytesPerUser,
		SweepInterval: cfg.SweepInterval, Now: cfg.Now, Logger: cfg.Logger,
	})
	c.Tokens = tokens.New(tokens.Config{
		Store: c.cfg.Store, State: c.state, Gate: c.gate, Identity: cfg.Identity, Sealer: sealer,
		RefreshTokenMaxAge: cfg.RefreshTokenMaxAge, Step: step, Now: cfg.Now, Logger: cfg.Logger,
	})
	c.Federations = federations.New(federations.Config{
		Store: c.cfg.Store, State: c.state, Gate: c.gate, Requests: c.Requests, Tokens: c.Tokens, Identity: cfg.Identity, Sealer: sealer,
		DefaultCluster: cfg.DefaultCluster, Limits: cfg.limits(), RefreshTokenMaxAge: cfg.RefreshTokenMaxAge,
		Step: step, Now: cfg.Now, Logger: cfg.Logger, Tracer: cfg.Tracer,
	})
	if c.Jobs, err = jobs.New(jobs.Config{
		Store: c.cfg.Store, State: c.state, Gate: c.gate, Requests: c.Requests, Federations: c.Federations, Identity: cfg.Identity, Sealer: sealer,
		PerFederation: cfg.JobsPerFederation, PerUser: cfg.JobsPerUser, Keep: cfg.KeepJobs,
		KeepAtMost: jobs.Kept{OfFederation: cfg.KeepJobsEach, OfAccount: keepJobsUser, All: keepJobsAll}, Weights: cfg.JobWeights,
		LostAfter: cfg.LostAfter, EndpointNetworks: cfg.EndpointNetworks, Dial: cfg.Dial,
		Now: cfg.Now, Logger: cfg.Logger, Tracer: cfg.Tracer, Registry: cfg.Registry,
	}); err != nil {
		return err
	}
	if c.Clusters, err = clusters.New(clusters.Config{
		Store: c.cfg.Store, State: c.state, Gate: c.gate, Identity: cfg.Identity, Hub: hub, Instance: c.instance,
		Access: cfg.Access, Users: cfg.Users, Meter: meter, KeepDeleted: cfg.KeepDeleted,
		Now: cfg.Now, Logger: cfg.Logger, Registry: cfg.Registry,
	}); err != nil {
		return err
	}
	c.Events = events.New(events.Config{State: c.state, Gate: c.gate, Now: cfg.Now})
	c.Stats = stats.New(stats.Config{State: c.state, Gate: c.gate, Now: cfg.Now})
	c.Support = support.New(support.Config{
		Store: c.cfg.Store, Gate: c.gate, Metrics: cfg.Registry, Instance: c.instance, Log: cfg.RecentLog, Now: cfg.Now,
	})
	c.Watch = watch.New(watch.Config{State: c.state, Gate: c.gate, Clusters: c.Clusters, Jobs: c.Jobs, Events: c.Events, Now: cfg.Now})
	c.Runs = runs.New(runs.Config{
		State: c.state, Gate: c.gate, Tokens: c.Tokens, Jobs: c.Jobs, Identity: cfg.Identity, Hub: hub,
		DefaultCluster: cfg.DefaultCluster, Weights: cfg.JobWeights, Dial: cfg.Dial, Logger: cfg.Logger,
	})
	c.Plans = plan.New(plan.Config{
		Store: c.cfg.Store, State: c.state, Gate: c.gate, Federations: c.Federations, Identity: cfg.Identity,
		Voters: c.Runs, MaxQueueDelay: cfg.MaxQueueDelay, Now: cfg.Now,
	})
	c.Recovery, err = recovery.New(recovery.Config{
		Store: c.cfg.Store, State: c.state, Gate: c.gate, Federations: c.Federations, Tokens: c.Tokens, Clusters: c.Clusters, Identity: cfg.Identity,
		KeepDeleted: cfg.KeepDeleted, Witness: cfg.Witness, Restored: cfg.Restored, Now: cfg.Now, Logger: cfg.Logger, Registry: cfg.Registry,
	})
	return err
}

// notMirrored says which keys the state does without: the large ones, and those that only
// one request needs.
func notMirrored(key string) bool {
	switch record.ParseKey(key).Kind {
	case record.KindSpec, record.KindPart, record.KindHistory, record.KindSecrets, record.KindRequest, record.KindTokens, record.KindJoin, record.KindAudit,
		record.KindEvent, record.KindAssignedEvent, record.KindOfferedEvent, record.KindDecision:
		return true
	}
	return false
}

func tapsOf(cfg Config, counters *request.Counters, meter *access.Meter) store.Tap {
	if cfg.Users == nil {
		return counters
	}
	return taps{counters, meter}
}

// taps tells several what a mirror sees.
type taps []store.Tap

// Listed implements store.Tap.
func (all taps) Listed(kvs []store.KV) {
	for _, one := range all {
		one.Listed(kvs)
	}
}

// Changed implements store.Tap.
func (all taps) Changed(kv store.KV, deleted bool) {
	for _, one := range all {
		one.Changed(kv, deleted)
	}
}
