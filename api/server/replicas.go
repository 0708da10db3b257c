package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

const replicasRoute = "/system/replicas/{service}"

// listReplicas answers GET /system/replicas: one page with ?limit=, else all.
func (s *Server) listReplicas(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	q := p.ownedQuery(v1.Phases())
	if err := p.err(); err != nil {
		return err
	}
	page, err := s.cp.Federations.ReplicaStatuses(r.Context(), respond.StateOf(r).Caller, q)
	if err != nil {
		return err
	}
	return writePage(s, w, r, &listWriter{w: w}, page, func(one v1.ServiceStatus) (any, error) { return one, nil })
}

// getReplicas answers GET /system/replicas/{service}: the federation as that
// replica sees it; with ?wait= once nothing is under way there, or as it is when
// the wait ends. It never answers 304: a status may change while the record, and
// so the ETag, does not. With ?watch=true it answers with a stream of events.
func (s *Server) getReplicas(w http.ResponseWriter, r *http.Request) error {
	if watching(r) {
		return s.watchReplicas(w, r)
	}
	p := paramsOf(r)
	p.oneOf("watch", "true", "false") // true with HEAD: there are no events to see
	wait := p.wait(0)
	if err := p.err(); err != nil {
		return err
	}
	view, err := s.settledReplicas(r, wait)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(view.Revision))
	return respond.JSON(w, http.StatusOK, view.Wire(s.cfg.Now()))
}

// askAgain is after how long a request that waits asks whether the state is still that of the store.
const askAgain = time.Minute

// errSettled ends a watch.
var errSettled = errors.New("nothing is under way any more")

// settledReplicas follows a federation until nothing is under way there or the wait is over. What it
// gives was read as every other answer is: it is never of a store that was lost or restored meanwhile.
func (s *Server) settledReplicas(r *http.Request, wait time.Duration) (*view.Replicas, error) {
	caller, name, cluster := respond.StateOf(r).Caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id")
	over, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	for {
		now, err := s.cp.Federations.Replicas(r.Context(), caller, name, cluster)
		if err != nil || settled(now) || over.Err() != nil {
			return now, err
		}
		ctx, cancel := context.WithTimeout(over, askAgain)
		err = s.cp.Federations.WatchReplicas(ctx, caller, name, cluster, now.StreamRevision, func(next *view.Replicas) error {
			if settled(next) {
				return errSettled
			}
			return nil
		})
		ended := ctx.Err() != nil
		cancel()
		if !ended && !errors.Is(err, errSettled) {
			return nil, err
		}
	}
}

// settled says whether neither the federation nor a replica of it is on its way
// to another state.
func settled(view *view.Replicas) bool {
	if underWay(string(view.Phase)) {
		return false
	}
	for _, m := range view.Members {
		if m.Status != nil && underWay(string(m.Status.Phase)) {
			return false
		}
	}
	return true
}

func underWay(phase string) bool {
	switch phase {
	case v1.PhasePreparing, v1.PhaseApplying, v1.PhaseChanging, v1.PhaseRollingBack, v1.PhaseDeleting:
		return true
	}
	return false
}
