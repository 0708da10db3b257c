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
	"syscall"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/failpoint"
	"github.com/oscarfed/oscarfed/store"
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
	os.Exit(m.Run())
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

// startChild runs a syncer that dies at a fail point, and then one that does
// not. The answer is closed when the first one has died as it should.
func (r *rig) startChild(point string) <-chan struct{} {
	r.t.Helper()
	cfg, err := json.Marshal(childConfig{Etcd: r.endpoint, OSCAR: r.url, PasswordFile: r.password, IdentityFile: r.identityFile})
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
