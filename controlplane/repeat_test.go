package controlplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func keyed(method, key, body string) request.Repeat {
	return request.Repeat{Key: key, Method: method, Path: "/of/the/test", Body: body}
}

// second is another instance over the same store.
func (w *world) second() *controlplane.ControlPlane {
	return startControlPlane(w.t, w.store, w.identity)
}

// TestARepeatedChangeIsMadeOnce: the first caller may never have seen the answer; a
// repetition, anywhere and however late, changes nothing and has the same outcome.
func TestARepeatedChangeIsMadeOnce(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		other := w.second()
		bigger := func(memory string) *oscar.Service {
			return send(t, strings.Replace(body, "0.5Gi", memory, 1)).Service
		}
		tests := []struct {
			name string
			send func(cp *controlplane.ControlPlane, body string) (*federations.ChangeResult, error)
		}{
			{"a new definition", func(cp *controlplane.ControlPlane, body string) (*federations.ChangeResult, error) {
				return cp.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: bigger("1Gi"), Wait: time.Minute, Repeat: keyed("PUT", "k1", body)})
			}},
			{"an addition, which is voted on", func(cp *controlplane.ControlPlane, body string) (*federations.ChangeResult, error) {
				return cp.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{
					Add: []oscar.Member{member("d", "grayifyr3")}, Wait: time.Minute, Repeat: keyed("POST", "k1", body)})
			}},
			{"a removal", func(cp *controlplane.ControlPlane, body string) (*federations.ChangeResult, error) {
				return cp.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{
					Remove: []oscar.Member{member("d", "grayifyr3")}, Wait: time.Minute, Repeat: keyed("DELETE", "k1", body)})
			}},
			{"nothing to change", func(cp *controlplane.ControlPlane, body string) (*federations.ChangeResult, error) {
				return cp.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{
					Remove: []oscar.Member{member("d", "grayifyr3")}, Repeat: keyed("DELETE", "k2", body)})
			}},
			{"a rollback", func(cp *controlplane.ControlPlane, body string) (*federations.ChangeResult, error) {
				return cp.Federations.Rollback(t.Context(), admin, "grayifyr0", "", 1, federations.ChangeRequest{Wait: time.Minute, Repeat: keyed("POST", "k3", body)})
			}},
		}
		// Each is repeated after all that came later, too.
		var first []int64
		for _, tt := range tests {
			res, err := tt.send(w.ControlPlane, "body")
			if err != nil || res.Replayed {
				t.Fatalf("%s: %+v %v", tt.name, res, err)
			}
			first = append(first, res.Replicas.Generation)
		}
		if want := []int64{2, 3, 4, 4, 5}; !equal(first, want) {
			t.Errorf("generations %v, want %v", first, want)
		}
		before := w.revision()
		for _, tt := range tests {
			for _, cp := range []*controlplane.ControlPlane{w.ControlPlane, other} {
				res, err := tt.send(cp, "body")
				if err != nil || !res.Replayed || res.Replicas.Generation != 5 {
					t.Errorf("%s: %+v %v", tt.name, res, err)
				}
				if _, err := tt.send(cp, "another body"); codeOf(t, err) != fault.CodeFailedPrecondition {
					t.Errorf("%s with another body: %v", tt.name, err)
				}
			}
		}
		if now := w.revision(); now != before {
			t.Errorf("repetitions wrote %d revisions", now-before)
		}
	})
}

func equal(a, b []int64) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func TestARepeatedChangeThatWasRefusedIsRefusedTheSameWay(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		other := w.second()
		w.clusters["d"].does(no(record.ReasonDoesNotFit))
		send := func(cp *controlplane.ControlPlane) error {
			_, err := cp.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{
				Add: []oscar.Member{member("d", "grayifyr3")}, Repeat: keyed("POST", "k", "body")})
			return err
		}
		was := send(w.ControlPlane)
		if codeOf(t, was) != fault.CodeFailedPrecondition {
			t.Fatal(was)
		}
		// The record of the federation has forgotten it by then.
		w.clusters["d"].does(yes)
		if _, err := w.changeReplicas(federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}}); err != nil {
			t.Fatal(err)
		}
		for _, cp := range []*controlplane.ControlPlane{w.ControlPlane, other} {
			if err := send(cp); err == nil || err.Error() != was.Error() {
				t.Errorf("%v, and at first %v", err, was)
			}
		}
	})
}

// TestARepetitionJoinsTheChangeThatIsVotedOn: it waits for the same outcome.
func TestARepetitionJoinsTheChangeThatIsVotedOn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		other := w.second()
		w.clusters["d"].does(silent)
		var wg sync.WaitGroup
		for _, cp := range []*controlplane.ControlPlane{w.ControlPlane, other, w.ControlPlane, other} {
			wg.Go(func() {
				res, err := cp.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{
					Add: []oscar.Member{member("d", "grayifyr3")}, Wait: time.Minute, Repeat: keyed("POST", "k", "body")})
				if err != nil || res.Replicas.Generation != 2 {
					t.Errorf("%+v %v", res, err)
				}
			})
		}
		w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("d"))) == 1 })
		w.clusters["d"].does(yes)
		wg.Wait()
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil || v.Generation != 2 {
			t.Errorf("%+v %v", v, err)
		}
	})
}

func TestARepeatedDeletionIsNoOtherOne(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		other := w.second()
		send := func(cp *controlplane.ControlPlane, service, key, body string) (*federations.DeleteResult, error) {
			return cp.Federations.DeleteService(t.Context(), admin, service, federations.DeleteOptions{Wait: time.Minute, Repeat: keyed("DELETE", key, body)})
		}
		for _, service := range []string{"grayifyr2", "grayifyr0"} {
			if res, err := send(w.ControlPlane, service, service, ""); err != nil || res.Replayed || res.Pending != 0 {
				t.Fatalf("%s: %+v %v", service, res, err)
			}
		}
		// A new life of the same names is not what the key was for.
		w.mustCreate()
		for _, cp := range []*controlplane.ControlPlane{w.ControlPlane, other} {
			for _, service := range []string{"grayifyr2", "grayifyr0"} {
				if res, err := send(cp, service, service, ""); err != nil || !res.Replayed || res.Pending != 0 {
					t.Errorf("%s: %+v %v", service, res, err)
				}
				if _, err := send(cp, service, service, "data=delete"); codeOf(t, err) != fault.CodeFailedPrecondition {
					t.Errorf("%s with another body: %v", service, err)
				}
			}
		}
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil || v.Phase != record.PhaseReady || len(v.Members) != 3 {
			t.Errorf("%+v %v", v, err)
		}
	})
}

// TestAChangeThatADeletionOvertookSaysSoAgain: a deletion that ends the vote on a
// change answers the change's request, too.
func TestAChangeThatADeletionOvertookSaysSoAgain(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		w.clusters["d"].does(silent)
		send := func() error {
			_, err := w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{
				Add: []oscar.Member{member("d", "grayifyr3")}, Repeat: keyed("POST", "k", "body")})
			return err
		}
		done := make(chan error, 1)
		go func() { done <- send() }()
		w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("d"))) == 1 })
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{<-done, send()} {
			if codeOf(t, err) != fault.CodeConflict || !strings.Contains(err.Error(), "deleted meanwhile") {
				t.Error(err)
			}
		}
	})
}

// TestACreationIsTakenForAnotherOneThatAsksForBestEffort: its key, or its body while that is
// in flight, had the outcome of a request that asked for something else.
func TestACreationIsTakenForAnotherOneThatAsksForBestEffort(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(c *controlplane.Config) { c.PrepareDeadline = time.Hour })
		w.clusters["c"].does(silent)
		key := func(r *federations.CreateRequest) { r.IdempotencyKey = "k" }
		bestEffort := func(r *federations.CreateRequest) { r.Deployment = oscar.DeploymentBestEffort }
		for name, same := range map[string]func(*federations.CreateRequest){"a key": key, "no key": func(*federations.CreateRequest) {}} {
			first := make(chan error, 1)
			go func() {
				_, err := w.create(same)
				first <- err
			}()
			w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("c"))) == 1 })
			want := fault.CodeConflict // it is being created
			if name == "a key" {
				want = fault.CodeFailedPrecondition
			}
			ctx, leave := context.WithTimeout(t.Context(), patience)
			for _, other := range []func(*federations.CreateRequest){bestEffort, func(r *federations.CreateRequest) { r.Plan = "sha256:00" }} {
				_, err := w.Federations.CreateService(ctx, admin, send(t, body, same, other))
				if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != want {
					t.Errorf("with %s: %v, want %s", name, err, want)
				}
			}
			leave()
			w.clusters["c"].does(no(record.ReasonDoesNotFit))
			if err := <-first; codeOf(t, err) != fault.CodeFailedPrecondition {
				t.Errorf("with %s the first: %v", name, err)
			}
			w.clusters["c"].does(silent)
		}
	})
}

// TestRequestsAreBoundedForEachUser: a client that makes a new key for each of a million
// requests does not fill etcd. What was accepted before keeps its outcome.
func TestRequestsAreBoundedForEachUser(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		bounded := func(c *controlplane.Config) { c.RequestsPerUser = 4 }
		w := newWorld(t, bounded)
		once := func(r *federations.CreateRequest) { r.IdempotencyKey = "once" }
		made, err := w.create(once)
		if err != nil {
			t.Fatal(err)
		}
		change := func(cp *controlplane.ControlPlane, memory, key string) (*federations.ChangeResult, error) {
			return cp.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{
				Service: send(t, strings.Replace(body, "0.5Gi", memory, 1)).Service, Wait: time.Minute, Repeat: keyed("PUT", key, memory)})
		}
		job := func(cp *controlplane.ControlPlane, key string) (*jobs.Job, error) {
			return cp.Jobs.Submit(t.Context(), admin, jobs.Request{Service: "grayifyr0", Event: []byte("event"), IdempotencyKey: key})
		}
		first, err := job(w.ControlPlane, "a job")
		if err != nil {
			t.Fatal(err)
		}
		for i, memory := range []string{"1Gi", "2Gi"} {
			if _, err := change(w.ControlPlane, memory, memory); err != nil {
				t.Fatal(i, err)
			}
		}
		// Another instance has seen them, too: one that begins now.
		other := startControlPlane(t, w.store, w.identity, bounded)
		for name, cp := range map[string]*controlplane.ControlPlane{"the first": w.ControlPlane, "another": other} {
			staged := len(w.keys(record.SpecsPrefix("a")))
			_, err := change(cp, "3Gi", "3Gi")
			refused, _ := errors.AsType[*fault.Error](err)
			if refused == nil || refused.Code != fault.CodeExhausted || refused.RetryAfter <= 0 {
				t.Errorf("%s instance: a change too many: %v", name, err)
			}
			if now := len(w.keys(record.SpecsPrefix("a"))); now != staged {
				t.Errorf("%s instance: what is refused has left %d specs", name, now-staged)
			}
			if _, err := cp.Federations.CreateService(t.Context(), admin, send(t, strings.ReplaceAll(body, "grayify", "other"), func(r *federations.CreateRequest) { r.IdempotencyKey = "new" })); codeOf(t, err) != fault.CodeExhausted {
				t.Errorf("%s instance: a creation too many: %v", name, err)
			}
			if _, err := job(cp, "another job"); codeOf(t, err) != fault.CodeExhausted {
				t.Errorf("%s instance: a job too many: %v", name, err)
			}
			if again, err := change(cp, "2Gi", "2Gi"); err != nil || !again.Replayed {
				t.Errorf("%s instance: a change that was made: %+v, %v", name, again, err)
			}
			if again, err := cp.Federations.CreateService(t.Context(), admin, send(t, body, once)); err != nil || !again.Replayed || again.Federation.UID != made.Federation.UID {
				t.Errorf("%s instance: a creation that was made: %+v, %v", name, again, err)
			}
			if again, err := job(cp, "a job"); err != nil || again.ID != first.ID {
				t.Errorf("%s instance: a job that was accepted: %+v, %v", name, again, err)
			}
			if _, err := job(cp, ""); err != nil {
				t.Errorf("%s instance: a job without a key: %v", name, err)
			}
		}
		if _, err := change(w.ControlPlane, "4Gi", ""); err != nil {
			t.Errorf("a change without a key: %v", err)
		}
		// What is full can be emptied.
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute, Repeat: keyed("DELETE", "delete", "")}); err != nil {
			t.Errorf("a deletion: %v", err)
		}
		somebody := identity.Caller{Subject: "somebody"}
		alone := strings.Replace(body, `"mesh"`, `"none"`, 1)
		if _, err := w.Federations.CreateService(t.Context(), somebody, send(t, alone, once)); err != nil {
			t.Errorf("somebody else: %v", err)
		}
	})
}
