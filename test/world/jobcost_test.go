package world_test

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// Jobs that arrive together share the transactions of their steps.
func TestManyJobsCostOneRevisionEachInVirtualTime(t *testing.T) {
	await.InVirtualTime(t, manyJobs)
}

func manyJobs(t *testing.T) {
	const n, atATime = 500, 64
	const most = n * 11 / 10
	w := world.New(t, world.Options{Wire: wire.New(1), Sim: func(c *oscarsim.Config) {
		c.Nodes = []oscarsim.Node{{Name: "large", CPU: 100_000_000, Memory: 1 << 50}}
	}})
	s := world.Service(t, `{"name":"work0","cluster_id":"oscar-cluster-a","image":"i","cpu":"1","memory":"256Mi","script":"#!/bin/sh\n",
"federation":{"topology":"mesh","delegation":"random","members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"work1"}]}}`)
	if _, err := w.Client.CreateService(t.Context(), s, client.CreateOptions{Wait: await.Limit}); err != nil {
		t.Fatal(err)
	}
	began := w.Revision()
	var g errgroup.Group
	g.SetLimit(atATime)
	for i := range n {
		g.Go(func() error {
			_, err := w.CP.Jobs.Submit(t.Context(), identity.Caller{Subject: identity.Admin, Administrator: true},
				jobs.Request{Service: "work0", Event: fmt.Append(nil, "event ", i)})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var cost, submitted int
	w.Eventually("all are submitted", func() bool {
		cost, submitted = costOfJobs(t, w, began, n)
		return submitted == n
	})
	t.Logf("%d revisions for %d jobs, %.2f each", cost, n, float64(cost)/n)
	if cost > most {
		t.Errorf("%d jobs cost %d revisions until all were submitted, and %d are allowed", n, cost, most)
	}
}

// costOfJobs counts the revisions with a record of a job, after one, until so many jobs are submitted;
// and how many are.
func costOfJobs(t *testing.T, w *world.World, after int64, until int) (revisions, submitted int) {
	t.Helper()
	done := map[string]bool{}
	err := w.Store.History(t.Context(), record.Root, after+1, w.Revision(), func(_ int64, events []store.Event) error {
		if len(done) == until {
			return nil
		}
		if slices.ContainsFunc(events, func(e store.Event) bool { return ofJob(record.ParseKey(e.KV.Key).Kind) }) {
			revisions++
		}
		for _, e := range events {
			if ref := record.ParseKey(e.KV.Key); ref.Kind == record.KindJobReport && !e.Deleted {
				r, err := store.Decode[record.JobReport](e.KV)
				if err != nil {
					return err
				}
				if r.State == record.JobSubmitted {
					done[ref.Name] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return revisions, len(done)
}

// ofJob says whether a job's steps write records of a kind.
func ofJob(kind record.Kind) bool {
	switch kind {
	case record.KindJob, record.KindEvent, record.KindDecision, record.KindReserved, record.KindAssignment,
		record.KindAssignedEvent, record.KindJobReport, record.KindRequest:
		return true
	default:
		return false
	}
}
