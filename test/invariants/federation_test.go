package invariants_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// replica is one member of a scripted federation.
type replica struct{ cluster, service, uid string }

func (r replica) desired() string  { return record.DesiredServiceKey(r.cluster, r.service) }
func (r replica) observed() string { return record.ObservedServiceKey(r.cluster, r.service) }
func (r replica) deleted() string  { return record.DeletedKey(r.uid) }
func (r replica) spec() string     { return r.specOf(1) }

// specOf is the key of a spec; later generations have a word of their change in it.
func (r replica) specOf(generation int64) string {
	return record.SpecKey(r.cluster, r.specName(generation))
}

func (r replica) specName(generation int64) string {
	if generation == 1 {
		return record.SpecName(r.service, r.uid, 1)
	}
	return record.ChangedSpecName(r.service, r.uid, generation, "request-of-the-change")
}

func (r replica) name() string  { return r.cluster + "/" + r.service }
func (r replica) token() string { return strings.TrimPrefix(record.Mark("token of "+r.uid), "sha256:") }

// federation is one scripted federation.
type federation struct {
	s          *script
	uid, group string
	topology   string
	deployment string
	replicas   []replica
	left       map[string][]string // by cluster: buckets that the specs may attach to
}

// federation makes one over the clusters a, b and c; nothing is written yet.
func (s *script) federation(uid, group string) *federation {
	f := &federation{s: s, uid: uid, group: group, topology: "mesh", deployment: "transactional"}
	for i, c := range s.clusters[:3] {
		f.replicas = append(f.replicas, replica{c, fmt.Sprintf("%s%d", group, i), uid + "-" + c})
	}
	return f
}

func (f *federation) key() string     { return record.FederationKey(f.uid) }
func (f *federation) name() string    { return record.NameKey(owner, f.group) }
func (f *federation) history() string { return record.HistoryKey(f.uid, 1) }
func (f *federation) secrets() string { return record.SecretsKey(f.uid, f.generation()) }
func (f *federation) request() string { return record.RequestKey("request-of-" + f.uid) }

// generation is that of the federation as it stands.
func (f *federation) generation() int64 { return f.record().Generation }

// record is the federation as it stands; empty when it is not there.
func (f *federation) record() record.Federation {
	fed := record.Federation{Generation: 1}
	if have, ok := f.s.keys[f.key()]; ok {
		if err := json.Unmarshal(have.value, &fed); err != nil {
			f.s.t.Fatal(err)
		}
	}
	return fed
}

// submit writes the service as it was submitted for a generation.
func (f *federation) submit(x *txn, generation int64) {
	sealed, err := seal.Seal(seal.Header{Purpose: "submitted", UID: f.uid, Generation: generation}, []byte("{}"), f.s.identity.Recipient())
	if err != nil {
		f.s.t.Fatal(err)
	}
	x.put(record.HistoryKey(f.uid, generation), record.History{V: 1, Service: json.RawMessage(`{"name":"` + f.group + `0","image":"i","script":"s"}`)})
	x.put(record.SecretsKey(f.uid, generation), record.Secrets{V: 1, Generation: generation, Sealed: sealed})
}

// render writes the spec of a replica for a generation.
func (f *federation) render(x *txn, r replica, generation int64) {
	public, err := json.Marshal(map[string]any{
		"name": r.service, "cluster_id": r.cluster, "token": "",
		"environment": map[string]any{"secrets": map[string]string{"password": ""}, "variables": map[string]string{"API_TOKEN_URL": "https://x"}},
		"federation":  map[string]any{"group_id": f.group, "members": []string{}},
		"annotations": map[string]string{
			"oscarfed/uid": r.uid, "oscarfed/generation": strconv.FormatInt(generation, 10), "oscar.grycap/federation-worker": "true",
		},
	})
	if err != nil {
		f.s.t.Fatal(err)
	}
	sealed, err := seal.Seal(seal.Header{Purpose: "spec", Cluster: r.cluster, UID: r.uid, Generation: generation}, []byte(r.token()), f.s.identity.Recipient())
	if err != nil {
		f.s.t.Fatal(err)
	}
	x.put(r.specOf(generation), record.Spec{V: 1, Service: public, Sealed: sealed, Left: f.left[r.cluster]})
}

// at is the replica on a cluster.
func (f *federation) at(cluster string) replica {
	for _, r := range f.replicas {
		if r.cluster == cluster {
			return r
		}
	}
	f.s.t.Fatalf("federation %s has nothing on %s", f.uid, cluster)
	return replica{}
}

// step is a step of this federation, named <uid> <step>.
func (f *federation) step(name string, build func(*txn)) { f.s.step(f.uid+" "+name, build) }

func (f *federation) sees(i int) []string {
	var out []string
	for j, r := range f.replicas {
		if j != i && (f.topology == "mesh" || f.topology != "none" && i == 0) {
			out = append(out, r.name())
		}
	}
	return out
}

// specs writes what transaction A refers to.
func (f *federation) specs() {
	f.step("specs", func(x *txn) {
		f.submit(x, 1)
		for _, r := range f.replicas {
			f.render(x, r, 1)
		}
	})
}

// create is transaction A.
func (f *federation) create() {
	f.specs()
	f.step("create", func(x *txn) {
		fed := record.Federation{
			V: 1, UID: f.uid, Owner: owner, GroupID: f.group, Generation: 1, Phase: record.PhasePreparing, RequestID: "r-" + f.uid,
			Topology: f.topology, Deployment: f.deployment, Request: "request-of-" + f.uid, CreatedAt: clock, ChangedAt: clock,
		}
		for i, r := range f.replicas {
			fed.Members = append(fed.Members, record.Member{
				Type: "oscar", ClusterID: r.cluster, ServiceName: r.service, UID: r.uid, Coordinator: i == 0,
			})
			x.put(r.desired(), record.Desired{
				V: 1, Intent: record.IntentPrepare, Federation: f.uid, GroupID: f.group, UID: r.uid, Generation: 1, Owner: owner,
				Spec: record.SpecName(r.service, r.uid, 1), Sees: f.sees(i), Mark: record.Mark(r.token()),
			})
		}
		x.put(f.name(), record.Name{V: 1, UID: f.uid})
		x.put(f.key(), fed)
		x.put(f.request(), record.Request{V: 1, UID: f.uid})
	})
}

// report is what a syncer writes about the desired record as it stands.
func (f *federation) report(step, cluster string, phase record.Phase, mutate ...func(*record.Observed)) {
	r := f.at(cluster)
	f.step(step+" "+cluster, func(x *txn) {
		o := record.Observed{V: 1}
		if have, ok := f.s.keys[r.observed()]; ok {
			if err := json.Unmarshal(have.value, &o); err != nil {
				f.s.t.Fatal(err)
			}
		}
		o.Phase, o.UID, o.ObservedGeneration, o.DesiredRevision = phase, r.uid, f.desiredOf(r).Generation, f.s.keys[r.desired()].revision
		for _, m := range mutate {
			m(&o)
		}
		x.put(r.observed(), o)
	})
}

func (f *federation) vote(answer string, clusters ...string) {
	phase := record.PhasePrepared
	if answer == record.VoteNo {
		phase = record.PhaseRefused
	}
	for _, c := range clusters {
		f.report("vote", c, phase, func(o *record.Observed) {
			o.Vote = &record.Vote{Answer: answer, Revision: f.s.keys[f.at(c).desired()].revision}
		})
	}
}

// applied is what syncers report after the work.
func (f *federation) applied(phase record.Phase, clusters ...string) {
	for _, c := range clusters {
		f.report("applied", c, phase, func(o *record.Observed) { o.BucketsMade = []string{f.group} })
	}
}

func (f *federation) acknowledge(clusters ...string) {
	for _, c := range clusters {
		f.report("ack", c, record.PhaseDeleted)
	}
}

// turn writes the federation in its next phase.
func (f *federation) turn(x *txn, phase record.Phase) {
	edit(x, f.key(), func(fed *record.Federation) { fed.Phase = phase })
}

// commit is transaction B: the clusters named apply, the others go on preparing.
func (f *federation) commit(clusters ...string) {
	f.step("commit", func(x *txn) {
		f.turn(x, record.PhaseApplying)
		if f.deployment == "best-effort" {
			f.turn(x, record.PhaseReady)
		}
		for _, c := range clusters {
			edit(x, f.at(c).desired(), func(d *record.Desired) { d.Intent = record.IntentApply })
		}
	})
}

// join completes a best-effort creation by one cluster.
func (f *federation) join(cluster string) {
	f.step("join", func(x *txn) {
		f.turn(x, record.PhaseReady)
		edit(x, f.at(cluster).desired(), func(d *record.Desired) { d.Intent = record.IntentApply })
	})
}

func (f *federation) ready() { f.step("ready", func(x *txn) { f.turn(x, record.PhaseReady) }) }

// change writes another generation of everything, as a PUT of the same service would.
func (f *federation) change(x *txn, generation int64) {
	f.submit(x, generation)
	x.remove(f.secrets())
	edit(x, f.key(), func(fed *record.Federation) { fed.Generation = generation })
	for _, r := range f.replicas {
		f.render(x, r, generation)
		edit(x, r.desired(), func(d *record.Desired) { d.Generation, d.Spec = generation, r.specName(generation) })
	}
}

// bury turns all replicas into tombstones.
func (f *federation) bury(phase record.Phase, cause record.Cause) {
	f.step("bury", func(x *txn) {
		f.turn(x, phase)
		for _, r := range f.replicas {
			if f.desiredOf(r).Intent == record.IntentPrepare {
				f.take(x, r)
				continue
			}
			edit(x, r.desired(), func(d *record.Desired) { d.Intent, d.Cause, d.Spec, d.Sees = record.IntentDelete, cause, "", nil })
			x.remove(r.specOf(f.generation()))
		}
		x.remove(f.secrets())
		if phase == record.PhaseDeleting {
			x.remove(f.name())
		}
	})
}

func (f *federation) desiredOf(r replica) record.Desired {
	var d record.Desired
	if err := json.Unmarshal(f.s.keys[r.desired()].value, &d); err != nil {
		f.s.t.Fatal(err)
	}
	return d
}

// take takes the records of a replica out of the store.
func (f *federation) take(x *txn, r replica) {
	x.remove(r.desired())
	if _, reported := f.s.keys[r.observed()]; reported {
		x.remove(r.observed())
	}
	for generation := range f.generation() {
		if _, staged := f.s.keys[r.specOf(generation+1)]; staged {
			x.remove(r.specOf(generation + 1))
		}
	}
}

// takeBuried also remembers the acknowledged tombstone.
func (f *federation) takeBuried(x *txn, r replica, cause record.Cause) {
	var o record.Observed
	if err := json.Unmarshal(f.s.keys[r.observed()].value, &o); err != nil {
		f.s.t.Fatal(err)
	}
	f.take(x, r)
	x.put(r.deleted(), record.Deleted{
		V: 1, UID: r.uid, Federation: f.uid, ClusterID: r.cluster, ServiceName: r.service, Owner: owner,
		Generation: f.desiredOf(r).Generation, Cause: cause, BucketsLeft: o.BucketsMade, DeletedAt: clock,
	})
}

func (f *federation) abort() {
	f.step("abort", func(x *txn) {
		f.turn(x, record.PhaseAborted)
		x.remove(f.name())
		x.remove(f.request())
		x.remove(f.secrets())
		for _, r := range f.replicas {
			f.take(x, r)
		}
	})
}

func (f *federation) rolledBack(clusters ...string) {
	f.step("rolled back", func(x *txn) {
		f.turn(x, record.PhaseRolledBack)
		x.remove(f.name())
		for _, c := range clusters {
			f.takeBuried(x, f.at(c), record.CauseRollback)
		}
	})
}

// late takes a tombstone of a result that was acknowledged late.
func (f *federation) late(cluster string, cause record.Cause) {
	f.step("late", func(x *txn) {
		edit(x, f.key(), func(fed *record.Federation) { fed.Detail = "late" })
		f.takeBuried(x, f.at(cluster), cause)
	})
}

// forget removes the federation, with the acknowledged tombstones of these clusters.
func (f *federation) forget(clusters ...string) {
	f.step("forget", func(x *txn) {
		x.remove(f.key())
		x.remove(f.history())
		for _, c := range clusters {
			f.takeBuried(x, f.at(c), record.CauseDeleted)
		}
	})
}

// The stories, each to its end.

// propose asks a cluster for its vote on a change that adds it.
func (f *federation) propose(cluster, uid string, generation int64) replica {
	r := replica{cluster, fmt.Sprintf("%s%d", f.group, len(f.replicas)), uid}
	f.step("change specs", func(x *txn) {
		for _, r := range append(slices.Clone(f.replicas), r) {
			f.render(x, r, generation)
		}
	})
	f.step("propose", func(x *txn) {
		change := &record.Change{Topology: f.topology, Members: slices.Clone(f.record().Members), Specs: map[string]string{}}
		for _, r := range f.replicas {
			change.Specs[r.uid] = r.specName(generation)
		}
		change.Members = append(change.Members, record.Member{Type: "oscar", ClusterID: r.cluster, ServiceName: r.service, UID: r.uid})
		change.Request = "change-of-" + f.uid + uid
		x.put(record.RequestKey(change.Request), record.Request{V: 1, UID: f.uid, Keyed: true})
		edit(x, f.key(), func(fed *record.Federation) { fed.Change = change })
		f.submit(x, generation)
		f.replicas = append(f.replicas, r)
		x.put(r.desired(), record.Desired{
			V: 1, Intent: record.IntentPrepare, Federation: f.uid, GroupID: f.group, UID: r.uid, Generation: generation, Owner: owner,
			Spec: r.specName(generation), Sees: f.sees(len(f.replicas) - 1), Mark: record.Mark(r.token()),
		})
	})
	return r
}

// answer writes the outcome of the change that waits for votes into its request.
func (f *federation) answer(x *txn, phase record.Phase) {
	edit(x, record.RequestKey(f.record().Change.Request), func(r *record.Request) { r.Answer = &record.Answer{Phase: phase} })
}

// grow makes a proposed change the present generation.
func (f *federation) grow(generation int64) {
	f.step("grow", func(x *txn) {
		x.remove(f.secrets())
		f.answer(x, record.PhaseReady)
		edit(x, f.key(), func(fed *record.Federation) {
			fed.Generation, fed.Members, fed.Change = generation, fed.Change.Members, nil
		})
		for i, r := range f.replicas {
			edit(x, r.desired(), func(d *record.Desired) {
				d.Intent, d.Generation, d.Spec, d.Sees = record.IntentApply, generation, r.specName(generation), f.sees(i)
			})
		}
	})
}
