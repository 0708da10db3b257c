// Package kube owns the syncer's requests to the Kubernetes below its OSCAR, beside OSCAR's own
// REST API. It reads the identity of the cluster, leftover Secrets of services, changes of
// definitions, the free capacity of nodes, and the Jobs of services; it repairs half-created
// services, keeps the Lease of the one syncer and the Secrets with refresh tokens, and holds
// and restores Jobs that are offered. A syncer may have no Kubernetes: Absent answers
// ErrAbsent.
package kube

import (
	"context"
	"errors"
)

// ErrAbsent says that the syncer has no Kubernetes.
var ErrAbsent = errors.New("this syncer has no access to Kubernetes")

// ErrDenied says that the syncer has not the right for a request: trying again does not help until
// an administrator grants it.
var ErrDenied = errors.New("the syncer's service account may not")

// Interface is what the syncer needs of Kubernetes. Every call has a deadline of its own, and every
// error but ErrAbsent and ErrDenied is temporary.
type Interface interface {
	// SystemUID is the uid of the namespace kube-system, which identifies the cluster.
	SystemUID(ctx context.Context) (string, error)
	// Denied names the rights that the syncer needs and has not, such as "pods: list, watch".
	Denied(ctx context.Context) ([]string, error)
	// SecretLeft says whether a Secret of the service's name exists where the owner's
	// services are: OSCAR would refuse a service with secrets, and its DELETE would
	// take the Secret along.
	SecretLeft(ctx context.Context, owner, service string) (bool, error)
	// Heal gives a half-created service, which OSCAR lists and cannot read, an
	// empty PodTemplate of its name, so that OSCAR can read and delete it.
	Heal(ctx context.Context, service string) error
	// Watch calls changed with the name of every service whose definition was created, changed or
	// deleted, until ctx ends. Some calls bring nothing new: at the start there is one for each
	// service. It returns before ctx ends only with ErrAbsent.
	Watch(ctx context.Context, changed func(service string)) error
	// Lead waits until no other syncer of this OSCAR leads, then runs fn until it
	// returns. The context of fn ends when another syncer was seen to lead. held says
	// whether we lead at this moment, by our own clock; it may say no for a while and
	// then yes again, when Kubernetes did not answer.
	Lead(ctx context.Context, instance string, fn func(ctx context.Context, held func() bool) error) error
	// LeaseTrouble is why Lead cannot read or write its Lease at present; nil when it
	// can, also while another syncer leads.
	LeaseTrouble() error
	// Nodes are those that accept new pods, with what their pods have requested.
	Nodes(ctx context.Context) ([]Node, error)
	// Sizes are the nodes that may ever run a pod, also those that are not ready or cordoned now,
	// with what they can give to all their pods; Requested is not filled in.
	Sizes(ctx context.Context) ([]Node, error)
	TokenStore
	JobReader
	JobLister
	JobStore
	CapacityWatcher
}

// Absent is the Kubernetes of a syncer that has none.
type Absent struct{}

// SystemUID implements Interface.
func (Absent) SystemUID(context.Context) (string, error) { return "", ErrAbsent }

// Denied implements Interface.
func (Absent) Denied(context.Context) ([]string, error) { return nil, ErrAbsent }

// SecretLeft implements Interface.
func (Absent) SecretLeft(context.Context, string, string) (bool, error) { return false, ErrAbsent }

// Heal implements Interface.
func (Absent) Heal(context.Context, string) error { return ErrAbsent }

// Watch implements Interface.
func (Absent) Watch(context.Context, func(string)) error { return ErrAbsent }

// LeaseTrouble implements Interface.
func (Absent) LeaseTrouble() error { return nil }

// Lead implements Interface: without Kubernetes the session in etcd alone keeps a
// second syncer out.
func (Absent) Lead(ctx context.Context, _ string, fn func(ctx context.Context, held func() bool) error) error {
	return fn(ctx, func() bool { return true })
}

// Nodes implements Interface.
func (Absent) Nodes(context.Context) ([]Node, error) { return nil, ErrAbsent }

// Sizes implements Interface.
func (Absent) Sizes(context.Context) ([]Node, error) { return nil, ErrAbsent }

// Token implements TokenStore.
func (Absent) Token(context.Context, string, string) (*Token, error) { return nil, ErrAbsent }

// PutToken implements TokenStore.
func (Absent) PutToken(context.Context, string, string, Token) error { return ErrAbsent }

// DeleteToken implements TokenStore.
func (Absent) DeleteToken(context.Context, string, string, int64) error { return ErrAbsent }

// WatchJobs implements JobStore.
func (Absent) WatchJobs(context.Context, func(JobKey, *Job)) error { return ErrAbsent }

// Job implements JobStore.
func (Absent) Job(context.Context, JobKey) (*Job, error) { return nil, ErrAbsent }

// ChangeJob implements JobStore.
func (Absent) ChangeJob(context.Context, *Job, JobChange) error { return ErrAbsent }

// HoldStuckPod implements JobStore.
func (Absent) HoldStuckPod(context.Context, *Job, JobPod) error { return ErrAbsent }

// HoldPod implements JobStore.
func (Absent) HoldPod(context.Context, *Job, JobPod) error { return ErrAbsent }

// SetActive implements JobStore.
func (Absent) SetActive(context.Context, *Job, bool) error { return ErrAbsent }

// DeleteJob implements JobStore.
func (Absent) DeleteJob(context.Context, *Job) error { return ErrAbsent }

// ServiceNamespace implements JobStore.
func (Absent) ServiceNamespace(owner string) string { return Namespace(ServicesNamespace, owner) }
