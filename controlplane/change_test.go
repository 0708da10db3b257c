package controlplane_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func member(cluster, service string) oscar.Member {
	return oscar.Member{Type: "oscar", ClusterID: cluster, ServiceName: service}
}

func (w *world) changeReplicas(req federations.ReplicasRequest) (*federations.ChangeResult, error) {
	w.t.Helper()
	req.Wait = time.Minute
	return w.Federations.ChangeReplicas(w.t.Context(), admin, "grayifyr0", req)
}

func (w *world) mustCreate() {
	w.t.Helper()
	if _, err := w.create(); err != nil {
		w.t.Fatal(err)
	}
}

// graph says who lists whom, as every member's own view tells it.
func (w *world) graph(members ...string) string {
	w.t.Helper()
	var lines []string
	for _, m := range members {
		cluster, service, _ := strings.Cut(m, "/")
		v, err := w.Federations.Replicas(w.t.Context(), admin, service, cluster)
		if err != nil {
			w.t.Fatal(err)
		}
		var sees []string
		for _, i := range v.Sees {
			sees = append(sees, v.Members[i].ClusterID+"/"+v.Members[i].ServiceName)
		}
		lines = append(lines, m+": "+strings.Join(sees, " "))
	}
	return strings.Join(lines, "\n")
}

func TestAddedMembersVoteFirstAndAreDeployed(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		res, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("d", "grayifyr3")}})
		if err != nil || len(res.Away) > 0 || res.Replicas.Generation != 2 || res.Replicas.Phase != record.PhaseReady {
			t.Fatalf("%+v %v", res, err)
		}
		want := "d/grayifyr3: a/grayifyr0 b/grayifyr1 c/grayifyr2\nb/grayifyr1: a/grayifyr0 c/grayifyr2 d/grayifyr3"
		if got := w.graph("d/grayifyr3", "b/grayifyr1"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		// Adding it again is nothing; with other settings it is refused.
		before := w.revision()
		if _, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("d", "grayifyr3")}}); err != nil || w.revision() != before {
			t.Errorf("%v, revision %d after %d", err, w.revision(), before)
		}
		verified := member("d", "grayifyr3")
		verified.SSLVerify = new(true)
		if _, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{verified}}); err != nil || w.revision() != before {
			t.Errorf("with what is said of endpoints alone: %v, revision %d after %d", err, w.revision(), before)
		}
		other := member("d", "grayifyr3")
		other.Priority = 7
		if _, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{other}}); codeOf(t, err) != fault.CodeAlreadyExists {
			t.Error(err)
		}
		if _, err := w.changeReplicas(federations.ReplicasRequest{Replace: []federations.Replacement{{From: other, To: other}}}); err != nil {
			t.Error(err)
		}
	})
}

func TestARefusedAdditionChangesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		w.clusters["d"].does(no(record.ReasonDoesNotFit))
		_, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("d", "grayifyr3")}})
		if codeOf(t, err) != fault.CodeFailedPrecondition || !strings.Contains(err.Error(), "d/grayifyr3") {
			t.Error(err)
		}
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil || v.Generation != 1 || len(v.Members) != 3 || v.Phase != record.PhaseReady {
			t.Errorf("%+v %v", v, err)
		}
		for prefix, want := range map[string]int{
			record.DesiredServicesPrefix("d"): 0, record.ObservedServicesPrefix("d"): 0, record.SpecsPrefix("d"): 0,
			record.SpecsPrefix("b"): 1, record.HistoryPrefix: 1, record.SecretsPrefix: 1,
		} {
			if got := w.keys(prefix); len(got) != want {
				t.Errorf("%s holds %v, want %d", prefix, got, want)
			}
		}
	})
}

// TestARefusedAdditionIsNotBlamedOnWhoHadNotVotedYet: a foreign service is a
// conflict, also when it is found before the others have answered.
func TestARefusedAdditionIsNotBlamedOnWhoHadNotVotedYet(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d").does(no(record.ReasonNameTaken))
		w.addCluster("e").does(silent)
		w.mustCreate()
		_, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("d", "grayifyr3"), member("e", "grayifyr4")}})
		if codeOf(t, err) != fault.CodeAlreadyExists || !strings.Contains(err.Error(), "d/grayifyr3") {
			t.Error(err)
		}
	})
}

func TestARemovedMemberGoesAndItsViewIsGoneAtOnce(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.clusters["c"].does(silent)
		before := w.revision()
		if _, err := w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Federations.Replicas(t.Context(), admin, "grayifyr2", ""); codeOf(t, err) != fault.CodeNotFound {
			t.Error("the removed member's view is still there:", err)
		}
		if got, want := w.graph("a/grayifyr0", "b/grayifyr1"), "a/grayifyr0: b/grayifyr1\nb/grayifyr1: a/grayifyr0"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		w.clusters["c"].does(yes)
		w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("c"))) == 0 })
		w.eventually(func() bool {
			v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
			return err == nil && v.Phase == record.PhaseReady
		})
		// One transaction; two that stay report, one acknowledges, one removes; specs.
		if cost := w.revision() - before; cost != 1+2+1+1+1 {
			t.Errorf("removing one of three cost %d revisions", cost)
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{record.FederationsPrefix, record.HistoryPrefix, record.SecretsPrefix, record.SpecsPrefix("a"), record.SpecsPrefix("b"), record.SpecsPrefix("c")} {
			if left := w.keys(prefix); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
	})
}

func TestChangeWithoutAdditionsCosts(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		before := w.revision()
		s := send(t, strings.Replace(body, "0.5Gi", "1Gi", 1)).Service
		res, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute})
		if err != nil || len(res.Away) > 0 {
			t.Fatal(res, err)
		}
		const n, specs = 3, 1
		if cost := w.revision() - before - specs; cost != n+1 {
			t.Errorf("a change over %d clusters cost %d revisions, want %d", n, cost, n+1)
		}
		got, _, err := w.Federations.Service(t.Context(), admin, "grayifyr1", "")
		if err != nil || got.Memory != "1Gi" {
			t.Errorf("%+v %v", got, err)
		}
	})
}

func TestConcurrentAdditionsAllSucceed(t *testing.T) {
	for _, n := range []int{8, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) { concurrentAdditions(t, n) })
		})
	}
}

func concurrentAdditions(t *testing.T, n int) {
	w := newWorld(t)
	for i := range n {
		w.addCluster(fmt.Sprintf("m%d", i))
	}
	w.mustCreate()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			req := federations.ReplicasRequest{Wait: time.Minute, Add: []oscar.Member{member(fmt.Sprintf("m%d", i), fmt.Sprintf("added%d", i))}}
			if _, err := w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", req); err != nil {
				t.Errorf("addition %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Members) != 3+n || len(v.Sees) != 2+n {
		t.Errorf("%d members, %d seen", len(v.Members), len(v.Sees))
	}
	for i := range n {
		m, err := w.Federations.Replicas(t.Context(), admin, fmt.Sprintf("added%d", i), "")
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Sees) != 2+n || m.Revision != v.Revision {
			t.Errorf("added%d sees %d at revision %d", i, len(m.Sees), m.Revision)
		}
	}
}

func TestIfMatchRefusesAnOlderView(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		req := federations.ReplicasRequest{Add: []oscar.Member{member("d", "grayifyr3")}, IfMatch: v.Revision}
		if _, err := w.changeReplicas(req); err != nil {
			t.Fatal(err)
		}
		req = federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}, IfMatch: v.Revision}
		if _, err := w.changeReplicas(req); codeOf(t, err) != fault.CodeConflict {
			t.Error(err)
		}
	})
}

func TestSecretsSurviveARoundTrip(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		withSecret := strings.Replace(body, `"script"`, `"environment":{"secrets":{"KEY":"a-secret-of-the-test","OTHER":"old-secret-of-the-test"}},"script"`, 1)
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, withSecret)); err != nil {
			t.Fatal(err)
		}
		s, _, err := w.Federations.Service(t.Context(), admin, "grayifyr0", "")
		if err != nil || s.Environment.Secrets["KEY"] != "" {
			t.Fatalf("%+v %v", s.Environment, err)
		}
		s.Environment.Secrets["OTHER"] = "new-secret-of-the-test"
		if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		for _, cluster := range []string{"a", "b"} {
			got := w.clusters[cluster].secrets()
			if got["KEY"] != "a-secret-of-the-test" || got["OTHER"] != "new-secret-of-the-test" {
				t.Errorf("%s has %v", cluster, got)
			}
		}
	})
}

func TestAPutOnAMemberNamesTheCoordinator(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		s, _, err := w.Federations.Service(t.Context(), admin, "grayifyr1", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s})
		if codeOf(t, err) != fault.CodeConflict || !strings.Contains(err.Error(), "a/grayifyr0") {
			t.Error(err)
		}
	})
}

func TestWatchTellsEachChangeOfTheView(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		enough := errors.New("enough")
		seen := make(chan int64, 1)
		done := make(chan error, 1)
		go func() {
			done <- w.Federations.WatchReplicas(t.Context(), admin, "grayifyr0", "", 0, func(v *view.Replicas) error {
				if v.Generation == 2 && v.Phase == record.PhaseReady {
					return enough
				}
				select {
				case seen <- v.StreamRevision:
				default:
				}
				return nil
			})
		}()
		<-seen
		s := send(t, strings.Replace(body, "0.5Gi", "1Gi", 1)).Service
		if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, enough) {
			t.Error(err)
		}
	})
}

func TestRollbackMakesAnOlderDefinitionTheNextGeneration(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		for i := range 12 {
			s := send(t, strings.Replace(body, "0.5Gi", fmt.Sprintf("%dGi", i+1), 1)).Service
			if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		h, err := w.Federations.History(t.Context(), admin, "grayifyr0", "")
		if err != nil || len(h) != 11 || h[0].Generation != 13 || h[10].Generation != 3 || h[10].Service.Memory != "2Gi" {
			t.Fatalf("%+v %v", h, err)
		}
		if _, err := w.Federations.Rollback(t.Context(), admin, "grayifyr0", "", 1, federations.ChangeRequest{}); codeOf(t, err) != fault.CodeNotFound {
			t.Error("a generation that is not kept:", err)
		}
		if _, err := w.Federations.Rollback(t.Context(), admin, "grayifyr0", "", 3, federations.ChangeRequest{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		s, _, err := w.Federations.Service(t.Context(), admin, "grayifyr1", "")
		if err != nil || s.Memory != "2Gi" {
			t.Errorf("%+v %v", s, err)
		}
		for _, prefix := range []string{record.SecretsPrefix, record.SpecsPrefix("a"), record.SpecsPrefix("b")} {
			if got := w.keys(prefix); len(got) != 1 {
				t.Errorf("%v is kept, one is enough", got)
			}
		}
	})
}

// TestARollbackDoesNotEmptyASecret: the value of one that was left out since is not kept.
func TestARollbackDoesNotEmptyASecret(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		secrets := func(values map[string]string) error {
			s := send(t, body).Service
			s.Environment.Secrets = values
			_, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute})
			return err
		}
		back := func() error {
			_, err := w.Federations.Rollback(t.Context(), admin, "grayifyr0", "", 2, federations.ChangeRequest{Wait: time.Minute})
			return err
		}
		if err := errors.Join(secrets(map[string]string{"STAYS": "a", "GOES": "b"}), secrets(map[string]string{"STAYS": "c"})); err != nil {
			t.Fatal(err)
		}
		err := back()
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.CodeInvalid || len(e.Violations) != 1 || e.Violations[0].Path != "environment.secrets.GOES" {
			t.Errorf("%v", err)
		}
		if err := errors.Join(secrets(map[string]string{"STAYS": "c", "GOES": "d"}), back()); err != nil {
			t.Error("with the secrets of today:", err)
		}
	})
}
