package services

import (
	"context"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
)

// foreignBucket names a bucket that the definition would use and that is not this
// owner's. already are those that the service uses now.
//
// That this life made a bucket of the name, or an earlier one left it, is memory: it
// may have been deleted, and another may stand there. So memory makes up for tags that
// are missing, since OSCAR's PUT sets none, and for no others.
//
// OSCAR does not tell a bucket elsewhere from one here: it must be this owner's, too, if it stands.
func (s *Services) foreignBucket(ctx context.Context, v *observation, already []string) (name string, reason record.Reason, err error) {
	made := definition.Union(s.notedBuckets(v), s.madeBuckets(v))
	elsewhere := v.def.Elsewhere()
	for _, name := range slices.Concat(v.def.DataBuckets(), elsewhere) {
		bucket, exists := v.buckets[name]
		if !exists {
			continue
		}
		own, left := slices.Contains(made, name), slices.Contains(v.def.Left, name)
		switch service, owned := bucket.FromService(), definition.SameOwner(bucket.Owner, v.desired.Owner); {
		case !bucket.Tagged() && (own || left):
			used, err := s.usedByOthers(ctx, v, name)
			if err != nil {
				return "", "", err
			}
			if !used {
				continue
			}
		case service == v.name && owned, bucket.Tagged() && owned && slices.Contains(elsewhere, name):
			continue
		case service == "" && owned && (own || left):
			continue
		case left && owned && v.def.LeftBy(service):
			continue
		case slices.Contains(already, name) && !own:
			continue
		case service == v.name:
			return name, record.ReasonBucketLeft, nil
		}
		return name, record.ReasonForeignBucket, nil
	}
	return "", "", nil
}

// usedByOthers says whether a service of another owner names the bucket. The
// administrator's own services are of many people, unless the store says whose one is.
func (s *Services) usedByOthers(ctx context.Context, v *observation, bucket string) (bool, error) {
	if v.list == nil {
		var err error
		if v.list, _, err = s.deps.Answers.Lists.Get(ctx, v.asOf); err != nil {
			return false, err
		}
	}
	view := s.session.Mirror.Snapshot()
	for name, service := range v.list.Services {
		if name == v.name {
			continue
		}
		named, err := definition.BucketsOf(service)
		if err != nil {
			return false, fmt.Errorf("service %q: %w", name, err)
		}
		if !slices.Contains(named, bucket) {
			continue
		}
		if v.desired.Owner != oscar.OwnerAdmin && service.Owner == v.desired.Owner {
			continue
		}
		if kv, ok := view.KV(record.DesiredServiceKey(s.session.ID, name)); ok {
			d, err := store.Decode[record.Desired](kv)
			if err != nil {
				return false, err
			}
			if d.Owner == v.desired.Owner && whoseIs(service, d) == ours {
				continue
			}
		}
		return true, nil
	}
	return false, nil
}

func (v *observation) foreignBucketMessage(bucket string, reason record.Reason) string {
	if slices.Contains(v.def.Elsewhere(), bucket) {
		return fmt.Sprintf("bucket %q exists on the cluster and is not of the federation; OSCAR takes it for the one that an output names in another store: use another path there, or delete it here if nobody needs it", bucket)
	}
	if reason == record.ReasonBucketLeft {
		return fmt.Sprintf("bucket %q was left on the cluster by a service of this name of another owner; it is not touched: delete or rename it there, or use another path", bucket)
	}
	return fmt.Sprintf("bucket %q exists on the cluster and is not of the federation; it is not touched: use another path, or delete it there if nobody needs it", bucket)
}
