package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// ann is a user of EGI: OSCAR cuts her subject at the @.
const ann = "62bb11b4@egi.eu"

// uploaded is what MinIO sends of an upload of hers to the coordinator's bucket.
const uploaded = `{"EventName":"s3:ObjectCreated:Put","Key":"grayifyr0/in/x","Records":[{"eventName":"s3:ObjectCreated:Put",` +
	`"requestParameters":{"principalId":"` + ann + `","sourceIPAddress":"10.0.0.1"},"s3":{"bucket":{"name":"grayifyr0"},"object":{"key":"in/x"}}}]}`

// inputsOf is what is said of the storage that each replica of a federation uses, by
// cluster.
func inputsOf(w *world.World) map[string]*v1.Inputs {
	w.T.Helper()
	r, err := w.Client.Replicas(w.T.Context(), names[0], "")
	if err != nil {
		w.T.Fatal(err)
	}
	out := map[string]*v1.Inputs{}
	for _, m := range append(slices.Clone(r.Replicas), r.Self) {
		out[m.ClusterID] = m.Status.Inputs
	}
	return out
}

// readable says whether the workers can use the origin's storage, which is said of no
// coordinator.
func readable(w *world.World, want bool) bool {
	in := inputsOf(w)
	return in[a] == nil && in[b] != nil && in[c] != nil && in[b].Readable == want && in[c].Readable == want
}

// keysOf waits until a job is at an OSCAR, and answers where, and with which keys of
// another MinIO.
func keysOf(t *testing.T, w *world.World, id string) (cluster string, keys *oscarsim.MinIOKeys) {
	t.Helper()
	job := until(t, w.Client, id, func(j *v1.Job) bool { return j.State == v1.JobSubmitted })
	for _, j := range w.Cluster(job.Place.ClusterID).Sim.Jobs(job.Place.ServiceName) {
		if j.Name == job.Place.JobName {
			return job.Place.ClusterID, j.MinIO
		}
	}
	t.Fatalf("%+v is submitted, and not there", job.Place)
	return "", nil
}

// A user's jobs read and write the MinIO of the coordinator's cluster wherever they run,
// with her own keys of it, whatever their event is. While it cannot be reached they go to
// no cluster that needs it.
func TestJobsOfWorkersUseTheStorageOfTheOrigin(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t, func(o *world.Options) {
			o.OriginStorage = true
			o.Secrets = append(o.Secrets, "sim-key-of-"+ann)
			o.Syncer = func(c *syncer.Config) { c.OriginLook = 500 * time.Millisecond }
		})
		w.AddUser(ann)
		user := w.WithToken(w.Token(ann, nil))
		submit := func(event string) string {
			t.Helper()
			return world.Must(user.SubmitJob(t.Context(), names[0], []byte(event), client.JobOptions{}))(t).ID
		}
		// A private service of hers OSCAR would not find by her token: it looks for the part before the @.
		public := strings.Replace(usersBody(), `"environment":`, `"visibility":"public","environment":`, 1)
		if err := createAs(w, w.Token(ann, nil), public, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("the workers can use it", func() bool { return readable(w, true) })
		for _, m := range world.Must(w.Client.Federation(t.Context(), names[0]))(t).Replicas {
			want := []v1.Storage{{StorageProvider: "minio.default", ClusterID: a, Endpoint: w.Cluster(a).URL}}
			if !slices.Equal(m.Storage, want) {
				t.Errorf("the storage of %s is told as %+v, want %+v", m.ClusterID, m.Storage, want)
			}
		}
		states := func(state string, clusters ...string) {
			t.Helper()
			for _, id := range clusters {
				world.Must(w.Client.SetClusterState(t.Context(), id, state))(t)
			}
		}
		states("cordoned", b, c)
		if cluster, keys := keysOf(t, w, submit(uploaded)); cluster != a || keys != nil {
			t.Errorf("at %s, with %+v: the coordinator's MinIO is its own", cluster, keys)
		}
		states("active", b, c)
		states("cordoned", a)
		want := oscarsim.MinIOKeys{Secret: "62bb11b4-origin-minio-" + a, Endpoint: w.Cluster(a).URL, AccessKey: ann, SecretKey: "sim-key-of-" + ann}
		for _, event := range []string{uploaded, "an event of nobody's"} {
			if cluster, keys := keysOf(t, w, submit(event)); cluster == a || keys == nil || *keys != want {
				t.Errorf("%.20s: at %s, with %+v", event, cluster, keys)
			}
		}

		// The origin's MinIO is away.
		if err := w.Cluster(a).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpHealth, Fault: oscarsim.FaultRefuse}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("they say that they cannot", func() bool { return readable(w, false) })
		waits := submit("another event")
		why := world.Must(w.Client.ExplainJob(t.Context(), waits))(t)
		if len(why.Decisions) != 1 || why.Decisions[0].Chosen != "" {
			t.Fatalf("%+v", why.Decisions)
		}
		for _, m := range why.Decisions[0].Members {
			if m.Place != a+"/"+names[0] && (m.Why != "InputsUnreadable" || !strings.Contains(m.Message, "the MinIO of "+a+" cannot be used from there")) {
				t.Errorf("%+v", m)
			}
		}
		w.Cluster(a).Sim.ClearFaults()
		if cluster, keys := keysOf(t, w, waits); cluster == a || keys == nil || *keys != want {
			t.Errorf("at %s, with %+v", cluster, keys)
		}
		if strings.Contains(w.Log.String(), want.SecretKey) {
			t.Error("her keys are in a log")
		}
	})
}

// A job that could not read its input, since the origin's MinIO had gone, is not lost: it goes
// back, waits, and runs again when that answers.
func TestAJobThatFailedWhileTheOriginWasAwayGoesBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t, func(o *world.Options) {
			o.OriginStorage = true
			o.Secrets = append(o.Secrets, "sim-key-of-"+ann)
			o.Syncer = func(c *syncer.Config) { c.OriginLook = 500 * time.Millisecond }
		})
		w.AddUser(ann)
		if err := createAs(w, w.Token(ann, nil), usersBody(), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("the workers can use it", func() bool { return readable(w, true) })
		for _, id := range []string{a, c} {
			world.Must(w.Client.SetClusterState(t.Context(), id, "cordoned"))(t)
		}
		job := world.Must(w.WithToken(w.Token(ann, nil)).SubmitJob(t.Context(), names[0], []byte(uploaded), client.JobOptions{}))(t).ID
		at := until(t, w.Client, job, func(j *v1.Job) bool { return j.State == v1.JobSubmitted }).Place
		if err := w.Cluster(a).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpHealth, Fault: oscarsim.FaultRefuse}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("they say that they cannot", func() bool { return readable(w, false) })
		sim := w.Cluster(b).Sim
		before := sim.Calls()[oscarsim.OpLogs]
		w.Eventually("it is seen that it has not started yet", func() bool { return sim.Calls()[oscarsim.OpLogs] >= before+2 })
		if err := sim.SetJobStatus(at.ServiceName, at.JobName, oscarsim.JobFailed); err != nil {
			t.Fatal(err)
		}
		waits := until(t, w.Client, job, func(j *v1.Job) bool { return j.State == v1.JobQueued && len(j.Attempts) == 1 })
		if first := waits.Attempts[0]; first.State != v1.JobFailed || first.Reason != "InputsUnreadable" {
			t.Errorf("the first attempt: %+v", first)
		}
		w.Cluster(a).Sim.ClearFaults()
		until(t, w.Client, job, func(j *v1.Job) bool { return j.State == v1.JobSubmitted && j.Attempt == 2 })
	})
}
