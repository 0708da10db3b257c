package answers

import (
	"context"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// InfoAge is the greatest age of OSCAR's answer about itself.
const InfoAge = 10 * time.Second

// OSCAR are the requests to OSCAR whose answers are shared.
type OSCAR interface {
	Buckets
	Info(ctx context.Context) (manager.Info, error)
	Storage(ctx context.Context) (manager.Storage, error)
	Nodes(ctx context.Context) ([]manager.Node, error)
	List(ctx context.Context) ([]manager.Service, error)
	Admits(ctx context.Context, as manager.Bearer) error
}

// Kubernetes are the requests to the Kubernetes below OSCAR.
type Kubernetes interface {
	Sizes(ctx context.Context) ([]kube.Node, error)
	LeaseTrouble() error
}

// Answers are what OSCAR, and the Kubernetes below it, have answered last, for one
// session: no answer of an earlier one is used.
type Answers struct {
	session *session.Session
	oscar   OSCAR
	kube    Kubernetes

	Lists   *Shared[*Listing]
	Buckets *Shared[BucketSet]
	Nodes   *Shared[[]manager.Node]
	Infos   *Shared[manager.Info]
	// Storages is where OSCAR's MinIO is.
	Storages *Shared[manager.Storage]
	// Sizes are the nodes as Kubernetes tells them.
	Sizes *Shared[[]kube.Node]
	// ids identifies the OSCAR.
	ids *Shared[string]
	// Admissions are the users that OSCAR accepts.
	Admissions *admissions
	// Health is how OSCAR has answered, and amiss rings when a trouble begins.
	Health  *Health
	Trouble signal.Signal
}

// New makes Answers. Calls that are shared end with run: they do not belong to
// the caller that asked first. recovered is called when a trouble that was told has ended.
func New(run context.Context, now *session.Session, o OSCAR, k Kubernetes, recovered func()) *Answers {
	a := &Answers{session: now, oscar: o, kube: k, Trouble: signal.New()}
	a.Health = newHealth(now.Now, a.Trouble.Send, recovered)
	a.Lists = NewShared(run, now.Now, noting(a.Health, manager.OpList, a.list))
	a.Buckets = NewShared(run, now.Now, noting(a.Health, manager.OpBuckets, a.bucketList))
	a.Nodes = NewShared(run, now.Now, o.Nodes)
	a.Sizes = NewShared(run, now.Now, k.Sizes)
	a.Infos = NewShared(run, now.Now, noting(a.Health, manager.OpInfo, o.Info))
	a.Storages = NewShared(run, now.Now, noting(a.Health, manager.OpConfig, o.Storage))
	a.ids = NewShared(run, now.Now, a.identify)
	a.Admissions = newAdmissions(run, now.Now, o.Admits)
	return a
}

// Wait returns when no call is under way; what bounds them must have ended.
func (a *Answers) Wait() {
	a.Lists.Wait()
	a.Buckets.Wait()
	a.Nodes.Wait()
	a.Sizes.Wait()
	a.Infos.Wait()
	a.Storages.Wait()
	a.ids.Wait()
	a.Admissions.Wait()
}

// Listing is one answer to a list, by service name.
type Listing struct {
	Services map[string]*manager.Service
}

func (a *Answers) list(ctx context.Context) (*Listing, error) {
	services, err := a.oscar.List(ctx)
	if err != nil {
		return nil, err
	}
	l := &Listing{Services: make(map[string]*manager.Service, len(services))}
	for i := range services {
		l.Services[services[i].Name] = &services[i]
	}
	return l, nil
}

// BucketSet is one answer to a list of buckets, by name.
type BucketSet map[string]manager.Bucket

func (a *Answers) bucketList(ctx context.Context) (BucketSet, error) {
	buckets, err := a.oscar.Buckets(ctx)
	if err != nil {
		return nil, err
	}
	set := make(BucketSet, len(buckets))
	for _, b := range buckets {
		set[b.Name] = b
	}
	return set, nil
}

// Unsupported says whether an OSCAR is older than v4.1.0, the first release with
// the token rule that marks rest on. One that was built without a
// release calls itself devel, and is taken for new, as its own dashboard does.
func Unsupported(version string) bool {
	if version == "devel" {
		return false
	}
	have, err := semver.NewVersion(version)
	return err != nil || have.LessThan(semver.New(4, 1, 0, "", ""))
}
