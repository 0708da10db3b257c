package kube_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
	"github.com/oscarfed/oscarfed/test/world"
)

// leader is one that leads, or waits to, in the background.
type leader struct {
	// leads is closed when it leads, and over when its context has ended.
	leads, over chan struct{}
	held        func() bool
	stop        context.CancelFunc
	ended       chan error
}

// lead makes one that goes on until stop is called.
func lead(t *testing.T, client *kube.Client, instance string) *leader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &leader{leads: make(chan struct{}), over: make(chan struct{}), stop: cancel, ended: make(chan error, 1)}
	go func() {
		l.ended <- client.Lead(ctx, instance, func(ctx context.Context, held func() bool) error {
			l.held = held
			close(l.leads)
			<-ctx.Done()
			close(l.over)
			return context.Cause(ctx)
		})
	}()
	t.Cleanup(cancel)
	return l
}

func wait[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(kubetest.Patience):
		t.Fatalf("%s: not within %s", what, kubetest.Patience)
	}
	return v
}

// own is a client of an OSCAR of the test's own: other tests have Leases, too.
func own(t *testing.T, services string) *kube.Client {
	t.Helper()
	cluster := shared.Cluster(t)
	cluster.Namespace(t, services)
	client, err := kube.New(cluster.Admin(), kube.Config{Services: services, LeaseTerm: 3 * time.Second, Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// lease changes the Lease behind everybody's back.
func lease(t *testing.T, services string, change func(*coordinationv1.LeaseSpec)) {
	t.Helper()
	leases := shared.Cluster(t).Client().CoordinationV1().Leases(services)
	kubetest.Eventually(t, "the Lease is changed", func() bool {
		l, err := leases.Get(t.Context(), kube.LeaseName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(&l.Spec)
		_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func TestOneLeadsAndTheNextWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	// With the syncer's own rights.
	log := &world.Log{}
	client := open(t, func(c *kube.Config) { c.Logger = log.Logger() })
	first := lead(t, client, "first")
	wait(t, "the first leads", first.leads)
	if !first.held() {
		t.Error("it does not hold the Lease")
	}
	second := lead(t, client, "second")
	waiting := lead(t, client, "waiting")
	waiting.stop() // one that waits can be stopped
	if err := wait(t, "who waits ends", waiting.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	kubetest.Eventually(t, "the second waits", func() bool { return strings.Contains(log.String(), "another syncer of this OSCAR leads") })
	var renewed *metav1.MicroTime
	for range 2 {
		kubetest.Eventually(t, "the Lease is renewed", func() bool {
			l, err := shared.Cluster(t).Client().CoordinationV1().Leases(kube.ServicesNamespace).Get(t.Context(), kube.LeaseName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			before := renewed
			renewed = l.Spec.RenewTime
			return before != nil && before.Before(renewed)
		})
	}
	select {
	case <-second.leads:
		t.Error("two lead at once")
	case <-first.over:
		t.Error("the first lost the lead")
	default:
	}
	first.stop()
	if err := wait(t, "the first ends", first.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the first ended with %v", err)
	}
	if first.held() {
		t.Error("it holds the Lease that it gave back")
	}
	wait(t, "the second leads", second.leads)
	second.stop()
	_ = wait(t, "the second ends", second.ended)
}

// TestALeadThatIsTakenOverEnds: whoever reads another's name in the Lease stops.
func TestALeadThatIsTakenOverEnds(t *testing.T) {
	t.Parallel()
	const services = "oscar-taken"
	l := lead(t, own(t, services), "first")
	wait(t, "it leads", l.leads)
	lease(t, services, func(s *coordinationv1.LeaseSpec) {
		s.HolderIdentity, s.LeaseDurationSeconds, s.RenewTime = new("another"), new(int32(3600)), new(metav1.NowMicro())
	})
	wait(t, "it notices", l.over)
	if l.held() {
		t.Error("it still counts itself the leader")
	}
	if err := wait(t, "it ends", l.ended); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v, which does not tell why", err)
	}
	got, err := shared.Cluster(t).Client().CoordinationV1().Leases(services).Get(t.Context(), kube.LeaseName, metav1.GetOptions{})
	if err != nil || *got.Spec.HolderIdentity != "another" {
		t.Errorf("it gave back what was another's: %v, %v", got, err)
	}
}

// TestALeadRestsWhileKubernetesIsSilent: nobody else can lead then, so it is not over;
// but it does not count, and counts again afterwards.
func TestALeadRestsWhileKubernetesIsSilent(t *testing.T) {
	t.Parallel()
	const services = "oscar-silent"
	cluster := shared.Cluster(t)
	cluster.Namespace(t, services)
	conf := cluster.Admin()
	proxy := storetest.NewProxy(t, "https://"+conf.Host)
	conf.Host = proxy.Endpoint()
	client, err := kube.New(conf, kube.Config{Services: services, LeaseTerm: 3 * time.Second, Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	l := lead(t, client, "first")
	wait(t, "it leads", l.leads)
	proxy.Freeze()
	kubetest.Eventually(t, "it does not count itself the leader", func() bool { return !l.held() })
	proxy.Thaw()
	kubetest.Eventually(t, "it counts itself the leader again", l.held)
	select {
	case <-l.over:
		t.Error("it was told that another leads")
	default:
	}
}

// TestALeaseThatCannotBeHadIsToldOnce: the namespace is gone. Each try in vain is no line
// of the log, and when it is back the Lease is taken.
func TestALeaseThatCannotBeHadIsToldOnce(t *testing.T) {
	t.Parallel()
	const services = "oscar-gone"
	cluster, log := shared.Cluster(t), &world.Log{}
	client, err := kube.New(cluster.Admin(), kube.Config{Services: services, LeaseTerm: 3 * time.Second, Logger: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	l := lead(t, client, "first")
	kubetest.Eventually(t, "it knows why", func() bool { return client.LeaseTrouble() != nil })
	first := client.LeaseTrouble()
	if why := kube.WhyNoLease(first); !strings.Contains(why, "namespace") {
		t.Errorf("it says %q of %v", why, first)
	}
	kubetest.Eventually(t, "it has tried again", func() bool { return client.LeaseTrouble() != first })
	cluster.Namespace(t, services)
	wait(t, "it leads", l.leads)
	if err := client.LeaseTrouble(); err != nil {
		t.Errorf("it leads and says %v", err)
	}
	if n := strings.Count(log.String(), "\n"); n > 3 {
		t.Errorf("%d lines:\n%s", n, log)
	}
}

// Why there is no Lease says what is to be done: rights are given, credentials renewed, and an API server waited for.
func TestWhyThereIsNoLease(t *testing.T) {
	t.Parallel()
	of := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	ways := map[string]error{
		"its Role is in deploy/rbac":   apierrors.NewForbidden(of, kube.LeaseName, errors.New("no")),
		"the token of its service":     apierrors.NewUnauthorized("the token has expired"),
		"namespace of services is not": apierrors.NewNotFound(of, kube.LeaseName),
		"Kubernetes does not answer":   context.DeadlineExceeded,
	}
	for want, err := range ways {
		for other := range ways {
			if why := kube.WhyNoLease(err); strings.Contains(why, other) != (other == want) {
				t.Errorf("%v: %s", err, why)
			}
		}
	}
}

// TestAKilledLeaderIsSucceededByItsName: one of its name waits for no term.
func TestAKilledLeaderIsSucceededByItsName(t *testing.T) {
	t.Parallel()
	const services = "killed-leader"
	cluster := shared.Cluster(t)
	cluster.Namespace(t, services)
	holder, seconds, renewed := "one", int32(time.Hour/time.Second), metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &renewed, RenewTime: &renewed}
	_, err := cluster.Client().CoordinationV1().Leases(services).Create(t.Context(),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: kube.LeaseName}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.New(cluster.Admin(), kube.Config{Services: services, LeaseTerm: time.Hour, Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	next := lead(t, client, holder)
	wait(t, "the next of its name leads", next.leads)
	next.stop()
	if err := wait(t, "it ends", next.ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
