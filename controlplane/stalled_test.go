package controlplane_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// stall holds the first request that comes to a fail point until what it has staged was
// swept, as if its machine had slept meanwhile.
type stall struct {
	w    *world
	at   string
	once sync.Once
	held chan []string
}

func stallAt(t *testing.T, point string) *stall {
	t.Helper()
	s := &stall{at: point, held: make(chan []string, 1)}
	s.w = newWorld(t, func(c *controlplane.Config) { c.SweepInterval, c.FailPoint = time.Minute, s.pass })
	return s
}

func (s *stall) pass(at string) {
	if at != s.at {
		return
	}
	s.once.Do(func() {
		staged := slices.DeleteFunc(s.w.staged(), func(key string) bool { return s.w.named(key) })
		s.w.eventually(func() bool {
			left := s.w.staged()
			return !slices.ContainsFunc(staged, func(key string) bool { return slices.Contains(left, key) })
		})
		s.held <- staged
	})
}

// specs are the keys of everything that is staged before it is referred to.
func (w *world) staged() []string {
	w.t.Helper()
	return slices.DeleteFunc(w.keys(record.Root), func(key string) bool {
		kind := record.ParseKey(key).Kind
		return kind != record.KindSpec && kind != record.KindPart
	})
}

// named says whether a desired record names a spec.
func (w *world) named(spec string) bool {
	ref := record.ParseKey(spec)
	if ref.Kind == record.KindPart {
		_, err := w.store.Get(w.t.Context(), record.FederationKey(ref.Name))
		return err == nil
	}
	d, ok := w.desired(ref.Cluster, ref.Name)
	return ok && d.Spec == ref.Name+"/"+ref.Rest
}

func (w *world) desired(cluster, service string) (*record.Desired, bool) {
	w.t.Helper()
	kv, err := w.store.Get(w.t.Context(), record.DesiredServiceKey(cluster, service))
	if err != nil {
		return nil, false
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		w.t.Fatal(err)
	}
	return d, true
}

// whole fails the test unless every replica's spec is there, and the submitted service.
func (w *world) whole(clusters ...string) {
	w.t.Helper()
	specs := w.staged()
	for i, id := range clusters {
		d, ok := w.desired(id, []string{"grayifyr0", "grayifyr1", "grayifyr2", "grayifyr3"}[i])
		if !ok {
			w.t.Errorf("nothing is desired on %s", id)
			continue
		}
		if key := record.SpecKey(id, d.Spec); !slices.Contains(specs, key) {
			w.t.Errorf("%s is committed, and was swept", key)
		}
		if got := w.keys(record.HistoryPrefix + d.Federation + "/"); len(got) == 0 {
			w.t.Errorf("federation %s has no history", d.Federation)
		}
	}
}

func TestACreateThatStalledBeforeItsCommitNamesNoSweptSpecs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := stallAt(t, "controlplane.after_specs")
		if _, err := s.w.create(func(r *federations.CreateRequest) { r.Wait = patience }); err != nil {
			t.Fatal(err)
		}
		if staged := <-s.held; len(staged) != 3 {
			t.Errorf("swept were %v", staged)
		}
		s.w.whole("a", "b", "c")
	})
}

func TestAChangeThatStalledBeforeItsCommitNamesNoSweptSpecs(t *testing.T) {
	for name, change := range map[string]func(w *world) error{
		"of the members": func(w *world) error {
			_, err := w.changeReplicas(federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}})
			return err
		},
		"with a vote": func(w *world) error {
			_, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("d", "grayifyr3")}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				s := stallAt(t, "controlplane.after_change_specs")
				s.w.addCluster("d")
				s.w.mustCreate()
				if err := change(s.w); err != nil {
					t.Fatal(err)
				}
				if staged := <-s.held; len(staged) < 2 {
					t.Errorf("swept were %v", staged)
				}
				s.w.whole("a", "b")
			})
		})
	}
}

func TestAClusterThatLeavesAfterAStallLeavesNoSweptSpecs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := stallAt(t, "controlplane.before_leave")
		s.w.mustCreate()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := s.w.Clusters.Remove(ctx, admin, "c", clusters.RemoveOptions{Wait: patience}); err != nil {
			t.Fatal(err)
		}
		if staged := <-s.held; len(staged) != 2 {
			t.Errorf("swept were %v", staged)
		}
		s.w.whole("a", "b")
	})
}

// A store that an older version has damaged so is told of, at once.
func TestAChangeOfAFederationWhoseDefinitionIsGoneEnds(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.deleteKeys(append(w.keys(record.HistoryPrefix), w.keys(record.SecretsPrefix)...))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := w.Federations.ChangeReplicas(ctx, admin, "grayifyr0", federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}})
		if codeOf(t, err) != fault.CodeFailedPrecondition || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("%v", err)
		}
		if _, err := w.Federations.DeleteService(ctx, admin, "grayifyr0", federations.DeleteOptions{Wait: patience}); err != nil {
			t.Errorf("it cannot be deleted: %v", err)
		}
	})
}

func (w *world) deleteKeys(keys []string) {
	w.t.Helper()
	if _, err := w.store.Update(w.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, key := range keys {
			tx.Delete(key)
		}
		return nil
	}}); err != nil {
		w.t.Fatal(err)
	}
}
