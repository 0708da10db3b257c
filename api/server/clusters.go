package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

// Clusters are the use cases of registered clusters.
type Clusters interface {
	Register(ctx context.Context, caller identity.Caller, spec clusters.Spec) (*clusters.Cluster, error)
	Update(ctx context.Context, caller identity.Caller, spec clusters.Spec) (*clusters.Cluster, error)
	List(ctx context.Context, caller identity.Caller, q listing.Query) (*listing.Page[*clusters.Cluster], error)
	Get(ctx context.Context, caller identity.Caller, id string) (*clusters.Cluster, error)
	Remove(ctx context.Context, caller identity.Caller, id string, opts clusters.RemoveOptions) (*clusters.RemoveResult, error)
	SetState(ctx context.Context, caller identity.Caller, id, state string) (*clusters.Cluster, error)
	Readmit(ctx context.Context, caller identity.Caller, id string) (*clusters.Cluster, error)
	Capacities(ctx context.Context, caller identity.Caller) (clusters.Capacities, error)
}

func clusterPath(id string) string { return "/system/clusters/" + url.PathEscape(id) }

// listClusters answers GET /system/clusters: one page with ?limit=, else all.
func (s *Server) listClusters(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	q := p.listQuery()
	q.Phases = p.anyOf("state", v1.ClusterStates())
	if err := p.err(); err != nil {
		return err
	}
	page, err := s.cp.Clusters.List(r.Context(), respond.StateOf(r).Caller, q)
	if err != nil {
		return err
	}
	return writePage(s, w, r, &listWriter{w: w}, page, func(c *clusters.Cluster) (any, error) { return c.Cluster, nil })
}

// getCluster answers GET /system/clusters/{cluster}.
func (s *Server) getCluster(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cp.Clusters.Get(r.Context(), respond.StateOf(r).Caller, pathParam(r, "cluster"))
	if err != nil {
		return err
	}
	return writeCluster(w, http.StatusOK, c)
}

// writeCluster answers with a registration and its ETag.
func writeCluster(w http.ResponseWriter, status int, c *clusters.Cluster) error {
	w.Header().Set("ETag", etag(c.Revision))
	return respond.JSON(w, status, c.Cluster)
}

// registerCluster answers POST /system/clusters.
func (s *Server) registerCluster(w http.ResponseWriter, r *http.Request) error {
	spec, err := readCluster(r)
	if err != nil {
		return err
	}
	respond.StateOf(r).Location = clusterPath(spec.ClusterID)
	c, err := s.cp.Clusters.Register(r.Context(), respond.StateOf(r).Caller, *spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", clusterPath(c.ClusterID))
	return writeCluster(w, http.StatusCreated, c)
}

// updateCluster answers PUT /system/clusters/{cluster}: the whole specification
// is replaced. What GET answers may be sent back; its computed fields say nothing.
func (s *Server) updateCluster(w http.ResponseWriter, r *http.Request) error {
	spec, err := readCluster(r)
	if err != nil {
		return err
	}
	switch id := pathParam(r, "cluster"); spec.ClusterID {
	case "":
		spec.ClusterID = id
	case id:
	default:
		return fault.Invalid(oscar.Violation{
			Path: "cluster_id", Rule: oscar.RuleOneOf, Value: spec.ClusterID,
			Message: fmt.Sprintf("the path names %q; a cluster is not renamed: leave cluster_id out or give the same", id),
		})
	}
	p := paramsOf(r)
	if spec.IfMatch, err = p.ifMatch(); err != nil {
		return err
	}
	if err := p.err(); err != nil {
		return err
	}
	respond.StateOf(r).Location = clusterPath(spec.ClusterID)
	c, err := s.cp.Clusters.Update(r.Context(), respond.StateOf(r).Caller, *spec)
	if err != nil {
		return err
	}
	return writeCluster(w, http.StatusOK, c)
}

// removeCluster answers DELETE /system/clusters/{cluster}: 204 once the cluster is
// removed, 202 with what it still waits for when the wait ends before.
func (s *Server) removeCluster(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	opts := clusters.RemoveOptions{
		Orphan: p.yes("orphan"), Force: p.yes("force"), Wait: p.wait(min(updateWait, s.cfg.DefaultWait)), RequestID: respond.StateOf(r).WriteID,
	}
	var err error
	if opts.IfMatch, err = p.ifMatch(); err != nil {
		return err
	}
	if err := p.err(); err != nil {
		return err
	}
	if preferencesOf(r).async {
		opts.Wait = 0
	}
	respond.StateOf(r).Location = clusterPath(pathParam(r, "cluster"))
	res, err := s.cp.Clusters.Remove(r.Context(), respond.StateOf(r).Caller, pathParam(r, "cluster"), opts)
	if err != nil {
		return err
	}
	w.Header().Set(pendingHeader, strconv.Itoa(res.Pending))
	if res.Cluster != nil {
		return respond.JSON(w, http.StatusAccepted, res.Cluster.Cluster)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// setClusterState answers PUT /system/clusters/{cluster}/state.
func (s *Server) setClusterState(w http.ResponseWriter, r *http.Request) error {
	var in v1.ClusterState
	if _, err := readJSON(r, "cluster", &in); err != nil {
		return err
	}
	caller, id := respond.StateOf(r).Caller, pathParam(r, "cluster")
	respond.StateOf(r).Location = clusterPath(id)
	var c *clusters.Cluster
	var err error
	switch {
	case !in.Readmit:
		c, err = s.cp.Clusters.SetState(r.Context(), caller, id, in.State)
	case in.State != v1.ClusterActive:
		return fault.Invalid(oscar.Violation{Path: "readmit", Rule: oscar.RuleOneOf, Value: in.State, Message: "readmit goes with state active; a cluster that was paused or cordoned is so again"})
	default:
		c, err = s.cp.Clusters.Readmit(r.Context(), caller, id)
	}
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, c.Cluster)
}

// readJSON reads a small object from the body, and the body; noun says what it is
// about.
func readJSON(r *http.Request, noun string, into any) ([]byte, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	respond.StateOf(r).Noun = noun
	if err := json.Unmarshal(body, into); err != nil {
		return nil, fault.Invalid(jsonViolation(err))
	}
	return body, nil
}

// readCluster reads a cluster's specification from the body. It checks its form
// only: what a cluster may be is the control plane's to say.
func readCluster(r *http.Request) (*clusters.Spec, error) {
	var in v1.ClusterSpec
	body, err := readJSON(r, "cluster", &in)
	if err != nil {
		return nil, err
	}
	if err := knownOfCluster(body); err != nil {
		return nil, err
	}
	return &clusters.Spec{
		ClusterID:     in.ClusterID,
		Endpoint:      in.Endpoint,
		SSLVerify:     in.SSLVerify == nil || *in.SSLVerify,
		Labels:        in.Labels,
		AllowedGroups: in.AllowedGroups,
	}, nil
}

// knownOfCluster refuses keys that no cluster has: without allowed_groups, misspelt, a cluster lets everybody in.
// What GET answers may be sent back.
func knownOfCluster(body []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return fault.Invalid(jsonViolation(err))
	}
	known := keysOf(reflect.TypeFor[v1.Cluster]())
	settable := keysOf(reflect.TypeFor[v1.ClusterSpec]())
	var vs []oscar.Violation
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(known, func(name string) bool { return strings.EqualFold(name, key) }) {
			vs = append(vs, oscar.Violation{
				Path: respond.Cut(key, 40), Rule: oscar.RuleOneOf,
				Message: fmt.Sprintf("a cluster has no %q%s", respond.Cut(key, 40), suggest.Words(key, settable)),
			})
		}
	}
	if len(vs) > 0 {
		return fault.Invalid(oscar.LimitViolations(vs)...)
	}
	return nil
}

// keysOf are the JSON keys of a struct.
func keysOf(t reflect.Type) []string {
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// jsonViolation says what encoding/json did not like.
func jsonViolation(err error) oscar.Violation {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return oscar.Violation{
			Path: wrong.Field, Rule: oscar.RuleType,
			Message: fmt.Sprintf("a JSON %s stands where %s belongs", wrong.Value, jsonWord(wrong.Type)),
		}
	}
	message := err.Error()
	if errors.Is(err, io.EOF) {
		message = "the body is empty"
	}
	return oscar.Violation{Rule: oscar.RuleType, Message: message}
}

// jsonWord is what JSON calls the values of a type.
func jsonWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Pointer:
		return jsonWord(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	}
	return "a number"
}
