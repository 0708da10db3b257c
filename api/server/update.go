package server

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

// updateWait is how long PUT /system/services waits until the change is applied
// when the caller does not say. It is shorter than the 20 s after which OSCAR's
// own clients give up on any answer; the change goes on without them.
const updateWait = 10 * time.Second

// updateService answers PUT /system/services, a full replace: 204 when it is
// committed, 200 with a text that lists the replicas which are away or failed.
func (s *Server) updateService(w http.ResponseWriter, r *http.Request) error {
	st, p, prefer := respond.StateOf(r), paramsOf(r), preferencesOf(r)
	req := federations.ChangeRequest{RequestID: st.WriteID, Plan: p.plan(), Wait: p.wait(min(updateWait, s.cfg.DefaultWait))}
	if prefer.async {
		req.Wait = 0
	}
	var err error
	if req.IfMatch, err = p.ifMatch(); err != nil {
		return err
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	req.Repeat = p.repeat(body)
	if err := p.err(); err != nil {
		return err
	}
	if req.Service, err = parseService(w, r, body); err != nil {
		return err
	}
	if req.Service.ClusterID == "" {
		req.Service.ClusterID = p.query.Get("cluster_id")
	}
	st.Change, st.Location = true, respond.ReplicasPath(req.Service.Name)
	result, err := s.cp.Services.ChangeService(r.Context(), st.Caller, req)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("ETag", etag(result.Replicas.Revision))
	replayed(h, result.Replayed)
	if prefer.async {
		h.Add("Preference-Applied", "respond-async")
	}
	if prefer.representation {
		h.Add("Preference-Applied", "return=representation")
		return respond.JSON(w, http.StatusOK, result.Replicas.Wire(s.cfg.Now()))
	}
	if warnings := warningsOf(result.Away, req.Wait); warnings != "" {
		respond.Text(w, http.StatusOK, warnings)
		return nil
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// warningsOf tells in upstream's words of the replicas that have not applied a
// change; empty when there are none. Those that are still at work on it are among
// them only when the caller has waited for them: it is committed, and they have it.
func warningsOf(away []view.Replica, waited time.Duration) string {
	var list []string
	for _, m := range away {
		if m.Status == nil {
			continue
		}
		why, message := string(m.Status.Reason), m.Status.Message
		if atWork(string(m.Status.Phase)) {
			if waited == 0 {
				continue
			}
			why, message = string(m.Status.Phase), "not applied within "+waited.String()
			if m.Status.Message != "" && m.Status.Reason != applied {
				message += ": " + m.Status.Message
			}
		}
		one := m.Name() + ": " + cmp.Or(why, string(m.Status.Phase))
		if message != "" {
			one += ": " + message
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		return ""
	}
	return "Updated with federation warnings: [" + strings.Join(list, ", ") + "]"
}

// applied is the reason of a replica that has nothing to tell.
const applied = "Applied"

// atWork says whether a replica is on its way to what is desired by itself.
func atWork(phase string) bool {
	switch phase {
	case v1.PhasePending, v1.PhasePrepared, v1.PhaseReady:
		return true
	}
	return underWay(phase)
}

// replayed tells that an earlier request with the same key had this outcome.
func replayed(h http.Header, yes bool) {
	if yes {
		h.Set(replayedHeader, "true")
	}
}

// parseService reads a service definition.
func parseService(w http.ResponseWriter, r *http.Request, body []byte) (*oscar.Service, error) {
	respond.StateOf(r).Noun = "service"
	service, violations := readService(body)
	if len(violations) > 0 {
		return nil, fault.Invalid(oscar.LimitViolations(violations)...)
	}
	warnOfUnknown(w.Header(), service)
	return service, nil
}

// maxWarnings is of how many keys an answer warns.
const maxWarnings = 10

// warnOfUnknown names the keys of a definition that have no effect, since nothing knows them.
func warnOfUnknown(h http.Header, service *oscar.Service) {
	for i, u := range oscar.UnknownKeys(service) {
		if i == maxWarnings {
			break
		}
		text := u.Path + " is not known and has no effect" + suggest.Words(u.Key, u.Known)
		h.Add(warningHeader, "299 oscarfed "+strconv.QuoteToASCII(text))
	}
}

// readService reads a definition, or returns all violations of one that is readable but for some
// fields.
func readService(body []byte) (*oscar.Service, []oscar.Violation) {
	service, violations := oscar.ParseService(body)
	if len(violations) > 0 {
		if service != nil {
			violations = append(violations, oscar.Validate(service)...)
		}
		return nil, violations
	}
	service.DropState()
	if service.ClusterID == oscar.DefaultClusterKey {
		service.ClusterID = "" // as in an FDL: none is named
	}
	return service, nil
}
