package controlplane_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/oscarfed/oscarfed/controlplane/plan"
	"github.com/oscarfed/oscarfed/test/await"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store/record"
)

// withUsers is the body of a definition that names users of so many bytes together.
func withUsers(n, bytes int) string {
	users := make([]string, n)
	for i := range users {
		users[i] = strings.Repeat("u", bytes/n)
	}
	list, err := json.Marshal(users)
	if err != nil {
		panic(err)
	}
	return `{"allowed_users":` + string(list) + `,` + definition
}

// What was accepted reaches an end: its outcome is written twice, into the federation's record
// and into that of the request.
func TestACreationWithManyBytesOfAllowedUsersDoesNotApplyForEver(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		for _, bytes := range []int{60_000, 711_000} {
			w := newWorld(t)
			_, err := w.Federations.CreateService(t.Context(), admin, send(t, withUsers(1000, bytes), func(r *federations.CreateRequest) {
				r.IdempotencyKey, r.Wait = "one", 20*time.Second
			}))
			if err != nil {
				if code := codeOf(t, err); code != fault.CodeInvalid && code != fault.CodeTooLarge {
					t.Errorf("%d bytes: %v", bytes, err)
				}
				for _, prefix := range []string{record.FederationsPrefix, record.NamesPrefix, record.DesiredServicesPrefix("a")} {
					if left := w.keys(prefix); len(left) > 0 {
						t.Errorf("%d bytes: refused, and left behind: %v", bytes, left)
					}
				}
				if bytes < 100_000 {
					t.Errorf("%d bytes are refused: %v", bytes, err)
				}
				continue
			}
			if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
				t.Errorf("%d bytes: %v", bytes, err)
			}
		}
	})
}

// wordy says as much as a record takes, in characters that take six bytes each.
func wordy(answer func(string, *record.Desired) *record.Observed) func(string, *record.Desired) *record.Observed {
	return func(service string, d *record.Desired) *record.Observed {
		o := answer(service, d)
		if o == nil {
			return nil
		}
		o.Message = strings.Repeat("\x01", 6<<10)
		if o.Phase == record.PhaseDeleted {
			for i := range 1500 {
				name := fmt.Sprintf("%s-%0*d", service, 60-len(service), i)
				o.BucketsMade = append(o.BucketsMade, name)
				o.BucketFates = append(o.BucketFates, record.BucketFate{Bucket: name, Fate: record.BucketKept})
			}
		}
		return o
	}
}

const largestScript = 500 << 10

// largestBody is a definition with as much as there can be of everything at once: of the
// members nine are on each cluster.
func largestBody(script, endpoints int) string {
	var members []string
	for _, cluster := range []string{"a", "b", "c"} {
		for i := range 9 {
			members = append(members, fmt.Sprintf(`{"type":"oscar","cluster_id":%q,"service_name":"large%s%d"}`, cluster, cluster, i))
		}
	}
	for i := range endpoints {
		members = append(members, fmt.Sprintf(`{"type":"endpoint","url":"https://example.org/%0*d"}`, 2000, i))
	}
	users := make([]string, 1000)
	for i := range users {
		users[i] = fmt.Sprintf("%0*d", 128, i)
	}
	list, err := json.Marshal(users)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"name":"large","image":"i","cpu":"0.5","memory":"0.5Gi","visibility":"restricted","allowed_users":%s,"script":%q,"annotations":{"long":%q},
"federation":{"topology":"star","delegation":"random","group_id":"large","members":[%s]}}`, list, strings.Repeat("x", script), strings.Repeat("y", 110<<10), strings.Join(members, ","))
}

func (w *world) everybody(answer func(string, *record.Desired) *record.Observed) {
	for _, p := range w.clusters {
		p.does(answer)
	}
}

// nothingDesired waits until no place is held any more.
func (w *world) nothingDesired() {
	w.t.Helper()
	w.eventually(func() bool {
		left := 0
		for id := range w.clusters {
			left += len(w.keys(record.DesiredServicesPrefix(id)))
		}
		return left == 0 && len(w.keys(record.NamesPrefix)) == 0
	})
}

func TestEveryPhaseOfTheLargestFederationHasAnEnd(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		key := 0
		create := func(script, endpoints int) error {
			key++
			_, err := w.Federations.CreateService(t.Context(), admin, send(t, largestBody(script, endpoints), func(r *federations.CreateRequest) {
				r.IdempotencyKey, r.Wait = fmt.Sprint("key-", key), patience
			}))
			return err
		}
		w.everybody(wordy(no(record.ReasonNameTaken)))
		if code := codeOf(t, create(largestScript, 100)); code != fault.CodeTooLarge {
			t.Errorf("what cannot be changed once it is there: code %s", code)
		}
		w.nothingDesired()
		if code := codeOf(t, create(largestScript, 20)); code != fault.CodeAlreadyExists {
			t.Errorf("code %s", code)
		}
		w.nothingDesired()

		w.everybody(wordy(failing))
		if code := codeOf(t, create(largestScript, 20)); code != fault.CodeReplicaFailed {
			t.Errorf("code %s", code)
		}
		w.nothingDesired()

		w.everybody(wordy(yes))
		if err := create(largestScript, 20); err != nil {
			t.Fatal(err)
		}
		change := func(body, key string) error {
			req := send(t, body)
			_, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: req.Service, Wait: patience,
				Repeat: request.Repeat{Key: key, Method: "PUT", Path: "/system/services", Body: body}})
			return err
		}
		if err := change(largestBody(largestScript-1, 20), "put"); err != nil {
			t.Errorf("a change of the largest definition: %v", err)
		}
		add := federations.ReplicasRequest{Add: []oscar.Member{member("b", "one-more")}, Wait: patience}
		w.clusters["b"].does(wordy(no(record.ReasonDoesNotFit)))
		_, err := w.Federations.ChangeReplicas(t.Context(), admin, "large", add)
		if code := codeOf(t, err); code != fault.CodeFailedPrecondition {
			t.Errorf("the addition of a member ended with %v", err)
		}
		w.clusters["b"].does(wordy(yes))
		if _, err := w.Federations.ChangeReplicas(t.Context(), admin, "large", federations.ReplicasRequest{RemoveAll: true}); err != nil {
			t.Errorf("the removal of all members: %v", err)
		}
		if err := change(largestBody(largestScript, 20), "back"); err != nil {
			t.Errorf("the members come back: %v", err)
		}
		if _, err := w.Clusters.Remove(t.Context(), admin, "c", clusters.RemoveOptions{Wait: patience}); err != nil {
			t.Errorf("a cluster of nine of its members is removed: %v", err)
		}
		delete(w.clusters, "c")
		if _, err := w.Federations.DeleteService(t.Context(), admin, "large", federations.DeleteOptions{Wait: patience,
			Repeat: request.Repeat{Key: "delete", Method: "DELETE", Path: "/system/services/large"}}); err != nil {
			t.Error(err)
		}
		w.nothingDesired()
	})
}

// A sentence of a syncer takes six times its length in a record.
func TestAWordyReportEndsItsJob(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		for _, p := range w.clusters {
			p.has(4000)
		}
		id := w.submit().ID
		p, _ := w.at(id)
		a := p.standing()[0]
		kv, err := w.store.Get(t.Context(), record.AssignmentKey(p.cluster, id, a.Attempt))
		if err != nil {
			t.Fatal(err)
		}
		p.write(record.JobReportKey(p.cluster, id, a.Attempt), record.JobReport{V: record.Version, State: record.JobFailed, Revision: kv.ModRevision,
			Reason: "Broken", Message: strings.Repeat("\x01", 2<<10), LastTransitionTime: record.At(time.Now())})
		w.becomes(id, func(j *jobs.Job) bool { return j.State.Ended() })
	})
}

func TestARegistrationOfManyBytesIsRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		long := strings.Repeat("x", 100<<10)
		many := map[string]string{}
		for i := range 2000 {
			many[fmt.Sprintf("label-%d", i)] = strings.Repeat("x", 40)
		}
		for name, spec := range map[string]clusters.Spec{
			"endpoint": {Endpoint: "https://d.example.org/" + long}, "labels": {Labels: many}, "groups": {AllowedGroups: []string{long}},
		} {
			spec.ClusterID = "d"
			if spec.Endpoint == "" {
				spec.Endpoint = "https://d.example.org"
			}
			_, err := w.Clusters.Register(t.Context(), admin, spec)
			if code := codeOf(t, err); code != fault.CodeInvalid {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A label that is none could not be chosen by ?label=, nor by -l.
func TestARegistrationWithLabelsThatNoSelectorNamesIsRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		for key, value := range map[string]string{"a b": "c", "a": "b c", "": "c", "b": strings.Repeat("x", 64)} {
			_, err := w.Clusters.Register(t.Context(), admin, clusters.Spec{ClusterID: "d", Endpoint: "https://d.example.org", Labels: map[string]string{key: value}})
			if code := codeOf(t, err); code != fault.CodeInvalid {
				t.Errorf("%q: %q: %v", key, value, err)
			}
		}
		good := map[string]string{"site": "upv", "example.org/gpu": ""}
		if _, err := w.Clusters.Register(t.Context(), admin, clusters.Spec{ClusterID: "d", Endpoint: "https://d.example.org", Labels: good}); err != nil {
			t.Error(err)
		}
	})
}

// A plan of the largest federation, and its application through another instance.
func TestAPlanOfTheLargestFederationByAnotherInstance(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		var members []string
		for i := range 119 {
			w.addCluster(fmt.Sprintf("m%d", i))
			members = append(members, fmt.Sprintf(`{"cluster_id":"m%d","service_name":"large%d"}`, i, i))
		}
		large := `{"name":"large","image":"i","script":"s","federation":{"topology":"mesh","members":[` + strings.Join(members, ",") + `]}}`
		other := w.second()
		plan, err := other.Plans.Make(t.Context(), admin, plan.Request{Service: send(t, large).Service})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Replicas) != 120 || len(plan.Topology.EdgesAdded) != 120*119 {
			t.Errorf("%d replicas, %d edges", len(plan.Replicas), len(plan.Topology.EdgesAdded))
		}
		if err := w.apply(plan, large); err != nil {
			t.Fatal(err)
		}
		w.wroteWhat(plan)
		change := w.mustPlan(strings.Replace(large, `"mesh"`, `"star"`, 1))
		if len(change.Topology.EdgesRemoved) != 119*119 || len(named(change, v1.PlanUpdate)) != 120 {
			t.Errorf("%d edges go, %d replicas change", len(change.Topology.EdgesRemoved), len(named(change, v1.PlanUpdate)))
		}
	})
}
