package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// Tokens are the use cases of the refresh token of a federation's owner.
type Tokens interface {
	// ServiceCaller is who shows the own token of a service of that name; the error is
	// identity.ErrUnauthenticated (wrapped) when it is not one.
	ServiceCaller(ctx context.Context, service, token string) (identity.Caller, error)
	RefreshToken(ctx context.Context, caller identity.Caller, service, clusterID string) (*tokens.RefreshTokenStatus, error)
	GiveRefreshToken(ctx context.Context, caller identity.Caller, service string, req tokens.RefreshTokenRequest) (*tokens.RefreshTokenStatus, error)
	DropRefreshToken(ctx context.Context, caller identity.Caller, service, clusterID, requestID string) (*tokens.RefreshTokenStatus, error)
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
	return respond.JSON(w, http.StatusOK, refreshTokenStatusOf(status, time.Now()))
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
	return respond.JSON(w, http.StatusAccepted, refreshTokenStatusOf(status, time.Now()))
}

// deleteRefreshToken answers DELETE /system/replicas/{service}/refresh-token.
func (s *Server) deleteRefreshToken(w http.ResponseWriter, r *http.Request) error {
	st := respond.StateOf(r)
	st.Location = r.URL.Path
	status, err := s.cp.Tokens.DropRefreshToken(r.Context(), st.Caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id"), st.WriteID)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusAccepted, refreshTokenStatusOf(status, time.Now()))
}

func refreshTokenStatusOf(s *tokens.RefreshTokenStatus, now time.Time) v1.RefreshTokenStatus {
	out := v1.RefreshTokenStatus{GroupID: s.GroupID, UID: s.UID, Token: *refreshTokenOf(&s.RefreshToken, now), Members: []v1.MemberToken{}}
	for _, m := range s.Members {
		out.Members = append(out.Members, v1.MemberToken{
			ClusterID: m.ClusterID, ServiceName: m.ServiceName, State: m.State, Reason: string(m.Reason), Message: m.Message, Expires: momentOf(m.Expires),
		})
	}
	return out
}

// refreshTokenOf is nil for nil.
func refreshTokenOf(t *view.RefreshToken, now time.Time) *v1.RefreshToken {
	if t == nil {
		return nil
	}
	out := &v1.RefreshToken{
		State: t.State, Holder: t.Holder, Reason: string(t.Reason), Message: t.Message,
		GivenAt: momentOf(t.GivenAt), RenewedAt: momentOf(t.RenewedAt), Revoked: t.Revoked, Waiting: t.Waiting,
	}
	since := t.GivenAt
	if t.RenewedAt.After(since) {
		since = t.RenewedAt
	}
	if !since.IsZero() {
		out.AgeS = max(0, int64(now.Sub(since)/time.Second))
	}
	if !t.OldAt.IsZero() && now.After(t.OldAt) {
		out.Old = true
		if out.Message == "" {
			out.Message = "it is old: give another one, or delete it"
		}
	}
	return out
}

// momentOf is nil for the zero time.
func momentOf(t time.Time) *v1.Time {
	if t.IsZero() {
		return nil
	}
	return &v1.Time{Time: t}
}
