package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/server/middleware"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// Joins are the use cases of syncers that join and renew their certificates.
type Joins interface {
	IssueJoin(ctx context.Context, caller identity.Caller, cluster string, replaceKey bool) (*v1.JoinToken, error)
	Join(ctx context.Context, req v1.Join) (*v1.Enrolment, error)
	Challenge() (string, time.Time, error)
	Renew(ctx context.Context, req v1.JoinRenewal) (*v1.Enrolment, error)
}

// maxJoin bounds the body of a request without credentials, in bytes: one has about 1 KiB.
const maxJoin = 16 << 10

// stranger guards the routes where a syncer proves its identity by the body alone. An address that
// was refused too often is limited until it pauses.
func (s *Server) stranger(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.limits.FailedTooOften(r) {
			s.fail(w, r, middleware.Exhausted("too many refused requests from this address"))
			return
		}
		if r.Body != nil {
			r.Body = http.MaxBytesReader(w, r.Body, maxJoin)
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Timeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// handleStranger counts what was refused against the address.
func (s *Server) handleStranger(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		err := h(w, r)
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.CodeForbidden {
			s.limits.Failed(w, r)
		}
		return err
	})
}

// issueJoin answers POST /system/clusters/{cluster}/join.
func (s *Server) issueJoin(w http.ResponseWriter, r *http.Request) error {
	var in v1.JoinRequest
	if _, err := readJSON(r, "request", &in); err != nil {
		return err
	}
	t, err := s.cp.Joins.IssueJoin(r.Context(), respond.StateOf(r).Caller, pathParam(r, "cluster"), in.ReplaceKey)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusCreated, t)
}

// join answers POST /system/join.
func (s *Server) join(w http.ResponseWriter, r *http.Request) error {
	var in v1.Join
	if _, err := readJSON(r, "request", &in); err != nil {
		return err
	}
	e, err := s.cp.Joins.Join(r.Context(), in)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, e)
}

// challenge answers POST /system/join/challenge.
func (s *Server) challenge(w http.ResponseWriter, _ *http.Request) error {
	text, until, err := s.cp.Joins.Challenge()
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, v1.JoinChallenge{Challenge: text, ExpiresAt: v1.Time{Time: until}})
}

// renew answers POST /system/join/renew.
func (s *Server) renew(w http.ResponseWriter, r *http.Request) error {
	var in v1.JoinRenewal
	if _, err := readJSON(r, "request", &in); err != nil {
		return err
	}
	e, err := s.cp.Joins.Renew(r.Context(), in)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, e)
}
