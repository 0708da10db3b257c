package server

import (
	"archive/tar"
	"context"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

const (
	supportRoute = "/system/support"
	// supportTimeout bounds the collection.
	supportTimeout = 5 * time.Minute
)

// Support is the use case that collects what is given to who helps.
type Support interface {
	// Files calls add with each file, until it fails.
	Files(ctx context.Context, caller identity.Caller, add func(name string, data []byte) error) error
}

// getSupport answers GET /system/support: an archive of what the instance that answers knows.
func (s *Server) getSupport(w http.ResponseWriter, r *http.Request) error {
	begun := false
	out := tar.NewWriter(w)
	err := s.cp.Support.Files(r.Context(), respond.StateOf(r).Caller, func(name string, data []byte) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", v1.SupportType)
		}
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: s.cfg.Now().Truncate(time.Second)}); err != nil {
			return err
		}
		_, err := out.Write(data)
		return err
	})
	if err == nil {
		err = out.Close()
	}
	if err != nil && begun {
		s.log.Warn("an archive for support was broken off", "request_id", respond.StateOf(r).ID, "error", err)
		panic(http.ErrAbortHandler) // it is not taken for a whole one
	}
	return err
}

// Upgrades is the use case that ends an upgrade.
type Upgrades interface {
	FinishUpgrade(ctx context.Context, caller identity.Caller) (*v1.Upgrade, error)
}

// finishUpgrade answers POST /system/upgrade/finish.
func (s *Server) finishUpgrade(w http.ResponseWriter, r *http.Request) error {
	out, err := s.cp.Upgrades.FinishUpgrade(r.Context(), respond.StateOf(r).Caller)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, out)
}
