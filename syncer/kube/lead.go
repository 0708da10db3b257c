package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// LeaseName is that of the Lease which the one syncer of an OSCAR holds. It stands in
// OSCAR's namespace of services, and so keeps out also a syncer that was installed
// elsewhere, or of another control plane.
const LeaseName = "oscar-syncer"

// Terms of the Lease.
const (
	defaultLeaseTerm = 30 * time.Second
	minLeaseTerm     = 3 * time.Second
)

// renewWithin is how long this syncer takes itself for the leader after it sent a renewal. It ends
// well before another syncer may take over, since clocks run at different rates.
func renewWithin(term time.Duration) time.Duration { return term * 2 / 3 }

// retryEvery is the pause between tries to get or renew the Lease.
func retryEvery(term time.Duration) time.Duration { return term / 8 }

// errLeadLost ends the context of a leader that has lost the Lease.
var errLeadLost = errors.New("another syncer holds the Lease of this OSCAR")

// Lead implements Interface by a Lease. It releases the Lease when fn has returned, so that the next
// syncer need not wait until it expires.
func (c *Client) Lead(ctx context.Context, instance string, fn func(ctx context.Context, held func() bool) error) error {
	leading, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	lock := &timedLock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: LeaseName, Namespace: c.cfg.Services},
			Client:     c.kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: instance},
		},
		lasts: renewWithin(c.cfg.LeaseTerm), now: c.now, note: c.noteLease,
		acquired: make(chan struct{}), lose: func() { lose(errLeadLost) },
	}
	// fn may still write after ctx has ended, so the Lease is kept until fn returns.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	ended := make(chan error, 1)
	go func() { ended <- c.elect(electing, lock) }()
	select {
	case <-lock.acquired:
		c.cfg.Logger.Info("this syncer leads", "lease", c.cfg.Services+"/"+LeaseName)
	case <-ctx.Done():
		release()
		return errors.Join(context.Cause(ctx), <-ended)
	case err := <-ended:
		return err
	}
	err := fn(leading, lock.held)
	release()
	return errors.Join(err, <-ended)
}

// elect takes and renews the Lease until ctx ends, and then gives it back. An elector
// ends when it could not renew; the next one tries again.
func (c *Client) elect(ctx context.Context, lock *timedLock) error {
	// noteLease logs once what the elector would log at every try.
	ctx = klog.NewContext(ctx, logr.Discard())
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:          lock,
			LeaseDuration: c.cfg.LeaseTerm, RenewDeadline: renewWithin(c.cfg.LeaseTerm), RetryPeriod: retryEvery(c.cfg.LeaseTerm),
			ReleaseOnCancel: true,
			Name:            LeaseName,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {},
				OnStoppedLeading: func() {},
				OnNewLeader: func(holder string) {
					if holder != "" && holder != lock.Identity() {
						c.cfg.Logger.Info("another syncer of this OSCAR leads; this one waits", "holder", holder)
					}
				},
			},
		})
		if err != nil {
			return fmt.Errorf("kubernetes: lease: %w", err)
		}
		elector.Run(ctx)
	}
	return nil
}

// timedLock is a lock that knows until when it is ours. It counts from when a renewal was sent.
// client-go counts from when it saw the answer, which may be too late.
type timedLock struct {
	resourcelock.Interface
	lasts time.Duration
	now   func() time.Time
	// acquired is closed when the lock is ours for the first time.
	acquired chan struct{}
	// note is called with the result of each try to read or write it.
	note func(error)
	// lose is called when it was ours and now names another holder.
	lose func()

	mu    sync.Mutex
	until time.Time
	led   bool
}

// held says whether the lock is ours.
func (l *timedLock) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now().Before(l.until)
}

// Get implements resourcelock.Interface.
func (l *timedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, raw, err := l.Interface.Get(ctx)
	if !apierrors.IsNotFound(err) { // the elector then creates it
		l.note(err)
	}
	if err == nil && r.HolderIdentity != "" && r.HolderIdentity != l.Identity() {
		l.mu.Lock()
		led := l.led
		l.until = time.Time{}
		l.mu.Unlock()
		if led {
			l.lose()
		}
	}
	return r, raw, err
}

// Create implements resourcelock.Interface.
func (l *timedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *timedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Update)
}

func (l *timedLock) write(ctx context.Context, r resourcelock.LeaderElectionRecord, send func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if r.HolderIdentity != l.Identity() {
		// A release counts from when it is sent.
		l.mu.Lock()
		l.until = time.Time{}
		l.mu.Unlock()
		return send(ctx, r)
	}
	sent := l.now()
	err := send(ctx, r)
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		l.note(err)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = sent.Add(l.lasts)
	if !l.led {
		l.led = true
		close(l.acquired)
	}
	return nil
}

// LeaseTrouble implements Interface.
func (c *Client) LeaseTrouble() error {
	if err := c.leaseTrouble.Load(); err != nil {
		return *err
	}
	return nil
}

// noteLease stores why the Lease cannot be read or written, and logs changes.
func (c *Client) noteLease(err error) {
	var now *error
	if err != nil {
		now = &err
	}
	before := c.leaseTrouble.Swap(now)
	switch {
	case err == nil && before != nil:
		c.cfg.Logger.Info("the Lease can be had again", "lease", c.cfg.Services+"/"+LeaseName)
	case err != nil && (before == nil || WhyNoLease(*before) != WhyNoLease(err)):
		c.cfg.Logger.Warn("the Lease cannot be had; it is tried again", "lease", c.cfg.Services+"/"+LeaseName, "error", err)
	}
}

// WhyNoLease says in words for operators why the Lease is not held; err may be nil when
// that is not known.
func WhyNoLease(err error) string {
	what := "the syncer does not hold the Lease " + LeaseName + " in the Kubernetes of its OSCAR, so it writes nothing there"
	switch {
	case apierrors.IsNotFound(err):
		return what + ": OSCAR's namespace of services is not there"
	case apierrors.IsUnauthorized(err):
		return what + ": Kubernetes does not accept its credentials; look at its kubeconfig, or at the token of its service account"
	case apierrors.IsForbidden(err):
		return what + ": it has not the right; its Role is in deploy/rbac, or in the chart"
	case err != nil:
		return what + ": Kubernetes does not answer"
	}
	return what
}
