package federations

import (
	"context"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// await waits up to wait for the outcome of a creation. With async it returns at once with what
// is known.
func (c *Controller) await(ctx context.Context, uid string, wait time.Duration, async bool) (res *CreateResult, err error) {
	var seen int64
	err = c.state.Follow(ctx, uid, wait, func(over bool) (bool, error) {
		if !async && !over && c.underWayAs(uid, &seen) {
			return false, nil
		}
		var err error
		if res, err = c.outcome(uid); err != nil || res.Done || async {
			return true, err
		}
		if over {
			res, err = c.unfinished(uid)
		}
		return over, err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// underWayAs says whether a creation has no outcome yet and its record is the one that was seen
// before: reports of members come often, and do not change the outcome by themselves.
func (c *Controller) underWayAs(uid string, seen *int64) (same bool) {
	c.state.Read(func(v *view.View) {
		f := v.Federations.Get(uid)
		same = f.Rec != nil && f.Rec.Phase.InFlight() && f.Rev == *seen
		*seen = f.Rev
	})
	return same
}

// outcome is what is known of a creation now: Done with phase ready, an error for a failed one,
// or neither.
func (c *Controller) outcome(uid string) (*CreateResult, error) {
	fed, ok := c.federationByUID(uid)
	if !ok {
		return nil, fault.NotFound("the federation was deleted meanwhile")
	}
	switch fed.Phase {
	case record.PhaseAborted, record.PhaseRolledBack:
		return nil, &fault.Error{Code: fault.Code(fed.Code), Message: fed.Detail, Failed: fed.Failed, RetryAfter: fed.RetryAfter}
	case record.PhaseDeleting:
		return nil, deletedMeanwhile()
	case record.PhasePreparing, record.PhaseApplying, record.PhaseRollingBack:
		return &CreateResult{Federation: fed.Federation}, nil
	case record.PhaseReady, record.PhaseDegraded, record.PhaseChanging:
		if fed.Strange != "" {
			return nil, fault.NewerVersion(fmt.Sprintf("federation %q", fed.GroupID), fed.Strange)
		}
	default:
		return nil, fault.NewerVersion(fmt.Sprintf("federation %q", fed.GroupID), fmt.Sprintf("phase %q", fed.Phase))
	}
	res := &CreateResult{Federation: fed.Federation, Done: true}
	if fed.Deployment == oscar.DeploymentBestEffort {
		for _, m := range fed.Members {
			if m.Status != nil && m.Status.Phase != record.PhaseReady {
				res.Away = append(res.Away, m)
				// A slow replica is waited for; one that refused or is away is not.
				res.Done = res.Done && m.Status.Phase != record.PhaseApplying
			}
		}
	}
	return res, nil
}

// unfinished is the answer when the wait ends before the outcome. A rollback that
// has begun is a failure already, whatever becomes of it.
func (c *Controller) unfinished(uid string) (*CreateResult, error) {
	fed, ok := c.federationByUID(uid)
	if ok && fed.Phase == record.PhaseRollingBack {
		return nil, &fault.Error{Code: fault.Code(fed.Code), Message: fed.Detail, Failed: fed.Failed}
	}
	if ok && fed.Phase != record.PhasePreparing && fed.Phase != record.PhaseApplying {
		res, err := c.outcome(uid)
		if err == nil {
			res.Done = true
		}
		return res, err
	}
	location := ""
	if ok {
		for _, m := range fed.Members {
			if m.Coordinator {
				location = "/system/replicas/" + m.ServiceName
			}
		}
	}
	return nil, &fault.Error{
		Code: fault.CodeUnknownOutcome, Location: location,
		Message: fmt.Sprintf("the creation is still in progress; it goes on, and %s shows how it ends", location),
	}
}

// replay answers a repeated request from the record of the first, which was last
// written with its outcome, at rev.
func (c *Controller) replay(r *record.Request, rev int64) (*CreateResult, error) {
	kept := r.Answer.Federation
	if r.Answer.Phase.Result() && kept != nil {
		return nil, view.FailedError(kept)
	}
	res := &CreateResult{Replayed: true, Done: true}
	if fed, ok := c.federationByUID(r.UID); ok {
		res.Federation = fed.Federation
		return res, nil
	}
	if kept != nil {
		c.state.Read(func(v *view.View) { res.Federation = v.Show(kept, rev).Federation })
		res.Federation.WasReady()
	}
	return res, nil
}
