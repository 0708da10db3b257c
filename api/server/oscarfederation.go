package server

import (
	"bytes"
	"net/http"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// The path /system/federation/{service} is OSCAR's own. Its answers are in
// OSCAR's exact form, and its requests are taken in every form that OSCAR's
// clients have sent over time; what they ask for is the same change as through
// /system/replicas.

// getMembers answers GET /system/federation/{service}.
func (s *Server) getMembers(w http.ResponseWriter, r *http.Request) error {
	view, err := s.cp.Federations.Replicas(r.Context(), respond.StateOf(r).Caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id"))
	if err != nil {
		return err
	}
	return writeMembers(w, view)
}

// addMembers answers POST /system/federation/{service}.
func (s *Server) addMembers(w http.ResponseWriter, r *http.Request) error {
	return s.changeFederation(w, r, func(_ *params, body []byte, req *federations.ReplicasRequest) error {
		in, err := readFederation(body)
		if err != nil {
			return err
		}
		in.validate()
		req.Add, req.List = in.first, in.name
		return s.checkClusters(r.Context(), respond.StateOf(r).Caller, in, namedList{in.name, in.first})
	})
}

// replaceMembers answers PUT /system/federation/{service}. Without both lists it
// changes nothing, as upstream.
func (s *Server) replaceMembers(w http.ResponseWriter, r *http.Request) error {
	return s.changeFederation(w, r, func(_ *params, body []byte, req *federations.ReplicasRequest) error {
		in, err := readFederation(body)
		if err != nil {
			return err
		}
		in.validate()
		req.Replace, req.List = in.replacements(), in.toList()
		return s.checkClusters(r.Context(), respond.StateOf(r).Caller, in, in.wanted()...)
	})
}

// removeMembers answers DELETE /system/federation/{service}. Without a body, or
// with no members in it, all go: that is what OSCAR's clients mean by it. What
// "delete" asks for happens anyway to the members' services, and to nothing else.
func (s *Server) removeMembers(w http.ResponseWriter, r *http.Request) error {
	return s.changeFederation(w, r, func(_ *params, body []byte, req *federations.ReplicasRequest) error {
		in := &memberLists{name: "members"}
		if len(bytes.TrimSpace(body)) > 0 {
			in = readMemberLists(body, "members", true)
		}
		in.validateRemoval()
		req.Remove, req.RemoveAll = in.first, len(in.first) == 0
		return s.checkClusters(r.Context(), respond.StateOf(r).Caller, in)
	})
}

// readFederation reads the lists of a POST or PUT in any of their forms.
func readFederation(body []byte) (*memberLists, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, fault.Invalid(oscar.Violation{Rule: oscar.RuleRequired, Message: "EOF"})
	}
	return readMemberLists(body, "members", true), nil
}

func (s *Server) changeFederation(w http.ResponseWriter, r *http.Request, fill func(*params, []byte, *federations.ReplicasRequest) error) error {
	respond.StateOf(r).Noun = "payload"
	result, err := s.changeMembers(r, fill)
	if err != nil {
		return err
	}
	replayed(w.Header(), result.Replayed)
	return writeMembers(w, &result.Replicas)
}

// writeMembers answers as OSCAR does: tree is its star, no members are null, and every key of a
// member is there.
func writeMembers(w http.ResponseWriter, view *view.Replicas) error {
	out := v1.Members{Topology: view.Topology}
	if view.Topology == oscar.TopologyTree {
		out.Topology = oscar.TopologyStar
	}
	for _, i := range view.Sees {
		m, ok := view.Member(i)
		if !ok {
			continue
		}
		out.Members = append(out.Members, v1.Member{
			Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, URL: m.URL,
			SSLVerify: sslVerify(m), Priority: m.Priority,
		})
	}
	w.Header().Set("ETag", etag(view.Revision))
	return respond.OSCAR(w, out)
}

// sslVerify is what a member's key says when it is not given: false, as OSCAR
// shows it, but for an endpoint, whose certificate is checked then.
func sslVerify(m view.Replica) bool {
	if m.SSLVerify == nil {
		return m.Type == oscar.MemberEndpoint
	}
	return *m.SSLVerify
}
