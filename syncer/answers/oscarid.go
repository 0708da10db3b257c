package answers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// An OSCAR has no identity of its own that its API tells. So that one which is
// registered twice is noticed, also without Kubernetes, the first syncer makes an empty
// bucket whose name says which OSCAR this is, and every later one reads it. Only the
// administrator's own counts: users make buckets, too.

// markerPrefix begins the name of that bucket; a UUID follows.
const markerPrefix = "oscarfed-oscar-"

// maxMarkers bounds how many are made on an OSCAR that does not show them as its
// administrator's.
const maxMarkers = 3

// markerTimeout bounds how long a report waits for the identity.
const markerTimeout = 5 * time.Second

// markerAge is how old the identity may be that is reported.
const markerAge = 10 * time.Minute

// Buckets is what Identify asks of an OSCAR.
type Buckets interface {
	Buckets(ctx context.Context) ([]manager.Bucket, error)
	Name(ctx context.Context) (string, error)
	CreateBucket(ctx context.Context, name string) error
}

// Identify says which OSCAR this is. One that was never asked is given an identity if
// mayMark says so; otherwise it is empty. Of two syncers that give it one at the same
// time both read the lesser one in the end.
func Identify(ctx context.Context, o Buckets, mayMark func() bool) (string, error) {
	id, tries, err := markerOf(ctx, o)
	if err != nil || id != "" || tries >= maxMarkers || !mayMark() {
		return id, err
	}
	name := markerPrefix + uuid.NewString()
	made := o.CreateBucket(ctx, name)
	// Whether it was made is seen by looking: OSCAR answers 500 after it did the work.
	if id, _, err = markerOf(ctx, o); err != nil {
		return "", err
	}
	if id == "" {
		return "", errors.Join(fmt.Errorf("bucket %q, which marks this OSCAR, was not made", name), made)
	}
	return id, nil
}

// markerOf also counts the buckets with such a name, also those of users.
func markerOf(ctx context.Context, o Buckets) (least string, named int, err error) {
	list, err := o.Buckets(ctx)
	if err != nil {
		return "", 0, err
	}
	called := sync.OnceValues(func() (string, error) { return o.Name(ctx) })
	for _, b := range list {
		id, marks := strings.CutPrefix(b.Name, markerPrefix)
		if !marks || uuid.Validate(id) != nil {
			continue
		}
		named++
		owned, err := administrators(b, called)
		if err != nil {
			return "", 0, err
		}
		if owned && (least == "" || id < least) {
			least = id
		}
	}
	return least, named, nil
}

// administrators says whether OSCAR names its administrator as the owner of a bucket, whom it calls like itself.
func administrators(b manager.Bucket, called func() (string, error)) (bool, error) {
	switch {
	case b.Owner == "":
		return false, nil // anybody's
	case definition.SameOwner(b.Owner, oscar.OwnerAdmin):
		return true, nil
	}
	name, err := called()
	return b.Owner == name, err
}

// identify is Identify for this session. A cluster that is paused is given nothing.
func (a *Answers) identify(ctx context.Context) (string, error) {
	return Identify(ctx, a.oscar, func() bool {
		self := a.session.DesiredCluster(a.session.Mirror.Snapshot())
		return a.session.Leads() && a.session.Lease.Alive() && self != nil && self.State != record.ClusterPaused && self.State != record.ClusterRevoked
	})
}

// OSCARID is what is known of the identity in a moment; empty when nothing is.
func (a *Answers) OSCARID(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	id, _, err := a.ids.Get(ctx, a.session.Now().Add(-markerAge))
	if err != nil {
		a.session.Log.Warn("which OSCAR this is cannot be said: one that is registered twice is not noticed", "error", err)
	}
	return id
}
