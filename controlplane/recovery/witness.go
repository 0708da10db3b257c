package recovery

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A restored etcd looks like any other: only what it lacks, and the leap of its revisions, show that it was restored. So each
// instance keeps a witness, a file with the newest facts that it knows to be committed, and
// compares it with the store, also at its next start.
type witness struct {
	V            int    `json:"v"`
	ControlPlane string `json:"control_plane"`
	Epoch        string `json:"epoch"`
	// Revision is the highest that was seen.
	Revision int64  `json:"revision"`
	Facts    []fact `json:"facts"`
}

// fact is one thing that was committed.
type fact struct {
	// Federation was at mod revision Revision.
	Federation string `json:"federation,omitempty"`
	// Replicas are the uids of its first replicas, when it cannot have gone since
	// without a trace of them: a deleted record, or a tombstone.
	Replicas []string `json:"replicas,omitempty"`
	// Deleted is a replica whose deletion was acknowledged at DeletedAt.
	Deleted   string       `json:"deleted,omitempty"`
	DeletedAt *record.Time `json:"deleted_at,omitempty"`
	Revision  int64        `json:"revision"`
}

// Bounds of a witness.
const (
	maxFacts        = 16
	maxFactReplicas = 8
)

// snapshot is what is looked at of a store: a mirror at one revision.
type snapshot interface {
	Revision() int64
	KV(key string) (store.KV, bool)
	Prefix(prefix string) iter.Seq[store.KV]
}

// attest collects the facts of a witness from the newest records of a store. It finds these before
// it decodes any.
func attest(meta *record.Meta, v snapshot) witness {
	w := witness{V: record.Version, ControlPlane: meta.ControlPlane, Epoch: meta.Epoch, Revision: v.Revision(), Facts: []fact{}}
	var newest []store.KV
	for _, prefix := range []string{record.FederationsPrefix, record.DeletedPrefix} {
		for kv := range v.Prefix(prefix) {
			if len(newest) == maxFacts && kv.ModRevision <= newest[maxFacts-1].ModRevision {
				continue
			}
			at, _ := slices.BinarySearchFunc(newest, kv, func(a, b store.KV) int { return cmp.Compare(b.ModRevision, a.ModRevision) })
			newest = slices.Insert(newest, at, kv)
			newest = newest[:min(len(newest), maxFacts)]
		}
	}
	for _, kv := range newest {
		ref := record.ParseKey(kv.Key)
		if ref.Kind == record.KindFederation {
			w.Facts = append(w.Facts, federationFact(kv))
		} else if d, err := store.Decode[record.Deleted](kv); err == nil {
			w.Facts = append(w.Facts, fact{Deleted: ref.Name, DeletedAt: &d.DeletedAt, Revision: kv.ModRevision})
		}
	}
	return w
}

func federationFact(kv store.KV) fact {
	out := fact{Federation: record.ParseKey(kv.Key).Name, Revision: kv.ModRevision}
	f, err := store.Decode[record.Federation](kv)
	if err != nil {
		return out
	}
	switch f.Phase {
	case record.PhaseApplying, record.PhaseReady, record.PhaseDeleting:
	default:
		return out // a result, or what may become one that is forgotten without a trace
	}
	for _, m := range f.Members {
		if m.Replica() && len(out.Replicas) < maxFactReplicas {
			out.Replicas = append(out.Replicas, m.UID)
		}
	}
	return out
}

// lost names a fact that the store does not have; empty when it has all. keep is how long deletions
// are remembered.
func (w *witness) lost(meta *record.Meta, v snapshot, now time.Time, keep time.Duration) string {
	switch {
	case w.ControlPlane != meta.ControlPlane:
		return "" // of another store
	case slices.Contains(meta.Epochs, w.Epoch):
		return "" // it was found since
	case w.Epoch != meta.Epoch:
		return "epoch " + w.Epoch
	case v.Revision() < w.Revision:
		return fmt.Sprintf("revision %d: it is at %d", w.Revision, v.Revision())
	case store.Leapt(w.Revision, v.Revision()):
		// What was made after the backup may be gone as if it had been deleted. An instance that was away while
		// half as many revisions were written begins an epoch for nothing, in which nothing differs.
		return fmt.Sprintf("most revisions from %d to %d: a restore leaps over them", w.Revision, v.Revision())
	}
	keep -= min(forgetMargin, keep/2)
	// What was there at the witness's revision may have been deleted since, and its deletion be forgotten.
	forgets := time.Duration(elapsedIn(v).Since(w.Revision))*time.Second >= keep
	var buried map[string]bool
	for _, f := range w.Facts {
		switch {
		case f.Deleted != "":
			if _, ok := v.KV(record.DeletedKey(f.Deleted)); !ok && f.DeletedAt != nil && f.young(v, now, keep) {
				return "the deletion of replica " + f.Deleted
			}
		case f.Federation != "":
			kv, ok := v.KV(record.FederationKey(f.Federation))
			if ok && kv.ModRevision < f.Revision {
				return fmt.Sprintf("revision %d of federation %s", f.Revision, f.Federation)
			}
			if ok || len(f.Replicas) == 0 || forgets {
				continue
			}
			if buried == nil {
				buried = tombstones(v)
			}
			if !slices.ContainsFunc(f.Replicas, func(uid string) bool { return buried[uid] }) {
				return "federation " + f.Federation
			}
		}
	}
	return ""
}

// young says whether a deletion is of less than a time ago, by the time that is agreed on
// in a store; by the clock if the store kept none yet.
func (f fact) young(v snapshot, now time.Time, than time.Duration) bool {
	if e := elapsedIn(v); e.Knows(f.Revision) {
		return time.Duration(e.Since(f.Revision))*time.Second < than
	}
	return now.Sub(f.DeletedAt.Time) < than
}

// forgetMargin is how much earlier than promised a deletion may be forgotten, at most by half of the time.
const forgetMargin = 24 * time.Hour

// tombstones are the uids that a store has as deleted.
func tombstones(v snapshot) map[string]bool {
	out := map[string]bool{}
	for kv := range v.Prefix(record.DeletedPrefix) {
		out[record.ParseKey(kv.Key).Name] = true
	}
	for kv := range v.Prefix(record.ClusterTreePrefix) {
		if record.ParseKey(kv.Key).Kind != record.KindDesiredService {
			continue
		}
		if d, err := store.Decode[record.Desired](kv); err == nil && d.Tombstone() {
			out[d.UID] = true
		}
	}
	return out
}
