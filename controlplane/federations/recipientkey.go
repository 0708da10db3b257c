package federations

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// missingKeyError refuses a placement on clusters whose syncers have not yet said to which
// keys their secrets are to be sealed.
type missingKeyError struct {
	refused  *fault.Error
	clusters []string
}

func (e *missingKeyError) Error() string { return e.refused.Error() }

func (e *missingKeyError) Unwrap() error { return e.refused }

// neverConnected refuses a placement on a cluster whose key is not known.
func (r *Renderer) neverConnected(fed record.Federation) error {
	var missing []string
	fed.Phase = record.PhaseAborted
	fed.Members = slices.Clone(fed.Members)
	for i := range fed.Members {
		m := &fed.Members[i]
		if !m.Replica() {
			continue
		}
		m.Rollback = &record.Rollback{State: record.RollbackNotCreated}
		if r.reachable(m.ClusterID) {
			continue
		}
		missing = append(missing, m.ClusterID)
		m.Cause = &record.Failure{
			Reason: record.ReasonNoVote, Operation: record.OperationVote,
			Message: "no syncer of this cluster has ever connected; start it, or leave the cluster out",
		}
		if r.alive[m.ClusterID] {
			m.Cause.Message = "its syncer has connected and has not said its key yet; try again, or leave the cluster out"
		}
	}
	if len(missing) == 0 {
		return nil
	}
	fed.Code, fed.Detail = string(fault.CodeUnavailable), decide.FailureDetail(fed.Members)
	return &missingKeyError{refused: view.FailedError(&fed), clusters: missing}
}

// awaitKeys waits until the clusters that err names have reported their keys or are no longer
// registered, at most as long as for a vote that was asked for at began. It returns whether
// another try is worth it.
func (c *Controller) awaitKeys(ctx context.Context, err error, began time.Time) bool {
	e, ok := errors.AsType[*missingKeyError](err)
	if !ok {
		return false
	}
	timer := time.NewTimer(time.Until(began.Add(c.limits.PrepareDeadline)))
	defer timer.Stop()
	for {
		changed := c.state.Watch()
		waits := false
		c.state.Read(func(v *view.View) {
			waits = slices.ContainsFunc(e.clusters, func(id string) bool {
				return v.Clusters.Get(id).Rec != nil && v.SealsTo(id).Key == ""
			})
		})
		if !waits {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
