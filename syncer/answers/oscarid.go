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

// maxMarkers bounds how many are made on an OSCAR that does not show whose they are.
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

// Identify says which OSCAR this is. What was said before stays as long as that mark stands: every user can make a
// bucket that looks like one. An OSCAR that was never asked is given an identity if mayMark says so; otherwise it is
// empty. Of two syncers that give it one at the same time both read the lesser one, unless one has said its own.
func Identify(ctx context.Context, o Buckets, before string, mayMark func() bool) (string, error) {
	m, err := marksOf(ctx, o)
	switch {
	case err != nil:
		return "", err
	case m.owned[before]:
		return before, nil
	case m.least != "" || m.unowned >= maxMarkers || !mayMark():
		return m.least, nil
	}
	id := uuid.NewString()
	made := o.CreateBucket(ctx, markerPrefix+id)
	// Whether it was made is seen by looking: OSCAR answers 500 after it did the work.
	m, err = marksOf(ctx, o)
	switch {
	case err != nil:
		return "", err
	case m.least != "":
		return m.least, nil
	case m.owned[id]: // this OSCAR calls its administrator otherwise
		return id, nil
	}
	return "", errors.Join(fmt.Errorf("bucket %q, which marks this OSCAR, was not made", markerPrefix+id), made)
}

// marks are the buckets with the name of a mark.
type marks struct {
	// owned have an owner, least is the least of those of the administrator, and unowned counts the others.
	owned   map[string]bool
	least   string
	unowned int
}

func marksOf(ctx context.Context, o Buckets) (marks, error) {
	m := marks{owned: map[string]bool{}}
	list, err := o.Buckets(ctx)
	if err != nil {
		return m, err
	}
	called := sync.OnceValues(func() (string, error) { return o.Name(ctx) })
	for _, b := range list {
		id, named := strings.CutPrefix(b.Name, markerPrefix)
		if !named || uuid.Validate(id) != nil {
			continue
		}
		if b.Owner == "" { // anybody's
			m.unowned++
			continue
		}
		m.owned[id] = true
		ours, err := administrators(b, called)
		if err != nil {
			return m, err
		}
		if ours && (m.least == "" || id < m.least) {
			m.least = id
		}
	}
	return m, nil
}

// administrators says whether OSCAR names its administrator as the owner of a bucket that has one. It calls him like
// itself.
func administrators(b manager.Bucket, called func() (string, error)) (bool, error) {
	if definition.SameOwner(b.Owner, oscar.OwnerAdmin) {
		return true, nil
	}
	name, err := called()
	return b.Owner == name, err
}

// identify is Identify for this session. A cluster that is paused is given nothing.
func (a *Answers) identify(ctx context.Context) (string, error) {
	before := ""
	if told := a.session.ObservedCluster(a.session.Mirror.Snapshot()); told != nil {
		before = told.OscarID
	}
	return Identify(ctx, a.oscar, before, func() bool {
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
