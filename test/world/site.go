package world

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// Site is the machine of one cluster: a simulated OSCAR, and what outlives its syncers.
type Site struct {
	ID       string
	Sim      *oscarsim.Sim
	identity *seal.Identity
	// Vault has the refresh tokens of its syncers.
	Vault token.Memory
}

// NewSite makes an OSCAR, and the key of its syncers. It has a serverless backend, as OSCAR's own installations do.
func NewSite(cfg oscarsim.Config) (*Site, error) {
	identity, err := seal.Generate()
	if err != nil {
		return nil, err
	}
	if cfg.Function == nil {
		cfg.Function = http.HandlerFunc(oscarsim.Echo)
	}
	return &Site{ID: cfg.ClusterID, Sim: oscarsim.New(cfg), identity: identity}, nil
}

// Recipient is the public key that secrets for the cluster are sealed to.
func (s *Site) Recipient() string { return s.identity.Recipient() }

// SiteSyncer is a syncer that was started with a store of its own.
type SiteSyncer struct {
	*syncer.Syncer
	task  *Task
	store *store.Store
	oscar *manager.Client
}

// StartSyncer starts a syncer that reaches etcd and its OSCAR as it is told, and exchanges refresh tokens
// at issuers. It logs nothing. Its caller ends it by Stop, or by the end of ctx and Stop.
func (s *Site) StartSyncer(ctx context.Context, etcd store.Config, oscar http.RoundTripper, passwordFile string, issuers ...token.Issuer) (*SiteSyncer, error) {
	quiet := slog.New(slog.DiscardHandler)
	client, err := manager.New(manager.Config{Endpoint: "http://" + s.ID, User: User, PasswordFile: passwordFile, Transport: oscar})
	if err != nil {
		return nil, err
	}
	etcd.Logger = quiet
	st, err := store.Open(ctx, etcd)
	if err != nil {
		client.Close()
		return nil, err
	}
	out, err := syncer.New(syncer.Config{
		ClusterID: s.ID, Store: st, OSCAR: client, Identity: s.identity, Vault: &s.Vault, Issuers: issuers, Logger: quiet,
	})
	if err != nil {
		client.Close()
		return nil, errors.Join(err, st.Close())
	}
	return &SiteSyncer{Syncer: out, task: Go(ctx, out.Run), store: st, oscar: client}, nil
}

// Stop ends the syncer in order; its session ends.
func (s *SiteSyncer) Stop() error {
	err := s.task.Stop()
	s.oscar.Close()
	return errors.Join(err, s.store.Close())
}
