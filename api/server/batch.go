package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
)

// createServices answers POST /system/federations: the services of the body are created on all of
// their clusters, or none of them anywhere. 201 when every replica is ready, 202 when the caller
// does not wait.
func (s *Server) createServices(w http.ResponseWriter, r *http.Request) error {
	st, p, prefer := respond.StateOf(r), paramsOf(r), preferencesOf(r)
	req := federations.BatchRequest{IdempotencyKey: p.idempotencyKey(), RequestID: st.WriteID, Wait: p.wait(s.cfg.DefaultWait)}
	if prefer.async {
		req.Wait = 0
	}
	if err := p.err(); err != nil {
		return err
	}
	st.Noun, st.Location = "service", "/system/federations"
	var err error
	if req.Body, err = readBody(r); err != nil {
		return err
	}
	if req.Services, err = parseServices(req.Body); err != nil {
		return err
	}
	result, err := s.cp.Services.CreateServices(r.Context(), st.Caller, req)
	if err != nil {
		return err
	}
	replayed(w.Header(), result.Replayed)
	code := http.StatusCreated
	if !result.Done {
		code = http.StatusAccepted
		if prefer.async {
			w.Header().Add("Preference-Applied", "respond-async")
		}
	}
	out := make([]v1.Federation, len(result.Federations))
	for i := range result.Federations {
		out[i] = result.Federations[i].Wire(s.cfg.Now())
	}
	return respond.JSON(w, code, out)
}

// parseServices reads a list of definitions. The paths of violations begin with services[i].
func parseServices(body []byte) ([]*oscar.Service, error) {
	var in struct {
		Services []json.RawMessage `json:"services"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil || dec.More() {
		return nil, fault.Invalid(oscar.Violation{Rule: oscar.RuleType, Message: `the body is no JSON object with the field "services" alone`})
	}
	// A request that an older version has accepted may be sent again.
	if n := len(in.Services); n == 0 || n > oscar.MaxReplicas {
		return nil, fault.Invalid(oscar.Violation{
			Path: "services", Rule: oscar.RuleMaxMembers, Value: n, Message: fmt.Sprintf("there are %d services; name 1 to %d", n, oscar.MaxBatch),
		})
	}
	out := make([]*oscar.Service, len(in.Services))
	var violations []oscar.Violation
	for i, raw := range in.Services {
		service, wrong := readService(raw)
		for _, v := range wrong {
			if v.Path != "" {
				v.Path = "." + v.Path
			}
			v.Path = fmt.Sprintf("services[%d]%s", i, v.Path)
			violations = append(violations, v)
		}
		out[i] = service
	}
	if len(violations) > 0 {
		return nil, fault.Invalid(oscar.LimitViolations(violations)...)
	}
	return out, nil
}
