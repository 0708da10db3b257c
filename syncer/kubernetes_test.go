package syncer_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// kubernetes is a Kubernetes that a test steers. The real one is in syncer/kube and
// test/kube.
type kubernetes struct {
	kube.Absent
	// silent is the Lease that is not renewed, and withheld that which cannot be had, as
	// long as it is open.
	silent   atomic.Bool
	withheld chan struct{}
	// left are the Secrets, as owner/name, and refusal answers instead of them.
	left    map[string]bool
	refusal atomic.Pointer[error]
	uid     string

	mu      sync.Mutex
	changed func(service string)
	// denied are rights that lack.
	denied []string
	// taken ends the present lead.
	taken context.CancelCauseFunc
}

func (k *kubernetes) refused() error {
	if err := k.refusal.Load(); err != nil {
		return *err
	}
	return nil
}

func (k *kubernetes) SystemUID(context.Context) (string, error) {
	if err := k.refused(); err != nil {
		return "", err
	}
	return k.uid, nil
}

func (k *kubernetes) Denied(context.Context) ([]string, error) { return k.denied, k.refused() }

func (k *kubernetes) SecretLeft(_ context.Context, owner, service string) (bool, error) {
	return k.left[owner+"/"+service], k.refused()
}

func (k *kubernetes) Watch(ctx context.Context, changed func(service string)) error {
	k.mu.Lock()
	k.changed = changed
	k.mu.Unlock()
	<-ctx.Done()
	return nil
}

// tell tells of a changed definition, as soon as somebody listens.
func (k *kubernetes) tell(r *rig, service string) {
	r.t.Helper()
	listening := func() func(string) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.changed
	}
	r.eventually("the syncer listens", func() bool { return listening() != nil })
	listening()(service)
}

func (k *kubernetes) Lead(ctx context.Context, _ string, fn func(ctx context.Context, held func() bool) error) error {
	if k.withheld != nil {
		select {
		case <-k.withheld:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	leading, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	k.mu.Lock()
	k.taken = lose
	k.mu.Unlock()
	return fn(leading, func() bool { return !k.silent.Load() })
}

func (k *kubernetes) LeaseTrouble() error {
	select {
	case <-k.withheld:
		return nil
	default:
	}
	if k.withheld == nil {
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "oscar-svc")
}

// take lets another one have the Lease.
func (k *kubernetes) take(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken(why)
}

// TestNothingIsWrittenWithoutTheLease: it is lost between the look and the write, which
// the fence notices. Reading and reporting go on.
func TestNothingIsWrittenWithoutTheLease(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		k, gate, inner, log, registry := &kubernetes{}, newGate(), r.oscar("syncer"), &await.Output{}, prometheus.NewRegistry()
		r.start(func(c *syncer.Config) {
			c.Logger, c.Kube, c.Registry = slog.New(slog.NewTextHandler(log, nil)), k, registry
			c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*manager.Service, error) {
				gate.pass()
				return inner.Get(ctx, name)
			}}
		})
		p, q := newReplica("grayify"), newReplica("voted")
		r.makeReady(p)
		gate.arm()
		r.want(p, record.IntentDelete)
		<-gate.reached
		k.silent.Store(true)
		close(gate.opened)
		r.eventually("the write is held back", func() bool { return strings.Contains(log.String(), "the Lease of this OSCAR is not ours") })
		r.want(q, record.IntentPrepare)
		r.await(q, record.PhasePrepared)
		r.equalCalls(p.name, "create")
		if leads := gauge(t, registry, "oscarfed_syncer_leads"); leads != 0 {
			t.Errorf("it counts itself the leader: %v", leads)
		}
		k.silent.Store(false)
		if leads := gauge(t, registry, "oscarfed_syncer_leads"); leads != 1 {
			t.Errorf("it does not count itself the leader: %v", leads)
		}
		r.await(p, record.PhaseDeleted)
	})
}

// TestATakenLeaseEndsTheSession: the syncer that has it now needs the session, too.
func TestATakenLeaseEndsTheSession(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		k, log := &kubernetes{}, &await.Output{}
		r.start(func(c *syncer.Config) { c.Logger, c.Kube = slog.New(slog.NewTextHandler(log, nil)), k })
		p := newReplica("grayify")
		r.makeReady(p)
		first, err := r.store.Get(t.Context(), record.SessionKey(clusterID))
		if err != nil {
			t.Fatal(err)
		}
		k.take(errors.New("another syncer has the lease"))
		r.eventually("the session was given back and taken again", func() bool {
			kv, err := r.store.Get(t.Context(), record.SessionKey(clusterID))
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			return err == nil && kv.CreateRevision != first.CreateRevision
		})
		if !strings.Contains(log.String(), "another syncer has the lease") {
			t.Error("the log does not say why")
		}
		r.want(p, record.IntentDelete)
		r.await(p, record.PhaseDeleted)
	})
}

// TestALeftSecretIsTakenForTheName: in the namespace of the service's owner.
func TestALeftSecretIsTakenForTheName(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		k := &kubernetes{left: map[string]bool{"cluster_admin/left": true, "somebody/free": true}}
		r.start(func(c *syncer.Config) { c.Kube = k })
		left, free, denied, silent := newReplica("left"), newReplica("free"), newReplica("denied"), newReplica("silent")
		r.want(left, record.IntentPrepare)
		r.await(left, record.PhaseRefused, because(record.ReasonNameTaken))
		r.want(free, record.IntentPrepare)
		r.await(free, record.PhasePrepared)
		// Who may not ask has no opinion; who gets no answer asks again.
		k.refusal.Store(new(kube.ErrDenied))
		r.want(denied, record.IntentPrepare)
		r.await(denied, record.PhasePrepared)
		k.refusal.Store(new(errors.New("timeout")))
		r.want(silent, record.IntentPrepare)
		lists := r.sim.Calls()["list"]
		r.eventually("it is looked at again", func() bool { return r.sim.Calls()["list"] > lists+2 })
		if o := r.observed(silent.name); o != nil {
			t.Errorf("it was answered without knowing: %+v", o)
		}
		k.refusal.Store(nil)
		r.await(silent, record.PhasePrepared)
	})
}

// TestTheClusterIsKnownByItsKubernetes: and stays so while that does not answer, which is
// no fault of its OSCAR.
func TestTheClusterIsKnownByItsKubernetes(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		k, log := &kubernetes{uid: "uid-of-kube-system", denied: []string{"pods: list, watch"}}, &await.Output{}
		r.start(func(c *syncer.Config) { c.Logger, c.Kube = slog.New(slog.NewTextHandler(log, nil)), k })
		r.eventually("the uid is reported", func() bool { c := r.cluster(); return c != nil && c.KubeSystemUID == k.uid })
		k.refusal.Store(new(errors.New("timeout")))
		r.eventually("it was asked again", func() bool { return strings.Contains(log.String(), "which cluster it is") })
		if c := r.cluster(); c.KubeSystemUID != k.uid || c.Reason != "" || !slices.Equal(c.Denied, k.denied) {
			t.Errorf("it is reported as %q, reason %q, without the rights %q", c.KubeSystemUID, c.Reason, c.Denied)
		}
	})
}

// unnoticed starts a syncer that compares everything once, at its start.
func unnoticed(r *rig, k *kubernetes) *replica {
	r.t.Helper()
	r.start(func(c *syncer.Config) { c.Kube, c.Resync = k, never })
	p := newReplica("grayify")
	r.makeReady(p)
	return p
}

// TestNewsOfADefinitionAreLookedAt: without waiting for the next resync.
func TestNewsOfADefinitionAreLookedAt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		k := &kubernetes{}
		p := unnoticed(r, k)
		k.tell(r, "canary") // which is nobody's business here
		if err := r.removeService(p.name); err != nil {
			t.Fatal(err)
		}
		k.tell(r, p.name)
		r.eventually("it is there again", func() bool { _, ok := r.sim.Service(p.name); return ok })
	})
}

// TestEndlessNewsCostFewLists: OSCAR lets about five requests a second through to its
// Kubernetes, and somebody may change a definition without end.
func TestEndlessNewsCostFewLists(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		k := &kubernetes{}
		p := unnoticed(r, k)
		k.tell(r, p.name) // it listens
		before, began := r.sim.Calls()["list"], time.Now()
		r.eventually("there were many news", func() bool {
			for range 100 {
				k.tell(r, p.name)
			}
			return r.sim.Calls()["list"] > before+6
		})
		// A burst, one for each pause since, and what the news before may still ask for.
		if lists, most := r.sim.Calls()["list"]-before, 3+int(time.Since(began)/(2*time.Second))+2; lists > most {
			t.Errorf("%d lists; at most %d were expected", lists, most)
		}
	})
}
