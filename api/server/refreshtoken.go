package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
)

// Tokens are the use cases of the refresh token of a federation's owner.
type Tokens interface {
	// ServiceCaller is who shows the own token of a service of that name; the error is
	// identity.ErrUnauthenticated (wrapped) when it is not one.
	ServiceCaller(ctx context.Context, service, token string) (identity.Caller, error)
	RefreshToken(ctx context.Context, caller identity.Caller, service, clusterID string) (*v1.RefreshTokenStatus, error)
	GiveRefreshToken(ctx context.Context, caller identity.Caller, service string, req tokens.RefreshTokenRequest) (*v1.RefreshTokenStatus, error)
	DropRefreshToken(ctx context.Context, caller identity.Caller, service, clusterID, requestID string) (*v1.RefreshTokenStatus, error)
}

const refreshTokenRoute = replicasRoute + "/refresh-token"

// maxTokenBody is what a refresh token may have around it, in bytes: line breaks.
const maxTokenBody = tokens.MaxRefreshToken + 16

// getRefreshToken answers GET /system/replicas/{service}/refresh-token.
func (s *Server) getRefreshToken(w http.ResponseWriter, r *http.Request) error {
	status, err := s.cp.Tokens.RefreshToken(r.Context(), respond.StateOf(r).Caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id"))
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, status)
}

// putRefreshToken answers PUT /system/replicas/{service}/refresh-token. The body is the
// token and nothing else, whatever its media type.
func (s *Server) putRefreshToken(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenBody)
	body, err := readBody(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	st := respond.StateOf(r)
	st.Noun, st.Location = "refresh token", r.URL.Path
	status, err := s.cp.Tokens.GiveRefreshToken(r.Context(), st.Caller, pathParam(r, "service"), tokens.RefreshTokenRequest{
		ClusterID: q.Get("cluster_id"), Token: strings.TrimSpace(string(body)), Issuer: q.Get("issuer"), Client: q.Get("client_id"), RequestID: st.WriteID,
	})
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusAccepted, status)
}

// deleteRefreshToken answers DELETE /system/replicas/{service}/refresh-token.
func (s *Server) deleteRefreshToken(w http.ResponseWriter, r *http.Request) error {
	st := respond.StateOf(r)
	st.Location = r.URL.Path
	status, err := s.cp.Tokens.DropRefreshToken(r.Context(), st.Caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id"), st.WriteID)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusAccepted, status)
}
