package controlplane_test

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/plan"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

var ann = identity.Caller{Subject: "ann@egi.eu"}

// minio has the syncer of a cluster report where its MinIO is.
func (p *fakeSyncer) minio(endpoint string, verify *bool) {
	p.t.Helper()
	p.write(record.ObservedClusterKey(p.cluster), record.ObservedCluster{
		V: record.Version, Recipient: p.identity.Recipient(), OscarVersion: "v4.1.2",
		MinioEndpoint: endpoint, MinioRegion: "region-of-" + p.cluster, MinioVerify: verify,
	})
}

// origins is whose storage each replica is told to use, by cluster/service.
func (w *world) origins() map[string]*record.OriginStorage {
	w.t.Helper()
	out := map[string]*record.OriginStorage{}
	for id := range w.clusters {
		items, _, err := w.store.List(w.t.Context(), record.DesiredServicesPrefix(id))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, kv := range items {
			d, err := store.Decode[record.Desired](kv)
			if err != nil {
				w.t.Fatal(err)
			}
			if d.Tombstone() {
				continue
			}
			at, err := w.store.Get(w.t.Context(), record.SpecKey(id, d.Spec))
			if err != nil {
				w.t.Fatal(err)
			}
			spec, err := store.Decode[record.Spec](at)
			if err != nil {
				w.t.Fatal(err)
			}
			if strings.Contains(string(spec.Service), "minio.") && strings.Contains(string(spec.Service), ".example.org:9000") {
				w.t.Errorf("an older syncer would send %s", spec.Service)
			}
			out[id+"/"+record.ParseKey(kv.Key).Name] = spec.Origin
		}
	}
	return out
}

func reasonsOf(plan *v1.Plan, cluster string) string {
	for _, r := range plan.Replicas {
		if r.ClusterID == cluster {
			return strings.Join(r.Reasons, "; ")
		}
	}
	return ""
}

// TestWorkersAreToldOfTheOriginsStorage: those of a user, when it is known, beside the
// service and not in it; a plan says so and names it.
func TestWorkersAreToldOfTheOriginsStorage(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		origin := func(verify bool) *record.OriginStorage {
			return &record.OriginStorage{
				ClusterID: "a", Endpoint: "https://a.example.org", SSLVerify: true,
				MinioEndpoint: "https://minio.a.example.org:9000", MinioRegion: "region-of-a", MinioVerify: verify,
			}
		}
		told := func(workers *record.OriginStorage) map[string]*record.OriginStorage {
			return map[string]*record.OriginStorage{"a/grayifyr0": nil, "b/grayifyr1": workers, "c/grayifyr2": workers}
		}
		for _, c := range []struct {
			name   string
			report func()
			caller identity.Caller
			body   string
			want   map[string]*record.OriginStorage
		}{
			{"nothing is known", func() {}, ann, usersBody, told(nil)},
			{"no address", func() { w.clusters["a"].minio("minio:9000", nil) }, ann, usersBody, told(nil)},
			{"an address with a password", func() { w.clusters["a"].minio("https://u:p@minio.a.example.org:9000", nil) }, ann, usersBody, told(nil)},
			{"an older syncer", func() { w.clusters["a"].minio("https://minio.a.example.org:9000", nil) }, ann, usersBody, told(origin(true))},
			{"not verified", func() { w.clusters["a"].minio("https://minio.a.example.org:9000", new(bool)) }, ann, usersBody, told(origin(false))},
			{"the administrator's", func() {}, admin, body, told(nil)},
			{"no input or output in it", func() {}, ann, strings.ReplaceAll(usersBody, `"storage_provider":"minio.default"`, `"storage_provider":"webdav.x"`), nil},
			{"called alike on one cluster", func() { w.clusters["c"].minio("https://minio.a.example.org:9000", nil) }, ann, usersBody,
				map[string]*record.OriginStorage{"a/grayifyr0": nil, "b/grayifyr1": origin(false), "c/grayifyr2": nil}},
		} {
			if c.want == nil {
				c.want = told(nil)
				c.body = strings.Replace(c.body, `{`, `{"storage_providers":{"webdav":{"x":{"hostname":"h.example.org","login":"l","password":"p"}}},`, 1)
			}
			c.report()
			var planned *v1.Plan
			var err error
			w.eventually(func() bool { // the report has reached the state
				planned, err = w.Plans.Make(t.Context(), c.caller, plan.Request{Service: send(t, c.body).Service})
				says := err == nil && strings.Contains(reasonsOf(planned, "b"), "minio.default is that of a, https://minio.a.example.org:9000")
				return err != nil || says == (c.want["b/grayifyr1"] != nil) && (!says || strings.Contains(reasonsOf(planned, "c"), "minio.default") == (c.want["c/grayifyr2"] != nil))
			})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			// What was planned is what is written: the digest has the storage in it.
			_, err = w.Federations.CreateService(t.Context(), c.caller, send(t, c.body, func(r *federations.CreateRequest) { r.Plan = planned.Digest }))
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if diff := cmp.Diff(c.want, w.origins()); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
			if _, err := w.Federations.DeleteService(t.Context(), c.caller, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
	})
}

// TestAnotherStorageIsNotWhatWasPlanned.
func TestAnotherStorageIsNotWhatWasPlanned(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		planned := func() *v1.Plan {
			p, err := w.Plans.Make(t.Context(), ann, plan.Request{Service: send(t, usersBody).Service})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		w.clusters["a"].minio("https://minio.a.example.org:9000", nil)
		var first *v1.Plan
		w.eventually(func() bool { first = planned(); return strings.Contains(reasonsOf(first, "b"), "minio.a.") })
		w.clusters["a"].minio("https://other.a.example.org:9000", nil)
		w.eventually(func() bool { return strings.Contains(reasonsOf(planned(), "b"), "other.a.") })
		_, err := w.Federations.CreateService(t.Context(), ann, send(t, usersBody, func(r *federations.CreateRequest) { r.Plan = first.Digest }))
		if codeOf(t, err) != fault.CodeConflict {
			t.Errorf("%v", err)
		}
	})
}

// bucketEvent is what MinIO sends of an upload.
const bucketEvent = `{"EventName":"s3:ObjectCreated:Put","Key":"grayifyr0/in/x","Records":[{"requestParameters":` +
	`{"principalId":"ann@egi.eu","sourceIPAddress":"10.0.0.1"},"s3":{"bucket":{"name":"grayifyr0"},"object":{"key":"in/` + secretEvent + `"}}}]}`

// reads has the syncer of a cluster report whether its replica can use the storage of the
// origin; nil for one that has its own.
func (p *fakeSyncer) reads(service string, inputs *record.Inputs) {
	p.t.Helper()
	key := record.ObservedServiceKey(p.cluster, service)
	_, err := p.store.Update(p.t.Context(), store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
		kv, _ := v.KV(key)
		o, err := store.Decode[record.Observed](kv)
		if err != nil {
			return err
		}
		o.Inputs = inputs
		tx.Put(key, o)
		return nil
	}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// verdicts are what would be thought of each member now, by cluster.
func (w *world) verdicts(id string) map[string]delegation.Verdict {
	w.t.Helper()
	_, why, err := w.Jobs.Explain(w.t.Context(), admin, id)
	if err != nil || len(why) == 0 {
		w.t.Fatalf("%+v, %v", why, err)
	}
	out := map[string]delegation.Verdict{}
	for _, v := range why[0].Decision.Verdicts {
		cluster, _, _ := strings.Cut(v.Place, "/")
		out[cluster] = v
	}
	return out
}

// cannot waits until a queued job is kept from a cluster for what is said.
func (w *world) cannot(id, cluster string, why delegation.Why, words string) {
	w.t.Helper()
	w.eventually(func() bool { v := w.verdicts(id)[cluster]; return v.Why == why && strings.Contains(v.Message, words) })
}

func sends(event, service, cluster string) func(*jobs.Request) {
	return func(r *jobs.Request) { r.Event, r.Service, r.ClusterID = []byte(event), service, cluster }
}

// TestAnEventOfABucketGoesWhereItsObjectIs, to the origin and to whom its syncer lets
// read there; explain and the status say why not.
func TestAnEventOfABucketGoesWhereItsObjectIs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		a, b, c := w.clusters["a"], w.clusters["b"], w.clusters["c"]
		w.full("a")
		waits := w.submit(sends(bucketEvent, "grayifyr0", ""))
		for _, cluster := range []string{"b", "c"} {
			w.cannot(waits.ID, cluster, delegation.WhyInputsUnreadable, "it reads the MinIO of its own cluster")
		}
		w.cannot(waits.ID, "a", delegation.WhyNoRoom, "")

		// Nobody waits behind it who needs no object.
		if p, _ := w.at(w.submit().ID); p == a {
			t.Error("there was no room at a")
		}

		// A worker that uses its own storage keeps what came in there, though others have room.
		w.full("b")
		a.has(4000)
		w.at(waits.ID)
		w.full("a", "c")
		local := w.submit(sends(bucketEvent, "grayifyr2", "c"))
		a.has(4000)
		w.cannot(local.ID, "a", delegation.WhyInputsUnreadable, "the event names an object in that of c")
		w.full("a")
		c.has(4000)
		if p, _ := w.at(local.ID); p != c {
			t.Errorf("it went to %s", p.cluster)
		}
		w.full("c")

		// A worker whose syncer says that it cannot read the origin's takes no job at all.
		at := record.At(time.Now())
		b.reads("grayifyr1", &record.Inputs{Reason: record.ReasonInputsUnreadable, Message: "https://minio.a.example.org does not answer", At: at})
		b.has(4000)
		event, plain := w.submit(sends(bucketEvent, "grayifyr0", "")), w.submit()
		for _, j := range []*jobs.Job{event, plain} {
			w.cannot(j.ID, "b", delegation.WhyInputsUnreadable, "the MinIO of a cannot be used from there: https://minio.a.example.org does not answer")
		}
		r, err := w.Federations.Replicas(t.Context(), admin, "grayifyr1", "")
		if err != nil {
			t.Fatal(err)
		}
		if st := r.Members[r.Self].Status; st.Phase != record.PhaseReady || st.Inputs == nil || st.Inputs.Readable || st.Inputs.Reason != record.ReasonInputsUnreadable {
			t.Errorf("%+v", st)
		}

		// When it can, it takes both, and an event of its own goes to the origin too.
		b.reads("grayifyr1", &record.Inputs{Readable: true, At: at})
		for _, j := range []*jobs.Job{event, plain} {
			if p, _ := w.at(j.ID); p != b {
				t.Errorf("it went to %s", p.cluster)
			}
		}
		w.full("b")
		came := w.submit(sends(bucketEvent, "grayifyr1", "b"))
		a.has(4000)
		if p, _ := w.at(came.ID); p != a {
			t.Errorf("it went to %s", p.cluster)
		}
	})
}

// TestAnOfferedEventOfABucketStaysWithItsObject: it is not even frozen, unless its syncer
// is older and does not say what it is; then it is given back.
func TestAnOfferedEventOfABucketStaysWithItsObject(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		c := w.clusters["c"]
		bucket, older, plain := uuid.NewString(), uuid.NewString(), uuid.NewString()
		c.offers("grayifyr2", bucket, "bucket", record.OfferWaiting, ofBucket(true))
		c.offers("grayifyr2", older, "older", record.OfferWaiting)
		c.offers("grayifyr2", plain, "plain", record.OfferWaiting)
		w.answers(c, plain, record.OfferFreeze) // seen after the others
		w.answers(c, older, record.OfferFreeze)
		c.offers("grayifyr2", older, "older", record.OfferFrozen, ofBucket(false))
		w.answers(c, older, record.OfferRestore)
		w.is(older, record.JobReturned)
		c.offers("grayifyr2", older, "older", record.OfferRestored)
		w.eventually(func() bool { return c.answered(older) == nil })
		// Now it is known.
		c.offers("grayifyr2", older, "older", record.OfferWaiting)
		another := uuid.NewString()
		c.offers("grayifyr2", another, "another", record.OfferWaiting)
		w.answers(c, another, record.OfferFreeze)
		for _, id := range []string{bucket, older} {
			if a := c.answered(id); a != nil {
				t.Errorf("it would find its object nowhere else, and the answer is %s", a.Answer)
			}
		}
		// Where the worker reads the origin's storage it moves.
		c.reads("grayifyr2", &record.Inputs{Readable: true, At: record.At(time.Now())})
		w.answers(c, bucket, record.OfferFreeze)
		c.offers("grayifyr2", bucket, "bucket", record.OfferFrozen, ofBucket(true))
		w.exists(bucket)
		if p, j := w.at(bucket); p.cluster != "a" || p.event(bucket, 1) != bucketEvent {
			t.Errorf("%+v", j)
		}
	})
}
