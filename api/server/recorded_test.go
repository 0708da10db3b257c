package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/plan"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// TestAnswersAreAsRecorded compares answers to records in etcd (testdata/recorded/store.json)
// with recorded ones, byte for byte: a lost, changed or reordered field is seen wherever it is
// written. No worker runs, so the records stay as they are.
func TestAnswersAreAsRecorded(t *testing.T) {
	handler := recordedServer(t)
	for _, tt := range []struct{ name, as, path string }{
		{"federation", "ann", "/system/federations/grayifyr0"},
		{"federation_reader", "bob", "/system/federations/grayifyr0"},
		{"federation_failed", "ann", "/system/federations/doomed"},
		{"federations", "ann", "/system/federations"},
		{"replicas", "ann", "/system/replicas/grayifyr0"},
		{"replicas_worker", "bob", "/system/replicas/grayifyr1"},
		{"deployment", "bob", "/system/services/grayifyr0/deployment"},
		{"members", "bob", "/system/federation/grayifyr0"},
		{"refresh_token", "ann", "/system/replicas/grayifyr0/refresh-token"},
		{"clusters", "oscar", "/system/clusters"},
		{"clusters_user", "bob", "/system/clusters"},
		{"cluster_user", "bob", "/system/clusters/a"},
		{"jobs_owner", "ann", "/system/jobs"},
		{"jobs_sender", "bob", "/system/jobs"},
		{"jobs_reader", "eve", "/system/jobs"},
		{"job", "oscar", "/system/jobs/0199d0a1-7c00-7000-8000-000000000001"},
		{"explain", "ann", "/system/jobs/0199d0a1-7c00-7000-8000-000000000002/explain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &client{t, handler}
			resp := c.do(http.MethodGet, tt.path, "", "X-As", tt.as)
			if media := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || media != jsonType && media != "application/json" {
				t.Fatalf("%d %s: %s", resp.StatusCode, media, bodyOf(t, resp))
			}
			wantRecorded(t, tt.name, bodyOf(t, resp))
		})
	}
	t.Run("plan", func(t *testing.T) {
		resp := (&client{t, handler}).do(http.MethodPost, "/system/plans", `{"name":"new0","cluster_id":"a","image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n",`+
			`"environment":{"secrets":{"KEY":"secret"}},"input":[{"storage_provider":"minio.default","path":"new0/in"}],`+
			`"federation":{"topology":"star","group_id":"new0","members":[{"type":"oscar","cluster_id":"b","service_name":"new1"}]}}`, "X-As", user)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%d: %s", resp.StatusCode, bodyOf(t, resp))
		}
		wantRecorded(t, "plan", bodyOf(t, resp))
	})
}

// digest is the part of an answer that keys of one run go into, and age is that of a token by
// the machine's clock.
var digest, age = regexp.MustCompile(`[0-9a-f]{64}`), regexp.MustCompile(`"age_s":\d{5,}`)

// wantRecorded compares an answer with the recorded one.
func wantRecorded(t *testing.T, name, got string) {
	t.Helper()
	got = age.ReplaceAllString(digest.ReplaceAllString(got, "(digest)"), `"age_s":0`)
	if want := literal(t, "../recorded/"+name+".json"); got != want && got != want+"\n" {
		t.Errorf("answered\n %s\nwant\n %s", got, want)
	}
}

// recordedServer serves the use cases over an etcd with the records of store.json, all of one
// revision, at one moment.
func recordedServer(t *testing.T) http.Handler {
	t.Helper()
	st, now := storetest.New(t), func() time.Time { return moment("2026-11-20T14:00:00Z") }
	putRecords(t, st)
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	mirror := st.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = mirror.Run(ctx) }) // it ends with ctx
	t.Cleanup(func() { stop(); running.Wait() })
	<-mirror.Synced()
	state, log, sealer := view.NewState(mirror, now), slog.New(slog.DiscardHandler), id.Sealer(now)
	state.Refresh()
	g, err := gate.New(gate.Config{Store: st, State: state, Now: now, Logger: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	requests := request.New(request.Config{Store: st, State: state, Gate: g, Now: now, Logger: log})
	ofTokens := tokens.New(tokens.Config{
		Store: st, State: state, Gate: g, Identity: id, Sealer: sealer, RefreshTokenMaxAge: 10 * time.Minute, Now: now, Logger: log,
	})
	feds := federations.New(federations.Config{
		Store: st, State: state, Gate: g, Requests: requests, Tokens: ofTokens, Identity: id, Sealer: sealer, DefaultCluster: "a",
		RefreshTokenMaxAge: 10 * time.Minute, Now: now, Logger: log,
	})
	plans := plan.New(plan.Config{Store: st, State: state, Gate: g, Federations: feds, Identity: id, MaxQueueDelay: time.Minute, Now: now})
	ofJobs, err := jobs.New(jobs.Config{
		Store: st, State: state, Gate: g, Requests: requests, Federations: feds, Identity: id, Sealer: sealer, Now: now, Logger: log, Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	hub, err := relay.New(relay.Config{Logger: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	ofClusters, err := clusters.New(clusters.Config{
		Store: st, State: state, Gate: g, Identity: id, Hub: hub, Instance: "i", Now: now, Logger: log, Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	checker, err := description()
	if err != nil {
		t.Fatal(err)
	}
	return checker.Handler(t, newServer(t, &fake{}, func(cfg *server.Config) {
		cfg.Authenticator = named{}
		cfg.UseCases.Federations, cfg.UseCases.Tokens, cfg.UseCases.Plans = feds, ofTokens, plans
		cfg.UseCases.Jobs, cfg.UseCases.Clusters = ofJobs, ofClusters
	}).Handler())
}

// named takes the name of the caller from the header X-As; oscar is the administrator.
type named struct{}

func (named) Authenticate(r *http.Request) (identity.Caller, error) {
	if name := r.Header.Get("X-As"); name != user {
		return identity.Caller{Subject: name}, nil
	}
	return identity.Caller{Subject: identity.Admin, Administrator: true}, nil
}

// putRecords writes the records of store.json in one transaction.
func putRecords(t *testing.T, st *store.Store) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "recorded", "store.json"))
	if err != nil {
		t.Fatal(err)
	}
	var records map[string]json.RawMessage
	if err := json.Unmarshal(data, &records); err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(records))
	_, err = st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, key := range keys {
			var compact bytes.Buffer
			if err := json.Compact(&compact, records[key]); err != nil {
				return err
			}
			tx.Put(record.Root+key, json.RawMessage(compact.Bytes()))
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}
