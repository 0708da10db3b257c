package services

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

const (
	// countTimeout bounds the counting for one acknowledgement: telling what stays
	// is a courtesy, and holds nothing up.
	countTimeout = 10 * time.Second
	// countMost is where counting one bucket ends; OSCAR gives 70 objects at a time.
	countMost = 10_000
	// maxFates bounds how many buckets one report tells of.
	maxFates = 64
)

// keeps says why a bucket stays although the owner ordered its deletion with the
// service; empty when it goes. Only what this life made, and what still says so,
// is the owner's to order: anything else may be another user's data.
func keeps(bucket manager.Bucket, service, owner string, made, used bool) string {
	switch {
	case !made:
		return "it was not made by this creation"
	case used:
		return "another service uses it"
	case bucket.FromService() == "":
		return "its tags do not say that it was made for this service"
	case bucket.FromService() != service, !definition.SameOwner(bucket.Owner, owner):
		return "somebody else has made it anew"
	}
	return ""
}

// usedBuckets are those that the services of the cluster name.
func (s *Services) usedBuckets(ctx context.Context, notBefore time.Time) (map[string]bool, error) {
	list, _, err := s.deps.Answers.Lists.Get(ctx, notBefore)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, service := range list.Services {
		names, err := definition.BucketsOf(service)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			used[name] = true
		}
	}
	return used, nil
}

// fates tell what became of the buckets of a deleted replica: those that it named
// when it was last seen as desired, and those that it made.
func (s *Services) fates(ctx context.Context, v *observation) []record.BucketFate {
	if v.desired.Keep != "" {
		return nil // the service goes on, and its buckets with it
	}
	made := s.notedBuckets(v)
	names := made
	if v.observed != nil {
		names = definition.Union(names, v.observed.Buckets)
	}
	ordered := v.desired.Data == record.DataDelete
	var used map[string]bool
	if ordered {
		var err error
		if used, err = s.usedBuckets(ctx, v.asOf); err != nil {
			s.session.Log.Warn("which buckets are used is not known", "service", v.name, "error", err)
		}
	}
	counting, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	var out []record.BucketFate
	for _, name := range names[:min(len(names), maxFates)] {
		bucket, exists := v.buckets[name]
		mine := slices.Contains(made, name)
		switch {
		case v.buckets == nil:
			out = append(out, record.BucketFate{Bucket: name, Fate: record.BucketKept, Why: "the cluster's buckets could not be listed"})
			continue
		case !exists && ordered && mine:
			out = append(out, record.BucketFate{Bucket: name, Fate: record.BucketDeleted})
			continue
		case !exists:
			continue // it was gone before
		}
		fate := record.BucketFate{Bucket: name, Fate: record.BucketKept}
		if ordered {
			if fate.Why = keeps(bucket, v.name, v.desired.Owner, mine, used[name]); fate.Why == "" {
				fate.Why = "it was made anew meanwhile"
			}
		}
		if definition.SameOwner(bucket.Owner, v.desired.Owner) { // how much others have is theirs to know
			s.count(counting, v.name, &fate)
		}
		out = append(out, fate)
	}
	return out
}

// count fills in how many objects a bucket holds, as far as that can be read.
func (s *Services) count(ctx context.Context, service string, fate *record.BucketFate) {
	n, more, err := s.deps.OSCAR.CountObjects(ctx, fate.Bucket, countMost)
	if err != nil && (!more || ctx.Err() == nil) { // the end of its time leaves a least count
		s.session.Log.Warn("objects of a bucket are not counted", "service", service, "bucket", fate.Bucket, "error", err)
		return
	}
	fate.Objects, fate.AtLeast = &n, more
}

// notedBuckets are the buckets that this life's writes made, in order, whatever
// became of them.
func (s *Services) notedBuckets(v *observation) []string {
	noted := map[string]bool{}
	s.process.writes.change(v.name, func(n *recent) {
		if n.uid == v.desired.UID {
			for _, name := range n.made {
				noted[name] = true
			}
		}
	})
	if v.observed != nil {
		for _, name := range v.observed.BucketsMade {
			noted[name] = true
		}
	}
	if told := v.desired.Told; told != nil {
		for _, name := range told.BucketsMade {
			noted[name] = true
		}
	}
	return slices.Sorted(maps.Keys(noted))
}
