package federations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Generation is one definition of a federation.
type Generation struct {
	Generation int64
	By         string
	RequestID  string
	ChangedAt  time.Time
	// Service as it was submitted, without secrets.
	Service *oscar.Service
}

// History lists the kept generations, newest first: the present one and up to ten before it. A
// generation that was private stays private.
func (c *Controller) History(ctx context.Context, caller identity.Caller, service, clusterID string) ([]Generation, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	p, err := c.state.FindWithResult(caller, service, clusterID)
	if err != nil {
		return nil, err
	}
	items, _, err := c.store.List(ctx, record.HistoryPrefix+p.UID+"/")
	if err != nil {
		return nil, fault.Crossing(err)
	}
	out := []Generation{}
	for _, kv := range items {
		g, _, err := c.generationOf(ctx, kv)
		if errors.Is(err, store.ErrNotFound) {
			continue // it is kept no more since it was listed
		}
		if err != nil {
			return nil, fault.Crossing(err)
		}
		// A generation that waits for votes is not listed yet.
		if g.Generation <= p.Rec.Generation && caller.MayRead(p.Rec.Owner, g.Service.Visibility, allowedUsers(g.Service)) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b Generation) int { return cmp.Compare(b.Generation, a.Generation) })
	return out, nil
}

// generationOf reads one generation, and what its replicas share of it.
func (c *Controller) generationOf(ctx context.Context, kv store.KV) (Generation, *shared, error) {
	h, err := store.Decode[record.History](kv)
	if err != nil {
		return Generation{}, nil, err
	}
	ref := record.ParseKey(kv.Key)
	n, err := strconv.ParseInt(ref.Rest, 10, 64)
	if err != nil {
		return Generation{}, nil, &store.CorruptError{Key: kv.Key, Err: err}
	}
	s, known, err := submitted(ctx, c.store.Get, ref.Name, h)
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrUnavailable) {
			err = &store.CorruptError{Key: kv.Key, Err: err}
		}
		return Generation{}, nil, err
	}
	return Generation{Generation: n, By: h.By, RequestID: h.RequestID, ChangedAt: h.ChangedAt.Time, Service: s}, known, nil
}

// Rollback makes an older generation's definition the next one, in one change. The
// secrets are the present ones: older ones are not kept.
func (c *Controller) Rollback(ctx context.Context, caller identity.Caller, service, clusterID string, generation int64, req ChangeRequest) (*ChangeResult, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	p, err := c.state.FindWithResult(caller, service, clusterID)
	if err != nil {
		return nil, err
	}
	if !p.Rec.Phase.Result() && !caller.MayChange(p.Rec.Owner) {
		return nil, othersService(service)
	}
	if r, err := c.requests.Repeated(ctx, request.ClaimOf(caller, req.Repeat, req.RequestID)); err != nil || r != nil {
		// The generation may be kept no more since the request was accepted.
		ch := Change{Caller: caller, Service: p.Rec.Coordinator().ServiceName, Wait: req.Wait, Claim: request.ClaimOf(caller, req.Repeat, req.RequestID)}
		if err != nil {
			return nil, fault.Crossing(err)
		}
		res, err := c.again(ctx, ch, r, req.Wait)
		return res, fault.Crossing(err)
	}
	kv, err := c.store.Get(ctx, record.HistoryKey(p.UID, generation))
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.NotFound(fmt.Sprintf("generation %d of %q is not kept; history lists those that are", generation, service))
	}
	if err != nil {
		return nil, fault.Crossing(err)
	}
	g, _, err := c.generationOf(ctx, kv)
	if err != nil {
		return nil, fault.Crossing(err)
	}
	if g.Service.ClusterID == "" {
		g.Service.ClusterID = p.Rec.Coordinator().ClusterID
	}
	req.Service = g.Service
	return c.replace(ctx, caller, req, generation)
}
