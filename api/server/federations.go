package server

import (
	"context"
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// Federations are the use cases that read federations and change their members.
type Federations interface {
	Replicas(ctx context.Context, caller identity.Caller, name, clusterID string) (*view.Replicas, error)
	// List gives one federation after another: all of them may be much.
	List(ctx context.Context, caller identity.Caller, q listing.Query) (*listing.Page[*view.Federation], error)
	// ReplicaStatuses are told one after another, too.
	ReplicaStatuses(ctx context.Context, caller identity.Caller, q listing.Query) (*listing.Page[v1.ServiceStatus], error)
	Get(ctx context.Context, caller identity.Caller, uidOrGroup string) (*view.Federation, error)
	Deleted(ctx context.Context, caller identity.Caller, groupID string) ([]v1.DeletedReplica, error)
	ChangeReplicas(ctx context.Context, caller identity.Caller, service string, req federations.ReplicasRequest) (*federations.ChangeResult, error)
	RotateToken(ctx context.Context, caller identity.Caller, service, clusterID, requestID string, repeat request.Repeat) (*federations.ChangeResult, error)
	Pause(ctx context.Context, caller identity.Caller, service, clusterID, requestID string, paused bool) (*view.Replicas, error)
	SetRunState(ctx context.Context, caller identity.Caller, in federations.RunStateRequest) error
	History(ctx context.Context, caller identity.Caller, service, clusterID string) ([]federations.Generation, error)
	Rollback(ctx context.Context, caller identity.Caller, service, clusterID string, generation int64, req federations.ChangeRequest) (*federations.ChangeResult, error)
	// WatchReplicas calls fn with the view when its store revision is above since,
	// and after each change of it, until ctx ends, fn fails, or the service is gone.
	WatchReplicas(ctx context.Context, caller identity.Caller, service, clusterID string, since int64, fn func(*view.Replicas) error) error
}

// listFederations answers GET /system/federations: one page with ?limit=, else all.
func (s *Server) listFederations(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	q := p.ownedQuery(v1.Phases())
	if err := p.err(); err != nil {
		return err
	}
	page, err := s.cp.Federations.List(r.Context(), respond.StateOf(r).Caller, q)
	if err != nil {
		return err
	}
	return writePage(s, w, r, &listWriter{w: w}, page, func(f *view.Federation) (any, error) { return f.Wire(s.cfg.Now()), nil })
}

// getFederation answers GET /system/federations/{uid or group_id}.
func (s *Server) getFederation(w http.ResponseWriter, r *http.Request) error {
	f, err := s.cp.Federations.Get(r.Context(), respond.StateOf(r).Caller, pathParam(r, "federation"))
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(f.Revision))
	return respond.JSON(w, http.StatusOK, f.Wire(s.cfg.Now()))
}

// listDeleted answers GET /system/deleted: the caller's replicas that were deleted
// in the last 90 days, those that wait for their clusters first.
func (s *Server) listDeleted(w http.ResponseWriter, r *http.Request) error {
	list, err := s.cp.Federations.Deleted(r.Context(), respond.StateOf(r).Caller, r.URL.Query().Get("group_id"))
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, list)
}
