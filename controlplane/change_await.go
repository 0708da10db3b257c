package controlplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// awaitChange waits for the votes of added members, and then up to wait until
// everybody has applied the change.
func (c *ControlPlane) awaitChange(ctx context.Context, id change, uid string, wait time.Duration) (*ChangeResult, error) {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	over := false
	for {
		changed := c.state.watch()
		var f record.Federation
		found := false
		c.state.read(func() {
			if v, ok := c.state.federations[uid]; ok {
				f, found = *v.rec, true
			}
		})
		switch {
		case !found || f.Phase != record.PhaseReady:
			return nil, &Error{Code: CodeConflict, Message: "the federation was deleted meanwhile"}
		case f.Refused != nil && f.Refused.RequestID == id.requestID:
			return nil, refusedError(&f)
		case f.Change == nil || f.Change.RequestID != id.requestID:
			res, err := c.changed(id, uid)
			if err != nil || over || len(res.Away) == 0 || id.wait == 0 {
				return res, err
			}
		}
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return nil, crossing(fmt.Errorf("%w: it was accepted: %w", store.ErrUnknownOutcome, context.Cause(ctx)))
		}
	}
}

func refusedError(f *record.Federation) error {
	r := f.Refused
	failed := &FailedCreate{GroupID: f.GroupID, Phase: record.PhaseAborted, Rollback: record.RollbackNotNeeded}
	for _, m := range r.Members {
		if m.Coordinator {
			failed.Service = m.ServiceName
		}
		if m.Replica() {
			failed.Replicas = append(failed.Replicas, FailedReplica{
				Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Cause: m.Cause, Rollback: *m.Rollback,
			})
		}
	}
	return &Error{Code: Code(r.Code), Message: r.Detail, Failed: failed}
}

// changed is the federation after a change, as its coordinator sees it.
func (c *ControlPlane) changed(id change, uid string) (*ChangeResult, error) {
	fed, ok := c.federation(uid)
	if !ok {
		return nil, notFound(fmt.Sprintf("there is no service %q", id.service))
	}
	self := slices.IndexFunc(fed.Members, func(m Replica) bool {
		return m.ServiceName == id.service && (id.clusterID == "" || m.ClusterID == id.clusterID)
	})
	if self < 0 {
		self = slices.IndexFunc(fed.Members, func(m Replica) bool { return m.Coordinator })
	}
	out := &ChangeResult{Replicas: asSeen(fed.Federation, self)}
	for _, m := range fed.Members {
		if m.Status != nil && (m.Status.Phase != record.PhaseReady || m.Status.ObservedGeneration < fed.Generation) {
			out.Away = append(out.Away, m)
		}
	}
	return out, nil
}
