package server

import (
	"net/http"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
)

// history answers GET /system/replicas/{service}/history: the generations that are
// kept, newest first.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	list, err := s.cp.Federations.History(r.Context(), respond.StateOf(r).Caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id"))
	if err != nil {
		return err
	}
	out := []v1.Generation{}
	for _, g := range list {
		service, err := g.Service.MarshalJSON()
		if err != nil {
			return err
		}
		out = append(out, v1.Generation{
			Generation: g.Generation, By: g.By, RequestID: g.RequestID, ChangedAt: v1.Time{Time: g.ChangedAt}, Service: service,
		})
	}
	return respond.JSON(w, http.StatusOK, out)
}

// rollback answers POST /system/replicas/{service}/rollback: the definition of an
// older generation becomes the next one, in one change.
func (s *Server) rollback(w http.ResponseWriter, r *http.Request) error {
	st, p := respond.StateOf(r), paramsOf(r)
	req := federations.ChangeRequest{RequestID: st.WriteID, Wait: p.wait(min(updateWait, s.cfg.DefaultWait))}
	var err error
	if req.IfMatch, err = p.ifMatch(); err != nil {
		return err
	}
	if err := p.err(); err != nil {
		return err
	}
	var in v1.RollbackTo
	body, err := readJSON(r, "rollback", &in)
	if err != nil {
		return err
	}
	req.Repeat = p.repeat(body)
	if err := p.err(); err != nil {
		return err
	}
	if in.To < 1 {
		return fault.Invalid(oscar.Violation{Path: "to", Rule: oscar.RuleRequired, Message: "say which generation: a number from 1; history lists those that are kept"})
	}
	service := pathParam(r, "service")
	st.Change, st.Location = true, respond.ReplicasPath(service)
	result, err := s.cp.Federations.Rollback(r.Context(), st.Caller, service, r.URL.Query().Get("cluster_id"), in.To, req)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(result.Replicas.Revision))
	replayed(w.Header(), result.Replayed)
	return respond.JSON(w, http.StatusOK, result.Replicas.Wire(s.cfg.Now()))
}

// rotateToken answers POST /system/replicas/{service}/rotate-token: the services of the
// federation get other tokens for the control plane.
func (s *Server) rotateToken(w http.ResponseWriter, r *http.Request) error {
	st, p := respond.StateOf(r), paramsOf(r)
	repeat := p.repeat(nil)
	if err := p.err(); err != nil {
		return err
	}
	st.Location = respond.ReplicasPath(pathParam(r, "service"))
	result, err := s.cp.Federations.RotateToken(r.Context(), st.Caller, pathParam(r, "service"), p.query.Get("cluster_id"), st.WriteID, repeat)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(result.Replicas.Revision))
	replayed(w.Header(), result.Replayed)
	return respond.JSON(w, http.StatusOK, result.Replicas.Wire(s.cfg.Now()))
}

// pause answers PUT /system/replicas/{service}/paused.
func (s *Server) pause(w http.ResponseWriter, r *http.Request) error {
	var in v1.Paused
	if _, err := readJSON(r, "pause", &in); err != nil {
		return err
	}
	if in.Paused == nil {
		return fault.Invalid(oscar.Violation{Path: "paused", Rule: oscar.RuleRequired, Message: "paused is missing; say true or false"})
	}
	st := respond.StateOf(r)
	st.Location = respond.ReplicasPath(pathParam(r, "service"))
	view, err := s.cp.Federations.Pause(r.Context(), st.Caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id"), st.WriteID, *in.Paused)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(view.Revision))
	return respond.JSON(w, http.StatusOK, view.Wire(s.cfg.Now()))
}
