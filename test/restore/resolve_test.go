package restore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// resolve takes a side, as the administrator does.
func (s *tale) resolve(cluster, service, keep string) {
	s.T.Helper()
	if _, err := s.Client.Resolve(s.T.Context(), v1.Resolve{ClusterID: cluster, ServiceName: service, Keep: keep}); err != nil {
		s.T.Errorf("resolve %s/%s --keep %s: %v", cluster, service, keep, err)
	}
}

func (s *tale) list() *v1.Differences {
	s.T.Helper()
	d, err := s.Client.Differences(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return d
}

// settled waits until nothing is held, and every federation is ready.
func (s *tale) settled(names ...string) {
	s.T.Helper()
	last := ""
	defer func() {
		if s.T.Failed() {
			s.T.Log(last)
		}
	}()
	s.Eventually("nothing is held any more", func() bool {
		d := s.list()
		last = fmt.Sprintf("%+v", d.Differences)
		return len(d.Differences) == 0
	})
	for _, name := range names {
		s.Eventually(name+" is ready", func() bool {
			v, err := s.Client.Replicas(s.T.Context(), name+"0", "")
			last = fmt.Sprintf("%+v %v", v, err)
			return err == nil && v.Phase == "ready"
		})
	}
}

// settledOf waits until nothing of a federation is held, and it is ready.
func (s *tale) settledOf(name string) {
	s.T.Helper()
	s.Eventually(name+" is ready, and nothing of it is held", func() bool {
		held := slices.ContainsFunc(s.list().Differences, func(d v1.Difference) bool { return strings.HasPrefix(d.ServiceName, name) })
		v, err := s.Client.Replicas(s.T.Context(), name+"0", "")
		return !held && err == nil && v.Phase == "ready"
	})
}

func (s *tale) memory(cluster, service string) string {
	v, ok := s.Cluster(cluster).Sim.Service(service)
	switch {
	case !ok:
		return "absent"
	case strings.Contains(string(v.JSON), `"memory":"1Gi"`):
		return "1Gi"
	}
	return "0.5Gi"
}

func restoredTale(t *testing.T) *tale {
	s := tell(t)
	s.count()
	s.RestoreEtcd(s.backup, true)
	s.listed()
	return s
}

func TestEveryDifferenceIsListed(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := restoredTale(t)
		d := s.list()
		if d.RestoredAt == nil || len(d.Clusters) != len(all) {
			t.Errorf("%+v", d)
		}
		for _, c := range d.Clusters {
			if !c.Compared || !c.Alive {
				t.Errorf("%+v", c)
			}
		}
		var got []string
		for _, one := range d.Differences {
			got = append(got, fmt.Sprintf("%s/%s %s %d", one.ClusterID, one.ServiceName, one.Kind, one.ClusterGeneration))
			if one.KeepStore == "" || one.Message == "" {
				t.Errorf("%+v", one)
			}
		}
		if !slices.Equal(got, expected) {
			t.Errorf("%v", got)
		}
		// What is held is not changed by its owner either, and he is told the way out.
		_, err := s.Client.ChangeService(t.Context(), definition(t, "changed", "2Gi"), client.ChangeOptions{Wait: await.Limit})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code() != "conflict" || !strings.Contains(err.Error(), "oscarfed resolve") {
			t.Errorf("a change over what is held: %v", err)
		}
		// What is in the store as it was goes on.
		s.change("same", "1Gi")
		if got := s.memory(b, "same1"); got != "1Gi" {
			t.Errorf("same1 has %s", got)
		}
	})
}

func TestResolveKeepsTheStore(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := restoredTale(t)
		for _, one := range s.list().Differences {
			s.resolve(one.ClusterID, one.ServiceName, "store")
		}
		s.settled("same", "changed", "deleted", "grown")
		for place, want := range map[[2]string]string{
			{a, "changed0"}: "0.5Gi", {b, "changed1"}: "0.5Gi", {c, "changed2"}: "0.5Gi",
			{a, "deleted0"}: "0.5Gi", {b, "deleted1"}: "0.5Gi", {a, "created0"}: "absent", {b, "created1"}: "absent", {c, "created2"}: "absent", {d, "grown3"}: "absent",
		} {
			s.Eventually(strings.Join(place[:], "/")+" is "+want, func() bool { return s.memory(place[0], place[1]) == want })
		}
		if _, ok := s.Cluster(a).Sim.Bucket("created0"); !ok {
			t.Error("a bucket of the user went with the orphan")
		}
		s.Eventually("no tombstone holds its locations any more", func() bool {
			return !slices.ContainsFunc([]string{a, b, c}, func(id string) bool { return len(s.Keys(record.DesiredServicesPrefix(id)+"created")) > 0 })
		})
		s.create("created") // its name is free, and its bucket is attached
	})
}

func TestResolveKeepsTheClusters(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := restoredTale(t)
		// One is enough to end the deletion: the coordinator's is that of the federation.
		s.resolve(b, "deleted1", "cluster")
		s.resolve(a, "deleted0", "cluster")
		s.resolve(d, "grown3", "cluster")
		s.Eventually("the deletion is done", func() bool {
			_, err := s.Client.Replicas(t.Context(), "deleted0", "")
			e, ok := errors.AsType[*client.Error](err)
			return ok && e.Code() == "not_found" && len(s.Keys(record.DesiredServicesPrefix(b))) == 3
		})
		v, err := s.Client.Replicas(t.Context(), "grown0", "")
		if err != nil || len(v.Replicas) != 3 {
			t.Errorf("%+v %v", v, err)
		}
	})
}

// TestAClusterThatWasAwayIsComparedWhenItIsBack: the others were resolved meanwhile,
// and its number of a lost generation is not taken for the new one.
func TestAClusterThatWasAwayIsComparedWhenItIsBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := tell(t)
		s.Cluster(c).Stop()
		s.count()
		s.RestoreEtcd(s.backup, false)
		s.Eventually("the others have compared", func() bool { return s.compared(a, b, d) })
		for _, one := range s.list().Differences {
			if one.ClusterID == c {
				t.Errorf("listed although it is away: %+v", one)
			}
			s.resolve(one.ClusterID, one.ServiceName, "store")
		}
		s.Eventually("the others have what the store has", func() bool { return s.memory(a, "changed0") == "0.5Gi" && s.memory(a, "deleted0") == "0.5Gi" })
		s.Cluster(c).Start()
		s.Eventually("it has compared", func() bool { return s.compared(c) })
		want := []string{c + "/changed2 ahead 2", c + "/created2 orphan 1", c + "/deleted2 missing 0", c + "/grown2 ahead 2"}
		s.Eventually("it alone holds something", func() bool { return slices.Equal(s.differences(), want) })
		if log := s.Cluster(c).Sim.Log(); len(log) != s.before[c] {
			t.Errorf("it was touched: %+v", log[s.before[c]:])
		}
		for _, one := range s.list().Differences {
			s.resolve(one.ClusterID, one.ServiceName, "store")
		}
		s.settled("same", "changed", "deleted", "grown")
	})
}

// TestWhatAClusterHasBecomesTheDefinition: one replica's newer definition, for all. The others have been given it, too,
// and nobody decides about them again, nor about one that was away.
func TestWhatAClusterHasBecomesTheDefinition(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := tell(t)
		s.Cluster(c).Stop()
		s.count()
		s.RestoreEtcd(s.backup, false)
		s.Eventually("the others have compared", func() bool { return s.compared(a, b, d) })
		s.resolve(b, "changed1", "cluster")
		s.Eventually("nothing of it is held any more", func() bool {
			return !slices.ContainsFunc(s.list().Differences, func(d v1.Difference) bool { return strings.HasPrefix(d.ServiceName, "changed") })
		})
		s.Cluster(c).Start()
		s.Eventually("the federation is ready", func() bool {
			v, err := s.Client.Replicas(t.Context(), "changed0", "")
			return err == nil && v.Phase == "ready" && len(v.Replicas) == 2
		})
		for i, id := range []string{a, b, c} {
			name := fmt.Sprintf("changed%d", i)
			if got := s.memory(id, name); got != "1Gi" {
				t.Errorf("%s has %s", name, got)
			}
			if v, _ := s.Cluster(id).Sim.Service(name); v.Secrets["KEY"] != secret {
				t.Errorf("%s has secrets %v", name, v.Secrets)
			}
		}
		if keys := s.Keys(record.AsksPrefix(b)); len(keys) > 0 {
			t.Errorf("questions that were answered stay: %v", keys)
		}
	})
}

// TestALostFederationIsTakenBack with its uids, and without a write to any OSCAR.
func TestALostFederationIsTakenBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := restoredTale(t)
		s.resolve(a, "created0", "cluster")
		s.Eventually("the federation is ready", func() bool {
			v, err := s.Client.Replicas(t.Context(), "created0", "")
			return err == nil && v.Phase == "ready" && v.Topology == "star" && len(v.Replicas) == 2
		})
		s.untouched()
		// The values of its secrets are known to the clusters alone: no change empties them.
		read := definition(t, "created", "1Gi")
		read.Environment.Secrets["KEY"] = ""
		_, err := s.Client.ChangeService(t.Context(), read, client.ChangeOptions{Wait: await.Limit})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code() != "invalid" {
			t.Errorf("a change without the secrets: %v", err)
		}
		_, err = s.CP.Federations.ChangeReplicas(t.Context(), admin, "created0", federations.ReplicasRequest{
			Add: []oscar.Member{{Type: oscar.MemberOSCAR, ClusterID: d, ServiceName: "created3"}},
		})
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.CodeInvalid {
			t.Errorf("a change of the members without the secrets: %v", err)
		}
		s.untouched()
		// When they are given it is a federation like any other.
		s.change("created", "1Gi")
		s.change("created", "2Gi")
		if _, err := s.Client.ChangeService(t.Context(), read, client.ChangeOptions{Wait: await.Limit}); err != nil {
			t.Error(err)
		}
		for i, id := range []string{a, b, c} {
			name := fmt.Sprintf("created%d", i)
			if v, _ := s.Cluster(id).Sim.Service(name); v.Secrets["KEY"] != secret {
				t.Errorf("%s has secrets %v", name, v.Secrets)
			}
			if got := s.memory(id, name); got != "1Gi" {
				t.Errorf("%s has %s", name, got)
			}
		}
		if _, err := s.Client.DeleteService(t.Context(), "created0", client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.Eventually("it is deleted", func() bool { return s.memory(a, "created0") == "absent" && s.memory(c, "created2") == "absent" })
	})
}

// TestADecisionAboutAnOrphanIsInTheAudit: when it is taken, and when the control plane has carried it out.
func TestADecisionAboutAnOrphanIsInTheAudit(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := restoredTale(t)
		resolved := func() (out []string) {
			entries, err := s.Client.Audit(t.Context(), client.AuditQuery{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Action == string(record.ActionResolve) {
					out = append(out, fmt.Sprintf("%s %s: %s of %s at %s", e.By, e.Outcome, e.GroupID, e.Owner, e.ClusterID))
				}
			}
			slices.Sort(out)
			return out
		}
		s.resolve(a, "created0", v1.KeepCluster)
		s.resolve(d, "grown3", v1.KeepStore)
		s.Eventually("what the clusters have is taken over", func() bool { return len(resolved()) >= 3 && len(s.Keys(record.AsksPrefix(a))) == 0 })
		if got := resolved(); !slices.Equal(got, []string{
			"cluster_admin accepted:  of  at " + a, // its marks say no more
			"cluster_admin done: created0 of cluster_admin at " + a,
			"cluster_admin done: grown0 of cluster_admin at " + d,
		}) {
			t.Errorf("%q", got)
		}
	})
}

// TestEverybodyMayStopWhileTheClusterIsAsked: the question waits in the store.
func TestEverybodyMayStopWhileTheClusterIsAsked(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := restoredTale(t)
		s.Cluster(a).Stop()
		s.resolve(a, "created0", "cluster")
		if d := s.list(); !slices.ContainsFunc(d.Differences, func(d v1.Difference) bool { return d.Resolving && d.ServiceName == "created0" }) {
			t.Errorf("%+v", d)
		}
		s.Restart()
		s.Cluster(a).Start()
		s.Eventually("the federation is ready", func() bool {
			v, err := s.Client.Replicas(t.Context(), "created0", "")
			return err == nil && v.Phase == "ready"
		})
		s.untouched()
	})
}

// overtaken is a tale in which c has missed the last change of a federation before the restore.
func overtaken(t *testing.T) (s *tale, held func() []string) {
	t.Helper()
	s = tell(t)
	s.Cluster(c).Stop()
	if _, err := s.Client.ChangeService(t.Context(), definition(t, "changed", "2Gi"), client.ChangeOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("it is changed where it can be", func() bool {
		at := func(cluster, service string) int64 {
			return get[record.Observed](s, record.ObservedServiceKey(cluster, service)).Applied()
		}
		return at(a, "changed0") == 3 && at(b, "changed1") == 3
	})
	s.RestoreEtcd(s.backup, false)
	s.Cluster(c).Start()
	s.Eventually("every cluster has compared", func() bool { return s.compared(all...) })
	held = func() []string {
		return slices.DeleteFunc(s.differences(), func(d string) bool { return !strings.Contains(d, "changed") })
	}
	if got, want := held(), []string{a + "/changed0 ahead 3", b + "/changed1 ahead 3", c + "/changed2 ahead 2"}; !slices.Equal(got, want) {
		t.Fatalf("held %v, want %v", got, want)
	}
	return s, held
}

// TestANewerGenerationIsHeldOn: a person who keeps an older one has not decided about it.
func TestANewerGenerationIsHeldOn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s, held := overtaken(t)
		s.resolve(c, "changed2", "cluster")
		s.Eventually("the newer ones are held on", func() bool { return slices.Equal(held(), []string{a + "/changed0 ahead 3", b + "/changed1 ahead 3"}) })
		s.resolve(a, "changed0", "cluster")
		s.settledOf("changed")
		for i, id := range []string{a, b, c} {
			if v, _ := s.Cluster(id).Sim.Service(fmt.Sprintf("changed%d", i)); !strings.Contains(string(v.JSON), `"memory":"2Gi"`) {
				t.Errorf("%s has not the newer one: %s", id, v.JSON)
			}
		}
	})
}

// TestAClusterCannotShowMoreThanWasDecidedOn: with a higher generation than the person has seen it would have what its
// federation has on other clusters written over.
func TestAClusterCannotShowMoreThanWasDecidedOn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s, held := overtaken(t)
		was := held()
		s.Cluster(c).Stop() // a hostile syncer answers in its place
		s.resolve(c, "changed2", "cluster")
		ask := get[record.Ask](s, record.AskKey(c, "changed2"))
		definition, err := json.Marshal(definition(t, "changed", "1Gi"))
		if err != nil {
			t.Fatal(err)
		}
		shown := record.Shown{V: record.Version, UID: ask.UID, RequestID: ask.RequestID, Generation: 1000}
		if shown.Sealed, err = seal.Seal(seal.Header{Purpose: seal.PurposeShown, Cluster: c, UID: ask.UID, Generation: shown.Generation}, definition, ask.Recipient); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.ShownKey(c, "changed2"), shown)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		s.Eventually("it is answered", func() bool { return len(s.Keys(record.AskKey(c, "changed2"))) == 0 })
		if got := held(); !slices.Equal(got, was) {
			t.Errorf("held %v, and before %v", got, was)
		}
		for i, id := range []string{a, b} {
			if v, _ := s.Cluster(id).Sim.Service(fmt.Sprintf("changed%d", i)); !strings.Contains(string(v.JSON), `"memory":"2Gi"`) {
				t.Errorf("%s has not the newer one: %s", id, v.JSON)
			}
		}
	})
}

// TestWhatAUserHasChangedWithoutOurMarksCanBeKept: his PUT in the lost history dropped our annotations. The service still
// has the token of its life.
func TestWhatAUserHasChangedWithoutOurMarksCanBeKept(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := tell(t)
		s.Cluster(b).Stop() // which would repair it
		s.edit(b, "same1", func(fields map[string]any) {
			delete(fields, "annotations")
			fields["memory"] = "1Gi"
		})
		s.RestoreEtcd(s.backup, false)
		s.Cluster(b).Start()
		s.Eventually("it is held", func() bool { return slices.Contains(s.differences(), b+"/same1 ahead 0") })
		s.Eventually("every cluster has compared", func() bool { return s.compared(all...) })
		s.resolve(b, "same1", "cluster")
		s.settledOf("same")
		for i, id := range []string{a, b, c} {
			if got := s.memory(id, fmt.Sprintf("same%d", i)); got != "1Gi" {
				t.Errorf("%s has %s", id, got)
			}
		}
	})
}

// edit is a user's PUT of what he has read and changed, with its secret.
func (s *tale) edit(cluster, service string, change func(fields map[string]any)) {
	s.T.Helper()
	v, _ := s.Cluster(cluster).Sim.Service(service)
	var fields map[string]any
	if err := json.Unmarshal(v.JSON, &fields); err != nil {
		s.T.Fatal(err)
	}
	fields["environment"].(map[string]any)["secrets"] = map[string]string{"KEY": secret} // OSCAR shows no value
	change(fields)
	body, err := json.Marshal(fields)
	if err != nil {
		s.T.Fatal(err)
	}
	if status, said, err := s.TryDirectly(s.T.Context(), http.MethodPut, s.Cluster(cluster).URL+"/system/services", body); err != nil || status != http.StatusNoContent {
		s.T.Fatalf("%d %s %v", status, said, err)
	}
}

// TestWhatStandsIsKeptThoughItWouldBeRefusedNow: an older version has taken the image, and the clusters were open then.
func TestWhatStandsIsKeptThoughItWouldBeRefusedNow(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const image = "ghcr.io/GryCAP/imagemagick"
		s := tell(t)
		_, err := s.Client.CreateService(t.Context(), world.Service(t, `{"name":"now","image":"`+image+`","cpu":"0.5","memory":"0.5Gi","script":"x"}`), client.CreateOptions{})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code() != "invalid" {
			t.Fatalf("it is taken today: %v", err)
		}
		s.Cluster(a).Stop() // which would repair it
		for _, service := range []string{"created0", "changed0"} {
			s.edit(a, service, func(fields map[string]any) { fields["image"] = image })
		}
		s.RestoreEtcd(s.backup, true)
		s.Cluster(a).Start()
		s.Eventually("every cluster has compared", func() bool { return s.compared(all...) })
		for _, id := range []string{a, c} {
			if _, err := s.Client.SetClusterState(t.Context(), id, string(record.ClusterCordoned)); err != nil {
				t.Fatal(err)
			}
		}
		s.resolve(a, "created0", v1.KeepCluster)
		s.resolve(a, "changed0", v1.KeepCluster)
		s.Eventually("the lost federation is back", func() bool { return s.statuses()[a] == "ready Applied" })
		s.settledOf("changed")
		for i, id := range []string{a, b, c} {
			if v, _ := s.Cluster(id).Sim.Service(fmt.Sprintf("changed%d", i)); !strings.Contains(string(v.JSON), image) {
				t.Errorf("%s has not what was kept: %s", id, v.JSON)
			}
		}
		s.kept()
	})
}

// TestWhatAClusterWasAskedGoesWithIt: what is registered under its id later is another cluster, and a person decides about
// that anew.
func TestWhatAClusterWasAskedGoesWithIt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := restoredTale(t)
		s.Cluster(c).Stop()
		s.resolve(c, "changed2", "cluster")
		s.Cluster(a).Stop()
		s.resolve(a, "created0", "cluster")
		for _, id := range []string{a, c} {
			if _, err := s.Client.RemoveCluster(t.Context(), id, client.RemoveClusterOptions{Force: true, Wait: await.Limit}); err != nil {
				t.Fatal(err)
			}
			s.Eventually("it is not registered any more", func() bool { return len(s.Keys(record.ClusterKey(id))) == 0 })
			if keys := s.Keys(record.AsksPrefix(id)); len(keys) > 0 {
				t.Errorf("questions to a cluster that is gone: %v", keys)
			}
		}
	})
}
