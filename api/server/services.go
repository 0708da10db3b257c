package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
)

// Services are the use cases of OSCAR's service paths.
type Services interface {
	CreateService(ctx context.Context, caller identity.Caller, req federations.CreateRequest) (*federations.CreateResult, error)
	// CreateServices makes several services, all or none.
	CreateServices(ctx context.Context, caller identity.Caller, req federations.BatchRequest) (*federations.BatchResult, error)
	DeleteService(ctx context.Context, caller identity.Caller, service string, opts federations.DeleteOptions) (*federations.DeleteResult, error)
	// Services are told one after another: all of them may be much.
	Services(ctx context.Context, caller identity.Caller, q listing.Query, deployments bool) (*listing.Page[federations.ListedService], error)
	// Service comes with the revision of its federation, which is its ETag.
	Service(ctx context.Context, caller identity.Caller, name, clusterID string) (*oscar.Service, int64, error)
	ChangeService(ctx context.Context, caller identity.Caller, req federations.ChangeRequest) (*federations.ChangeResult, error)
}

// listServices answers GET /system/services: one page with ?limit=, else all.
func (s *Server) listServices(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	q := p.ownedQuery(v1.Phases())
	if err := p.err(); err != nil {
		return err
	}
	page, err := s.cp.Services.Services(r.Context(), respond.StateOf(r).Caller, q, wantsDeployment(r))
	if err != nil {
		return err
	}
	return writePage(s, w, r, &listWriter{w: w, oscar: true}, page, func(one federations.ListedService) (any, error) {
		if one.Deployment == nil {
			return one.Service, nil
		}
		var err error
		one.Service.Deployment, err = json.Marshal(summaryOf(*one.Deployment))
		return one.Service, err
	})
}

// getService answers GET /system/services/{service}.
func (s *Server) getService(w http.ResponseWriter, r *http.Request) error {
	service, revision, err := s.cp.Services.Service(r.Context(), respond.StateOf(r).Caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id"))
	if err != nil {
		return err
	}
	if wantsDeployment(r) {
		view, err := s.deploymentOf(r)
		if err != nil {
			return err
		}
		if service.Deployment, err = json.Marshal(summaryIn(view)); err != nil {
			return err
		}
	}
	w.Header().Set("ETag", etag(revision))
	return respond.OSCAR(w, service)
}

// createService answers POST /system/services: 201 when every replica is ready,
// 202 when the caller does not wait.
func (s *Server) createService(w http.ResponseWriter, r *http.Request) error {
	st, p, prefer := respond.StateOf(r), paramsOf(r), preferencesOf(r)
	req := federations.CreateRequest{
		IdempotencyKey: p.idempotencyKey(),
		RequestID:      st.WriteID,
		Deployment:     p.oneOf("deployment", "transactional", "best-effort"),
		Plan:           p.plan(),
		Wait:           p.wait(s.cfg.DefaultWait),
	}
	if prefer.async {
		req.Wait = 0
	}
	if err := p.err(); err != nil {
		return err
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	service, err := parseService(w, r, body)
	if err != nil {
		return err
	}
	req.Service, req.Body = service, body
	if service.ClusterID == "" {
		req.ClusterID = p.query.Get("cluster_id")
	}
	name := service.Name
	st.Location = respond.ReplicasPath(name)
	result, err := s.cp.Services.CreateService(r.Context(), st.Caller, req)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Location", respond.ReplicasPath(name))
	replayed(h, result.Replayed)
	code := http.StatusCreated
	if !result.Done {
		code = http.StatusAccepted
		if prefer.async {
			h.Add("Preference-Applied", "respond-async")
		}
	}
	switch {
	case prefer.representation:
		h.Add("Preference-Applied", "return=representation")
		h.Set("ETag", etag(result.Federation.Revision))
		return respond.JSON(w, code, result.Replicas().Wire(s.cfg.Now()))
	case len(result.Away) > 0:
		respond.Text(w, code, awayText(result))
	default:
		w.WriteHeader(code)
	}
	return nil
}

// awayText lists the replicas that a best-effort creation is still waiting for.
func awayText(result *federations.CreateResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Created; %d of %d replicas are not ready:", len(result.Away), len(result.Federation.Members))
	for _, m := range result.Away {
		b.WriteString("\n" + m.Name())
		if m.Status == nil {
			continue
		}
		b.WriteString(": " + string(m.Status.Phase))
		if m.Status.Message != "" {
			b.WriteString(": " + m.Status.Message)
		}
	}
	return b.String()
}

// deleteService answers DELETE /system/services/{service}: 204 once the order is
// committed, with the number of replicas that have not acknowledged it.
func (s *Server) deleteService(w http.ResponseWriter, r *http.Request) error {
	st, p := respond.StateOf(r), paramsOf(r)
	opts := federations.DeleteOptions{
		ClusterID: p.query.Get("cluster_id"),
		RequestID: st.WriteID,
		Data:      p.oneOf("data", "delete"),
		Jobs:      p.oneOf("jobs", "cancel"),
		Wait:      p.wait(0),
		Repeat:    p.repeat(nil),
	}
	if preferencesOf(r).async {
		opts.Wait = 0
	}
	var err error
	if opts.IfMatch, err = p.ifMatch(); err != nil {
		return err
	}
	if err := p.err(); err != nil {
		return err
	}
	st.Change, st.Location = true, respond.ReplicasPath(pathParam(r, "service"))
	result, err := s.cp.Services.DeleteService(r.Context(), st.Caller, pathParam(r, "service"), opts)
	if err != nil {
		return err
	}
	replayed(w.Header(), result.Replayed)
	w.Header().Set(pendingHeader, strconv.Itoa(result.Pending))
	if preferencesOf(r).representation {
		w.Header().Add("Preference-Applied", "return=representation")
		return respond.JSON(w, http.StatusOK, v1.Deletion{Pending: result.Pending, Replicas: append([]v1.DeletedReplica{}, result.Replicas...)})
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// etag is the revision of a record as an entity tag.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }
