package syncer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/failpoint"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// childEnv makes the test binary a syncer: it holds a childConfig.
const childEnv = "OSCARFED_TEST_SYNCER"

type childConfig struct {
	Etcd, OSCAR, PasswordFile, IdentityFile string
}

func TestMain(m *testing.M) {
	if raw := os.Getenv(childEnv); raw != "" {
		if err := child(raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	status := m.Run()
	if left := leaked(); left != "" && status == 0 {
		fmt.Fprintf(os.Stderr, "stopped syncers have left goroutines:\n%s", left)
		status = 1
	}
	os.Exit(status)
}

// leaked tells which goroutines of a syncer are still there. Those of etcd
// servers and connections, which end in their own time, do not count.
func leaked() string {
	deadline := time.Now().Add(5 * time.Second)
	for {
		var left []string
		stacks := make([]byte, 16<<20)
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, "oscarfed/syncer.") || strings.Contains(stack, "util/workqueue.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// child runs a syncer as a process of its own.
func child(raw string) error {
	var cfg childConfig
	if err := json.Unmarshal([]byte(raw), &cfg); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	points, err := failpoint.FromEnv(append(syncer.FailPoints(), syncer.JobFailPoints()...)...)
	if err != nil {
		return err
	}
	id, err := seal.LoadOrCreate(cfg.IdentityFile)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Config{Endpoints: []string{cfg.Etcd}})
	if err != nil {
		return err
	}
	client, err := manager.New(manager.Config{Endpoint: cfg.OSCAR, User: "oscar", PasswordFile: cfg.PasswordFile})
	if err != nil {
		return err
	}
	s, err := syncer.New(syncer.Config{
		ClusterID: clusterID, Store: db, OSCAR: client, Identity: id, FailPoints: points,
		Resync: 300 * time.Millisecond, SessionTTL: 2 * time.Second, LateWindow: 2 * time.Second, RetryPause: 50 * time.Millisecond,
		WriteTimeout: 10 * time.Second, JobPoll: 20 * time.Millisecond, JobGrace: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return errors.Join(s.Run(ctx), db.Close())
}

// TestKilledAtEveryFailPoint kills the syncer by SIGKILL at each point of a
// creation that attaches, and of the deletion, or release, after it. Its successor finishes
// the work: all or nothing, nothing foreign touched, no data lost, and the same
// request works afterwards.
func TestKilledAtEveryFailPoint(t *testing.T) {
	var mu sync.Mutex
	hit := map[string]bool{}
	t.Run("points", func(t *testing.T) {
		for _, point := range syncer.FailPoints() {
			t.Run(point, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Latency: 20 * time.Millisecond})
				// Buckets go only when that is ordered, and then only those of this life.
				order, made := func(d *record.Desired) { d.Cause = record.CauseRollback }, []string{"grayify-new"}
				if strings.HasSuffix(point, "_drop") {
					order, made = func(d *record.Desired) { d.Cause, d.Data = record.CauseDeleted, "delete" }, []string{}
				} else {
					r.leave("grayify", "grayify")
					r.watchBucketData("grayify")
				}
				died := r.startChild(point)
				p := newReplica("grayify")
				p.buckets = []string{"grayify", "grayify-new"}
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				r.want(p, record.IntentApply)
				r.await(p, record.PhaseReady)
				r.inPlace(p)
				if strings.HasSuffix(point, "_release") {
					r.releasedAfter(p, died)
					mu.Lock()
					hit[point] = true
					mu.Unlock()
					return
				}
				r.want(p, record.IntentDelete, order)
				o := r.await(p, record.PhaseDeleted)
				if !slices.Equal(o.BucketsMade, made) {
					t.Errorf("buckets left by this life: %v, want %v", o.BucketsMade, made)
				}
				<-died
				mu.Lock()
				hit[point] = true
				mu.Unlock()
				r.resynced()
				for _, name := range p.buckets {
					if _, stands := r.sim.Bucket(name); stands == strings.HasSuffix(point, "_drop") {
						t.Errorf("bucket %s stands: %t", name, stands)
					}
				}
				if slices.Contains(r.sim.Services(), p.name) {
					t.Error("the service is still there")
				}
				if len(r.cluster().Orphans) != 0 {
					t.Errorf("orphans: %v", r.cluster().Orphans)
				}
				r.forget(p)
				again := newReplica("grayify")
				again.buckets, again.left = p.buckets, o.BucketsMade
				r.makeReady(again)
				r.inPlace(again)
			})
		}
	})
	if len(hit) != len(syncer.FailPoints()) {
		t.Errorf("the syncer died at %d of %d fail points", len(hit), len(syncer.FailPoints()))
	}
}

// startChild runs a syncer that dies at a fail point, and then one that does
// not. The answer is closed when the first one has died as it should.
func (r *rig) startChild(point string) <-chan struct{} {
	r.t.Helper()
	cfg, err := json.Marshal(childConfig{Etcd: r.endpoint, OSCAR: r.server.URL, PasswordFile: r.password, IdentityFile: r.identityFile})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	died := make(chan struct{})
	done := make(chan struct{})
	run := func(env string) (string, error) {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+string(cfg), failpoint.EnvVar+"="+env)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 20 * time.Second
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
	go func() {
		defer close(done)
		out, err := run(point)
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || !exit.Sys().(syscall.WaitStatus).Signaled() || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			r.t.Errorf("the syncer ended with %v and not by SIGKILL at %s:\n%s", err, point, out)
			return
		}
		close(died)
		if out, err := run(""); err != nil && !errors.Is(err, context.Canceled) {
			r.t.Errorf("the successor: %v\n%s", err, out)
		}
	}()
	r.t.Cleanup(func() { cancel(); <-done })
	return died
}
