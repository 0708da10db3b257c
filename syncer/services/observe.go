package services

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"
	"weak"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// listAge is how old a list may be that a decision starts from.
const listAge = time.Second

// bucketsAge is how old a list of buckets may be that shows one of them to be gone. What
// is then done looks again.
const bucketsAge = time.Minute

// versionAge is how old OSCAR's version may be that a service is looked at with in a list, and versionPatience how long
// it is waited for where the service alone is read.
const (
	versionAge      = time.Minute
	versionPatience = 2 * time.Second
)

// observation is a situation with what it was made from.
type observation struct {
	situation
	name string
	def  *definition.Definition
	// service as OSCAR shows it; nil when there is none.
	service *manager.Service
	buckets answers.BucketSet
	// list is where the service was found, or not; nil where the read of the service proved enough.
	list *answers.Listing
	// asOf is how old what OSCAR shows may be.
	asOf time.Time
	// until is when a fresh observation is too old to write on.
	until time.Time
	// as is the owner's access token, where the service is made with it and there is one.
	as ownertoken.AccessToken
}

// observe makes a situation from the mirror and a list that may be a little old.
// With an error of the list or of the spec it still returns what the records say.
func (s *Services) observe(ctx context.Context, name string) (*observation, error) {
	v, err := s.recall(name)
	if err != nil {
		return nil, err
	}
	v.resync = s.takePeriodic(name)
	if v.desired == nil {
		s.deps.Definitions.Drop(name)
		return v, nil
	}
	d := v.desired
	if v.answered() {
		return v, nil
	}

	v.asOf = s.NewEnough(name, v.now, listAge)
	var info manager.Info
	var asked time.Time
	if goesByVersion(d) {
		info, asked, _ = s.deps.Answers.Infos.Since(v.now.Add(-versionAge))
	}
	list, listed, err := s.deps.Answers.Lists.Get(ctx, v.asOf)
	if err != nil {
		return v, err
	}
	if asked.Before(listed) {
		v.version = info.Version
	}
	if v.def, err = s.deps.Definitions.Open(ctx, name, d); err != nil {
		return v, err
	}
	if v.lookAtScript(); v.scripted {
		info, _, known := s.deps.Answers.Infos.Since(v.now.Add(-versionAge))
		v.lookAtBackend(info, known)
	}
	v.list, v.service = list, list.Services[name]
	if err := s.complete(v, listed, false); err != nil {
		return v, err
	}
	if err := s.observeRunState(ctx, v); err != nil {
		return v, err
	}
	// The list that the probes have, if it is newer than our last write.
	oldest := v.now.Add(-bucketsAge)
	if written := s.process.writes.written(name); written.After(oldest) {
		oldest = written
	}
	standing, _, ok := s.deps.Answers.Buckets.Since(oldest)
	if ok {
		v.lookForBuckets(standing)
	}
	s.lookAtInputs(v, standing)
	return v, s.findToken(v)
}

// recall makes a situation from the mirror alone.
func (s *Services) recall(name string) (*observation, error) {
	view := s.session.Mirror.Snapshot()
	v := &observation{name: name}
	v.now = s.session.Now()
	var err error
	if v.Standing, err = s.session.Standing(view.KV(record.DesiredClusterKey(s.session.ID))); err != nil {
		return nil, err
	}
	kv, ok := view.KV(record.DesiredServiceKey(s.session.ID, name))
	if !ok {
		return v, nil
	}
	if v.desired, err = store.Decode[record.Desired](kv); err != nil {
		return nil, err
	}
	v.revision = kv.ModRevision
	v.observed = s.session.Observed(view, name, v.desired.UID)
	v.memory = s.process.writes.read(name, v.desired, v.revision)
	return v, nil
}

// answered says that nothing is to be done whatever OSCAR shows: a vote or an
// acknowledgement has been given.
func (v *observation) answered() bool {
	if v.desired.Intent != record.IntentPrepare && !v.desired.Tombstone() {
		return false
	}
	return plan(v.situation).act == rest
}

// examine makes a fresh situation: one to write on. The service is read by
// itself, and last of all, linearizably, the session and the records.
func (s *Services) examine(ctx context.Context, name string) (*observation, error) {
	// The list of the write before, if it is as new as this, does as well: what
	// counts is the read of the service itself.
	v := &observation{name: name, asOf: s.NewEnough(name, s.session.Now(), listAge)}
	if goesByVersion(s.session.Desired(name)) {
		info, _, _ := s.deps.Answers.Infos.GetSoon(ctx, s.session.Now().Add(-listAge), versionPatience)
		v.version = info.Version
	}
	listed, half, err := s.readService(ctx, v)
	if err != nil {
		return nil, err
	}
	if err := s.readRecords(ctx, v); err != nil {
		return nil, err
	}
	if v.desired == nil {
		return v, nil
	}
	s.process.writes.read(name, v.desired, v.revision)
	if v.def, err = s.deps.Definitions.Open(ctx, name, v.desired); err != nil {
		return v, err
	}
	if v.lookAtScript(); v.scripted {
		info, _, known := s.deps.Answers.Infos.GetSoon(ctx, s.session.Now().Add(-versionAge), versionPatience)
		v.lookAtBackend(info, known)
	}
	s.process.writes.change(name, func(n *recent) {
		if !half {
			n.halfSince = time.Time{}
		} else if n.halfSince.IsZero() {
			n.halfSince = v.now
		}
	})
	if err := s.complete(v, listed, half); err != nil {
		return nil, err
	}
	if err := s.observeRunState(ctx, v); err != nil {
		return v, err
	}
	if err := s.lookForSecret(ctx, v); err != nil {
		return v, err
	}
	v.lookForBuckets(v.buckets)
	s.lookAtInputs(v, v.buckets)
	return v, s.findToken(v)
}

// readService asks OSCAR for the service, and for the buckets of the cluster. The list proves that
// there is none, or another's: where the service itself is read and is ours, it is not asked for.
// listed is when the list was made; half says that OSCAR lists the service and does not find it.
func (s *Services) readService(ctx context.Context, v *observation) (listed time.Time, half bool, err error) {
	// Buckets are always asked for: one that is taken for absent would be taken
	// for made by us.
	if v.buckets, _, err = s.deps.Answers.Buckets.Get(ctx, s.session.Now()); err != nil {
		return listed, false, err
	}
	v.until = s.session.ReadIsGoodUntil()
	shown, err := s.deps.OSCAR.Get(ctx, v.name)
	switch {
	case err == nil:
		v.service = shown
		if s.mirroredAs(v) == ours {
			return listed, false, nil
		}
	case !manager.NotFound(err):
		return listed, false, err
	}
	if v.list, listed, err = s.deps.Answers.Lists.Get(ctx, v.asOf); err != nil {
		return listed, false, err
	}
	if v.service == nil {
		v.service = v.list.Services[v.name]
		half = v.service != nil
	}
	return listed, half, nil
}

// mirroredAs is what the service is to the desired record that the mirror has.
func (s *Services) mirroredAs(v *observation) whose {
	if d := s.session.Desired(v.name); d != nil {
		return whoseIs(v.service, d)
	}
	return foreign
}

// goesByVersion says that OSCAR's version decides about a service. It is only waited for where it may: an OSCAR that
// tells everything else must not be without its workers for it.
func goesByVersion(d *record.Desired) bool {
	return d != nil && d.Intent == record.IntentApply && d.Drift == oscar.DriftReport
}

// readRecords reads the session and the records of the service. Without a desired record
// v.desired stays nil.
func (s *Services) readRecords(ctx context.Context, v *observation) error {
	desiredKey, observedKey := record.DesiredServiceKey(s.session.ID, v.name), record.ObservedServiceKey(s.session.ID, v.name)
	clusterKey := record.DesiredClusterKey(s.session.ID)
	seen := s.session.Mirror.Snapshot()
	read, err := s.session.Store.Read(ctx, s.session.Lease.Key(), desiredKey, observedKey, clusterKey)
	if err != nil {
		return err
	}
	if !s.session.Holds(read.KV(s.session.Lease.Key())) {
		return fmt.Errorf("service %q: %w", v.name, store.ErrSessionLost)
	}
	if !read.Follows(seen, desiredKey, observedKey, clusterKey) {
		return fmt.Errorf("service %q: %w: etcd was restored, and is not compared yet", v.name, session.ErrStale)
	}
	v.now, v.fresh = s.session.Now(), true
	if v.Standing, err = s.session.Standing(read.KV(clusterKey)); err != nil {
		return err
	}
	kv, ok := read.KV(desiredKey)
	if !ok {
		return nil
	}
	if v.desired, err = store.Decode[record.Desired](kv); err != nil {
		return err
	}
	v.revision = kv.ModRevision
	if kv, ok := read.KV(observedKey); ok {
		v.observed = s.session.DecodeObserved(kv, v.desired.UID)
	}
	return nil
}

// lookAtScript notes whether the service that is desired is exposed, and runs its script.
func (v *observation) lookAtScript() {
	v.scripted = v.def != nil && v.def.Service.Exposed() && !v.def.Service.Expose.DefaultCommand && v.def.Service.Script != ""
}

// lookAtBackend notes what OSCAR tells of its serverless backend.
func (v *observation) lookAtBackend(info manager.Info, known bool) {
	switch {
	case !known:
	case info.Serverless.Name == "":
		v.serverless = noBackend
	default:
		v.serverless = someBackend
	}
}

// lookForBuckets notes which buckets of the service are not among those of the cluster, and whether any is that has lost
// its service.
func (v *observation) lookForBuckets(standing answers.BucketSet) {
	v.local.missing, v.local.leaves = nil, false
	if v.def != nil && v.def.MakesBuckets() {
		named := v.def.DataBuckets()
		v.local.missing = absent(v.def.Buckets(), standing)
		v.local.leaves = v.local.whose == noService && len(absent(named, standing)) < len(named)
	}
}

// complete fills in what the service says of itself, and notes what was seen. half is
// known of a fresh observation.
func (s *Services) complete(v *observation, listed time.Time, half bool) error {
	v.local = localOf(v.service, v.desired)
	v.local.half = half
	s.process.writes.change(v.name, func(n *recent) { n.sawName(v.service != nil, v.fresh, listed) })
	switch v.local.whose {
	case ours:
		if err := s.compare(v); err != nil {
			return fmt.Errorf("service %q: %w", v.name, err)
		}
		s.process.writes.sawPresent(v.name)
		if !v.detached() {
			s.process.writes.change(v.name, (*recent).notErased)
		}
		if v.def != nil {
			v.local.worker, v.local.makes = v.def.Worker(), v.def.MakesBuckets()
		}
		s.process.writes.change(v.name, func(n *recent) {
			if n.doubted == v.desired.UID && definition.Registering(v.service) {
				n.confirm(v.desired.UID)
			}
		})
		if made := definition.BucketsMade(v.service.Annotations); len(made) > 0 {
			s.process.writes.change(v.name, func(n *recent) { n.made = definition.Union(n.made, made) })
		}
		s.noteVolume(v)
		if err := s.knowBare(v); err != nil {
			return fmt.Errorf("service %q: %w", v.name, err)
		}
	default:
		// Another owner's service in its place is absence of ours, too.
		if v.fresh {
			s.process.writes.sawAbsent(v.name, listed)
		}
	}
	if v.desired.Tombstone() {
		// From the tombstone on no job is posted; one that was a moment before is not
		// among those that were counted, and how one has ended is still to be reported.
		v.local.running = s.deps.Jobs.Unfinished(v.name)
		if n := s.deps.Counts.Read(v.name, v.desired.UID, s.session.Now()); n != nil && (!n.Half || half || !v.fresh) {
			v.local.running, v.local.counted = max(v.local.running, n.Running), true
		}
		if err := s.deps.Counts.Failure(v.name, v.desired.UID); err != nil {
			v.local.uncounted = manager.Scrub(err.Error(), v.secrets()...)
		}
	}
	v.memory = s.process.writes.read(v.name, v.desired, v.revision)
	v.moved = v.def != nil && v.applied() && v.observed.Storage != v.def.Storage.Mark()
	return nil
}

// localOf says what a service of the desired name is to the desired record.
func localOf(service *manager.Service, d *record.Desired) local {
	if service == nil || d == nil {
		return local{}
	}
	l := local{whose: whoseIs(service, d), storage: service.Storage, marked: definition.Marked(service), exposed: service.Exposed}
	if service.Volume.Perishes() {
		l.perishes = service.Volume.Name
	}
	if service.Annotations[oscar.AnnotationUID] == d.UID {
		l.generation, l.epoch = markedGeneration(service)
	}
	return l
}

// markedGeneration is the generation that the marks of a service name, and its epoch; 0 when they
// name none.
func markedGeneration(service *manager.Service) (generation int64, epoch string) {
	generation, err := strconv.ParseInt(service.Annotations[oscar.AnnotationGeneration], 10, 64)
	if err != nil || generation <= 0 {
		return 0, ""
	}
	return generation, service.Annotations[oscar.AnnotationEpoch]
}

// comparison is how a service of ours, as OSCAR showed it, stood to its definition.
type comparison struct {
	// shown is the hash of OSCAR's answer, and def what it was compared with; it keeps no secret in memory.
	shown         [sha256.Size]byte
	def           weak.Pointer[definition.Definition]
	hash, differs string
}

// compare compares the service with its definition. An answer that is byte for byte the one of before is
// not taken apart again: nearly all services are as they were at the last full compare.
func (s *Services) compare(v *observation) error {
	now := comparison{shown: sha256.Sum256(v.service.JSON), def: weak.Make(v.def)}
	var known comparison
	s.process.writes.change(v.name, func(n *recent) { known = n.compared })
	if known.shown != now.shown || known.def != now.def {
		got, err := definition.DecodeObject(v.service.JSON)
		if err != nil {
			return err
		}
		if now.hash, err = definition.ReadBack(got); err != nil {
			return err
		}
		if v.def != nil {
			now.differs = definition.Difference(v.def.Compare, got)
			if now.differs == "" && !v.def.HasStorage(got) {
				now.differs = "storage_providers"
			}
		}
		known = now
		s.process.writes.change(v.name, func(n *recent) { n.compared = known })
	}
	v.local.hash, v.local.differs = known.hash, known.differs
	return nil
}

// whoseIs decides by the token, which OSCAR never changes in one life of a
// service; annotations can be changed by every user and only tell how to call it.
func whoseIs(service *manager.Service, d *record.Desired) whose {
	uid := service.Annotations[oscar.AnnotationUID]
	switch {
	case service.Token != "" && record.Mark(service.Token) == d.Mark:
		return ours
	case uid == d.UID:
		return markLost
	case uid != "":
		return otherLife
	}
	return foreign
}

// secrets are what no report about the service may hold.
func (v *observation) secrets() []string {
	var out []string
	if v.def != nil {
		out = append(out, v.def.Secrets...)
	}
	if v.as.Value != "" {
		out = append(out, string(v.as.Value))
	}
	if v.service != nil {
		out = append(out, v.service.Token)
	}
	return out
}
