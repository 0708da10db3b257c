package server

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/runs"
)

// Resources are the use cases of what a user has at the OSCARs of clusters: buckets, volumes,
// quotas and usage.
type Resources interface {
	// Buckets and Volumes are those on all of the caller's clusters, and why some are missing.
	Buckets(ctx context.Context, caller identity.Caller, cluster string) ([]v1.Bucket, []string, error)
	Volumes(ctx context.Context, caller identity.Caller, cluster string) ([]v1.Volume, []string, error)
	// Forward asks one cluster.
	Forward(ctx context.Context, caller identity.Caller, in runs.ForwardRequest) (*runs.ForwardAnswer, error)
}

// routesOfResources are OSCAR's own paths that the OSCARs of clusters answer: v1.ForwardRoutes.
func (s *Server) routesOfResources(r chi.Router) {
	for _, route := range v1.ForwardRoutes() {
		handler := s.forward(route)
		switch {
		case route.Method != http.MethodGet:
		case route.Path == v1.BucketsRoute().Path:
			handler = listOf(s.cp.Storage.Buckets)
		case route.Path == v1.VolumesRoute().Path:
			handler = listOf(s.cp.Storage.Volumes)
		}
		r.Method(route.Method, "/system"+route.Path, s.handle(handler))
	}
}

// listOf answers the sum over the caller's clusters.
func listOf[T any](list func(ctx context.Context, caller identity.Caller, cluster string) ([]T, []string, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		out, missing, err := list(r.Context(), respond.StateOf(r).Caller, r.URL.Query().Get("cluster_id"))
		if err != nil {
			return err
		}
		tellMissing(w.Header(), missing)
		return respond.OSCAR(w, out)
	}
}

// forward answers what one cluster's OSCAR answers.
func (s *Server) forward(route v1.ForwardRoute) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		query := r.URL.Query()
		in := runs.ForwardRequest{Route: route, ClusterID: query.Get("cluster_id"), Query: query}
		if route.Named() {
			in.Name = pathParam(r, "name")
		}
		if route.Body {
			body, err := readBody(r)
			switch {
			case err != nil:
				return err
			case len(body) > v1.MaxForwardBody:
				return respond.Errorf(fault.CodeTooLarge, "the body is larger than the limit of %d bytes", v1.MaxForwardBody)
			}
			in.Body = body
		}
		out, err := s.cp.Storage.Forward(r.Context(), respond.StateOf(r).Caller, in)
		if err != nil {
			return err
		}
		respond.StateOf(r).Passed = true
		w.Header().Set(clusterHeader, out.ClusterID)
		if len(out.Body) == 0 {
			w.WriteHeader(out.Status)
			return nil
		}
		respond.Body(w, out.Status, out.MediaType, out.Body)
		return nil
	}
}
