// Package kube owns what the syncer asks of the Kubernetes below its OSCAR,
// beside OSCAR's own REST API. A syncer outside of the cluster does without:
// Absent answers ErrAbsent to everything.
package kube

import (
	"context"
	"errors"
)

// ErrAbsent says that the syncer cannot reach Kubernetes.
var ErrAbsent = errors.New("this syncer has no access to Kubernetes")

// Interface is what the syncer needs of Kubernetes.
type Interface interface {
	// SystemUID is the uid of the namespace kube-system, which identifies the cluster.
	SystemUID(ctx context.Context) (string, error)
	// SecretLeft says whether a Secret of the service's name exists: it would
	// make OSCAR refuse a service with secrets.
	SecretLeft(ctx context.Context, service string) (bool, error)
	// Heal gives a half-created service, which OSCAR lists and cannot read, an
	// empty PodTemplate of its name, so that OSCAR can read and delete it.
	Heal(ctx context.Context, service string) error
}

// Absent is the Kubernetes of a syncer that has none.
type Absent struct{}

// SystemUID implements Interface.
func (Absent) SystemUID(context.Context) (string, error) { return "", ErrAbsent }

// SecretLeft implements Interface.
func (Absent) SecretLeft(context.Context, string) (bool, error) { return false, ErrAbsent }

// Heal implements Interface.
func (Absent) Heal(context.Context, string) error { return ErrAbsent }
