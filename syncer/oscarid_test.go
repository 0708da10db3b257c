package syncer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/test/await"
)

func always() bool { return true }

// marks counts the buckets that mark the OSCAR.
func (r *rig) marks() (n int) {
	for _, name := range r.sim.Buckets() {
		if strings.HasPrefix(name, "oscarfed-oscar-") {
			n++
		}
	}
	return n
}

// TestEverySyncerOfAnOSCARReadsTheSameIdentity, and the first one gives it.
func TestEverySyncerOfAnOSCARReadsTheSameIdentity(t *testing.T) {
	for name, tc := range map[string]struct{ fault, called string }{
		"": {}, "it answers 500 and has done it": {fault: oscarsim.Fault500After}, "it has a name": {called: "science"},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Name: tc.called})
				r.fault(oscarsim.OpBucketCreate, tc.fault, 0)
				client := r.oscar("syncer")
				if id, err := answers.Identify(t.Context(), client, "", func() bool { return false }); id != "" || err != nil || r.marks() != 0 {
					t.Errorf("%q, %v before anybody may mark it, and %d marks", id, err, r.marks())
				}
				first, err := answers.Identify(t.Context(), client, "", always)
				if err != nil || first == "" {
					t.Fatalf("%q, %v", first, err)
				}
				// Users make buckets as well.
				r.sim.TagBucket("oscarfed-oscar-00000000-0000-4000-8000-000000000000", map[string]string{"owner": "bob", "owner_name": "bob"})
				r.sim.PutBucket("oscarfed-oscar-00000000-0000-4000-8000-000000000001")
				if again, err := answers.Identify(t.Context(), client, "", always); again != first || err != nil {
					t.Errorf("%q, %v; it was %q", again, err, first)
				}
			})
		})
	}
}

// forgedMark is a bucket that a user has made, and tagged as his OSCAR tags its administrator's.
func (r *rig) forgedMark() {
	r.sim.TagBucket("oscarfed-oscar-00000000-0000-4000-8000-000000000000", map[string]string{"owner": "oscar", "owner_name": "oscar"})
}

// TestAUserOfTwoOSCARsPassedThemOffAsOne: by the tags, which every user can set, his bucket was the administrator's.
func TestAUserOfTwoOSCARsPassedThemOffAsOne(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		stop := r.start()
		r.eventually("it is reported", func() bool { c := r.cluster(); return c != nil && c.OscarID != "" })
		first := r.cluster().OscarID
		stop()
		r.forgedMark()
		r.start()
		r.resynced()
		if id := r.cluster().OscarID; id != first {
			t.Errorf("%q is reported; it was %q", id, first)
		}
	})
}

// TestBucketsOfUsersKeptAnOSCARFromBeingMarked: three with the name of a mark.
func TestBucketsOfUsersKeptAnOSCARFromBeingMarked(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		for _, last := range "123" {
			r.sim.TagBucket("oscarfed-oscar-00000000-0000-4000-8000-00000000000"+string(last), map[string]string{"owner": "bob", "owner_name": "bob"})
		}
		client := r.oscar("syncer")
		first, err := answers.Identify(t.Context(), client, "", always)
		if first == "" || err != nil {
			t.Fatalf("%q, %v", first, err)
		}
		if again, err := answers.Identify(t.Context(), client, "", always); again != first || err != nil || r.marks() != 4 {
			t.Errorf("%q, %v; it was %q, and there are %d marks", again, err, first, r.marks())
		}
	})
}

// TestMarksOfAnOSCARDoNotMultiply on one that never shows them as its administrator's.
func TestMarksOfAnOSCARDoNotMultiply(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		client := r.oscar("syncer")
		for range 5 {
			before := r.sim.Buckets()
			id, _ := answers.Identify(t.Context(), client, "", always)
			for _, name := range r.sim.Buckets() {
				if len(before) < len(r.sim.Buckets()) && strings.HasSuffix(name, id) && id != "" {
					r.sim.TagBucket(name, nil)
				}
			}
		}
		if n := r.marks(); n != 3 {
			t.Errorf("%d marks", n)
		}
	})
}

func TestTheSyncerTellsWhichOSCARItHas(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		r.eventually("it is reported", func() bool { c := r.cluster(); return c != nil && c.OscarID != "" })
		if id, err := answers.Identify(context.WithoutCancel(t.Context()), r.oscar("syncer"), "", always); err != nil || id != r.cluster().OscarID {
			t.Errorf("%q is reported, and it is %q (%v)", r.cluster().OscarID, id, err)
		}
	})
}

// TestASharedMinIOSaysNothingOfTheOSCAR, and is not marked.
func TestASharedMinIOSaysNothingOfTheOSCAR(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start(func(c *syncer.Config) { c.SharedMinIO = true })
		r.eventually("it reports", func() bool { c := r.cluster(); return c != nil && c.OscarVersion != "" })
		if c := r.cluster(); c.OscarID != "" || r.marks() != 0 {
			t.Errorf("it tells %q, and there are %d marks", c.OscarID, r.marks())
		}
	})
}

// TestNothingIsWrittenToAnOSCARThatIsAnotherClustersToo until it is its own.
func TestNothingIsWrittenToAnOSCARThatIsAnotherClustersToo(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		same := func(as string) {
			r.put(record.DesiredClusterKey(clusterID), record.DesiredCluster{V: 1, ClusterID: clusterID, UID: "registered-first", State: record.ClusterActive, SameOscarAs: as})
		}
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		same("another")
		other := newReplica("other")
		r.want(p, record.IntentDelete)
		r.want(other, record.IntentApply)
		r.resynced()
		r.equalCalls(p.name, "create")
		r.equalCalls(other.name)
		same("")
		r.await(p, record.PhaseDeleted)
		r.await(other, record.PhaseReady)
	})
}
