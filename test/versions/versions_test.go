package versions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// patience is how long a request may take.
const patience = 2 * time.Minute

var clusters = []string{"a", "b", "c"}

// releases is a federation whose programs are of two releases.
type releases struct {
	*process.Federation
	t     *testing.T
	store *store.Store
	// before has the programs that are of the release before.
	before map[string]bool
	// made counts services.
	made int
	// kept are services that stand from one mix to the next.
	kept []string
}

// previous is the folder of the release before.
func previous(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../build/tools/previous")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the release before is not built: run `make previous` (%v)", err)
	}
	return dir
}

// newReleases starts control planes and three clusters of the release before, over members of etcd.
func newReleases(t *testing.T, members, instances int) *releases {
	t.Helper()
	etcd, dir := process.StartMembers(t, members, nil), previous(t)
	r := &releases{t: t, before: map[string]bool{}, store: storetest.Open(t, store.Config{Endpoints: etcd.Endpoints()})}
	invariants.Guard(t, etcd.Endpoints()[0], invariants.Options{})
	endpoints := "--etcd-endpoints=" + strings.Join(etcd.Endpoints(), ",")
	r.Federation = process.New(t, process.Config{
		Clusters: clusters, Canaries: []string{"mix"}, Store: r.store, Workload: &oscarsim.Workload{Seed: 1, Min: 10 * time.Millisecond, Max: 100 * time.Millisecond},
		Flags: func(string) []string { return []string{endpoints} },
		Binary: func(program string) string {
			switch {
			case !r.before[program]:
				return ""
			case strings.HasPrefix(program, "control-plane-"):
				return filepath.Join(dir, "oscar-controlplane")
			default:
				return filepath.Join(dir, "oscar-syncer")
			}
		},
	})
	for k := range instances {
		r.before[process.ControlPlaneName(k)] = true
	}
	for _, id := range clusters {
		r.before[id] = true
	}
	if err := r.Start(t.Context(), instances); err != nil {
		t.Fatal(err)
	}
	return r
}

// become ends programs by SIGTERM, and starts them as today's, or as those of the release before.
func (r *releases) become(before bool, programs ...string) {
	r.t.Helper()
	for _, program := range programs {
		if err := r.Child(program).Stop(); err != nil {
			r.t.Fatal(err)
		}
		r.before[program] = before
		if strings.HasPrefix(program, "control-plane-") {
			if _, err := r.StartControlPlane(r.t.Context(), program, ""); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		await.Until(r.t, "the session of "+program+" has ended", func() bool {
			_, err := r.store.Get(r.t.Context(), record.SessionKey(program))
			return err != nil
		})
		if err := r.StartSyncer(program, ""); err != nil {
			r.t.Fatal(err)
		}
		if err := r.AwaitSyncer(r.t.Context(), program); err != nil {
			r.t.Fatal(err)
		}
	}
}

func service(t *testing.T, name, memory string, bytes int) *oscar.Service {
	t.Helper()
	var members []string
	for _, id := range clusters[1:] {
		members = append(members, fmt.Sprintf(`{"type":"oscar","cluster_id":%q,"service_name":"%s-%s"}`, id, name, id))
	}
	s, violations := oscar.ParseService(fmt.Appendf(nil, `{"name":%q,"cluster_id":"a","image":"ghcr.io/grycap/imagemagick","cpu":"0.1","memory":%q,
		"script":"#!/bin/sh\n#%s\n","environment":{"variables":{},"secrets":{"KEY":"not-a-real-secret"}},
		"federation":{"topology":"mesh","delegation":"static","group_id":%q,"members":[%s]}}`, name, memory, strings.Repeat("x", bytes), name, strings.Join(members, ",")))
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	return s
}

// stands waits until every OSCAR has the service as it was sent last.
func (r *releases) stands(name, memory string, bytes int) {
	r.t.Helper()
	for i, id := range clusters {
		local := name
		if i > 0 {
			local += "-" + id
		}
		await.Until(r.t, local+" stands with "+memory, func() bool {
			view, ok := r.Sim(id).Service(local)
			var got oscar.Service
			return ok && json.Unmarshal(view.JSON, &got) == nil && got.Memory == memory && len(got.Script) > bytes && view.Secrets["KEY"] == "not-a-real-secret"
		})
	}
}

// works creates a service by one control plane, changes it by the other, sends jobs by both, and has the
// first delete what stands since the mix before.
func (r *releases) works(mix string) {
	r.t.Helper()
	r.t.Log(mix)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for k := range 2 {
		one, other := r.API(process.ControlPlaneName(k)), r.API(process.ControlPlaneName(1-k))
		r.made++
		name, bytes := fmt.Sprintf("mix%d", r.made), 20<<10*k // small, and large enough for parts
		if _, err := one.CreateService(ctx, service(r.t, name, "128Mi", bytes), client.CreateOptions{IdempotencyKey: name, Wait: patience}); err != nil {
			r.t.Fatalf("%s: create: %v", mix, err)
		}
		r.stands(name, "128Mi", bytes)
		if _, err := other.ChangeService(ctx, service(r.t, name, "256Mi", bytes), client.ChangeOptions{Wait: patience}); err != nil {
			r.t.Fatalf("%s: change: %v", mix, err)
		}
		r.stands(name, "256Mi", bytes)
		for _, api := range []*client.Client{one, other} {
			r.job(ctx, api, name)
		}
		// What stands since the mix before is changed as well: it was written by others.
		for _, kept := range r.kept {
			if _, err := one.ChangeService(ctx, service(r.t, kept, "64Mi", bytes), client.ChangeOptions{Wait: patience}); err != nil {
				r.t.Fatalf("%s: change of a service that was there: %v", mix, err)
			}
			r.stands(kept, "64Mi", bytes)
			r.job(ctx, other, kept)
			if _, err := other.DeleteService(ctx, kept, client.DeleteOptions{Jobs: "cancel", Wait: patience}); err != nil {
				r.t.Fatalf("%s: delete: %v", mix, err)
			}
		}
		r.kept = []string{name}
	}
	if err := r.AwaitSettled(ctx); err != nil {
		r.t.Fatalf("%s: %v", mix, err)
	}
}

// lost takes a service away from the OSCAR of a cluster whose syncer goes back to the release before. That reads no
// parts: it gets a copy of its own, and repairs.
func (r *releases) lost(cluster string) {
	r.t.Helper()
	if err := r.Child(cluster).Stop(); err != nil {
		r.t.Fatal(err)
	}
	r.Sim(cluster).RemoveService(r.kept[0] + "-" + cluster)
	r.before[cluster] = true
	if err := r.StartSyncer(cluster, ""); err != nil {
		r.t.Fatal(err)
	}
	r.stands(r.kept[0], "256Mi", 20<<10)
}

// job sends one and waits until an OSCAR has started it.
func (r *releases) job(ctx context.Context, api *client.Client, name string) {
	r.t.Helper()
	job, err := api.SubmitJob(ctx, name, []byte(`{"n":1}`), client.JobOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	await.Until(r.t, "job "+job.ID+" is submitted", func() bool {
		got, err := api.Job(ctx, job.ID)
		return err == nil && (got.State == v1.JobSubmitted || got.State == v1.JobRunning || got.State == v1.JobSucceeded)
	})
}

// TestTheReleaseBeforeBesideThisOne takes a federation from one release to the next and back, program by program, and
// finishes the upgrade. In every mix services are created, changed and deleted, and jobs run; each kind of program
// works with what either release wrote.
func TestTheReleaseBeforeBesideThisOne(t *testing.T) {
	r := newReleases(t, 1, 2)
	one, other := process.ControlPlaneName(0), process.ControlPlaneName(1)
	r.works("everything is of the release before")
	r.become(false, "b")
	r.works("a newer syncer")
	r.become(false, one)
	r.works("control planes of both releases, and syncers of both")
	_, err := r.API(one).FinishUpgrade(t.Context())
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Problem.Status != http.StatusUnprocessableEntity {
		t.Errorf("beside the release before, finishing is answered with %v", err)
	}
	r.become(false, other)
	since := r.revision()
	r.become(false, one, "b") // what a program writes at its start
	r.works("control planes of this release, and syncers of both")
	r.registers(one)
	r.wrote(since)
	r.become(true, one, other)
	r.works("control planes went back, and a newer syncer")
	r.readsAll(one, other)
	r.become(false, one, other, "a", "c")
	r.works("everything is of this release, and the upgrade is not finished")
	r.become(true, one, other, "a", "b", "c")
	r.works("everything went back")
	r.readsAll(one, other, "a", "b", "c")
	r.become(false, one, other, "a", "b", "c")
	if _, err := r.API(one).FinishUpgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.works("the upgrade is finished")
	r.lost("b")
	r.works("the upgrade is finished, and a syncer went back")

	if err := r.Child(other).Stop(); err != nil {
		t.Fatal(err)
	}
	r.before[other] = true
	if _, err := r.StartControlPlane(t.Context(), other, ""); err == nil || !strings.Contains(err.Error(), "this control plane is too old") {
		t.Errorf("the release before starts: %v", err)
	}
}
