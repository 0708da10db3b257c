package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

// history is one waiting Job, with a syncer over the API server and the Job controller,
// and a test that plays the rest: the control plane by its answers, the node that
// starts pods, and Kueue.
type history struct {
	t         *testing.T
	namespace string
	store     *store.Store
	key       kube.JobKey
	// end is the answer to a frozen Job.
	end record.OfferWord
	// event is the one that is offered.
	event string
	plane *seal.Identity
	kube  kube.Interface
	oscar *manager.Client

	// unwatched is how many watches of Jobs fail before one begins.
	unwatched int
	// off makes the next syncer one that offers nothing.
	off bool
	// at is called before and after each step in Kubernetes, numbered from 0.
	at func(step int, after bool)

	mu sync.Mutex
	// steps counts those of all syncers, and refused those that Kubernetes did not take.
	steps, refused int
	// stop ends the present syncer, as if it were killed.
	stop context.CancelFunc
	// begun are the pods that a node has started with their own images, and killed
	// those of them that were deleted.
	begun, killed map[types.UID]bool
	// accepted says that somebody else runs the Job.
	accepted bool
}

const offered = "offered"

// newHistory makes a Job of a service, with the records of the service.
func newHistory(t *testing.T, namespace string, end record.OfferWord, change ...func(*batchv1.Job)) *history {
	t.Helper()
	t.Parallel()
	h := &history{t: t, namespace: shared.Cluster(t).Namespace(t, namespace), end: end, event: `{"Records":[{"s3":{"object":{"key":"in/ü"}}}]}`,
		begun: map[types.UID]bool{}, killed: map[types.UID]bool{}, at: func(int, bool) {}}
	h.store = storetest.Open(t, store.Config{Endpoints: []string{storetest.Etcd(t)}, Logger: storetest.Logger(t)})
	var err error
	if h.plane, err = seal.Generate(); err != nil {
		t.Fatal(err)
	}
	if h.kube, err = kube.New(shared.Cluster(t).Admin(), kube.Config{Services: namespace, LeaseTerm: 15 * time.Second, Logger: storetest.Logger(t)}); err != nil {
		t.Fatal(err)
	}
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(away.Close)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h.oscar, err = manager.New(manager.Config{Endpoint: away.URL, User: "oscar", PasswordFile: password}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.oscar.Close)
	h.put(record.DesiredClusterKey(cluster), record.DesiredCluster{V: 1, ClusterID: cluster, UID: "registered", State: record.ClusterActive})
	h.put(record.DesiredServiceKey(cluster, offered), record.Desired{V: 1, Intent: record.IntentApply, Federation: "f1", GroupID: "g", UID: "replica-1",
		Generation: 1, Owner: "cluster_admin", Sees: []string{"oscar-cluster-b/x"}})
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: offered + "-1", Labels: map[string]string{"oscar_service": offered}, Annotations: map[string]string{"oscarfed/uid": "replica-1"}},
		Spec: batchv1.JobSpec{
			Suspend: new(false), BackoffLimit: new(int32(0)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"oscar_service": offered}},
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
					Name: "oscar-container", Image: "example.org/work", Env: []corev1.EnvVar{{Name: "EVENT", Value: h.event}},
				}}},
			},
		},
	}
	for _, c := range change {
		c(j)
	}
	if _, err := shared.Cluster(t).Client().BatchV1().Jobs(namespace).Create(t.Context(), j, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.key = kube.JobKey{Namespace: namespace, Name: j.Name}
	return h
}

func (h *history) put(key string, value any) {
	h.t.Helper()
	h.update([]string{key}, func(tx *store.Txn) { tx.Put(key, value) })
}

func (h *history) update(keys []string, fill func(tx *store.Txn)) {
	h.t.Helper()
	_, err := h.store.Update(context.WithoutCancel(h.t.Context()), store.Update{Keys: keys, Build: func(_ store.View, tx *store.Txn) error {
		fill(tx)
		return nil
	}})
	if err != nil {
		h.t.Error(err)
	}
}

// job reads the Job; nil when it is gone.
func (h *history) job() *kube.Job {
	h.t.Helper()
	j, err := h.kube.Job(h.t.Context(), h.key)
	if errors.Is(err, kube.ErrNoJob) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return j
}

// offer reads the one offer that there may be.
func (h *history) offer() (id string, o *record.Offer, answered bool) {
	h.t.Helper()
	kvs, _, err := h.store.List(h.t.Context(), record.OffersPrefix(cluster))
	if err != nil {
		h.t.Fatal(err)
	}
	if len(kvs) > 1 {
		h.t.Fatalf("%d offers of one Job", len(kvs))
	}
	if len(kvs) == 0 {
		return "", nil, false
	}
	if o, err = store.Decode[record.Offer](kvs[0]); err != nil {
		h.t.Fatal(err)
	}
	id = record.ParseKey(kvs[0].Key).Name
	_, err = h.store.Get(h.t.Context(), record.OfferAnswerKey(cluster, id))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		h.t.Fatal(err)
	}
	return id, o, err == nil
}

// answer plays the control plane: one answer to each state. It gives the state in which
// the offer ended, when it has.
func (h *history) answer() (record.OfferState, string) {
	h.t.Helper()
	id, o, _ := h.offer()
	if o == nil {
		return "", ""
	}
	say := func(word record.OfferWord) {
		a := record.OfferAnswer{V: 1, Answer: word}
		if word == record.OfferFreeze {
			a.Recipient = h.plane.Recipient()
		}
		h.put(record.OfferAnswerKey(cluster, id), a) // the same again changes nothing
	}
	if !o.BucketEvent {
		h.t.Errorf("nobody says that its event is one of a bucket: %+v", o)
	}
	switch o.State {
	case record.OfferWaiting:
		say(record.OfferFreeze)
	case record.OfferFrozen:
		if h.end == record.OfferRelease {
			h.checkFrozen(id)
		}
		say(h.end)
	default:
		keys := []string{record.OfferKey(cluster, id), record.OfferAnswerKey(cluster, id), record.OfferedEventKey(cluster, id)}
		h.update(keys, func(tx *store.Txn) {
			for _, key := range keys {
				tx.Delete(key)
			}
		})
		return o.State, o.Message
	}
	return "", ""
}

// checkFrozen accepts the Job elsewhere: with its event, and with nothing started here.
func (h *history) checkFrozen(id string) {
	h.t.Helper()
	kv, err := h.store.Get(h.t.Context(), record.OfferedEventKey(cluster, id))
	if err != nil {
		h.t.Fatal(err)
	}
	e, err := store.Decode[record.Event](kv)
	if err != nil {
		h.t.Fatal(err)
	}
	event, err := h.plane.Open(e.Sealed, seal.Header{Purpose: seal.PurposeEvent, UID: id}, time.Now())
	if err != nil || string(event) != h.event {
		h.t.Errorf("the event is %q, %v", event, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accepted = true
	if len(h.begun) > 0 {
		h.t.Errorf("it was accepted elsewhere, and %d pods have started here", len(h.begun))
	}
}

// run starts a syncer; the func waits until it has ended.
func (h *history) run() func() {
	h.t.Helper()
	identity, err := seal.Generate()
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := syncer.New(syncer.Config{
		ClusterID: cluster, Store: h.store, OSCAR: h.oscar, Kube: hooked{h.kube, h}, Identity: identity,
		RescheduleAfter: time.Millisecond, SessionTTL: 10 * time.Second, Resync: time.Second, StopGrace: time.Second, Logger: storetest.Logger(h.t), KeepJobs: h.off,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(h.t.Context()))
	h.mu.Lock()
	h.stop = stop
	h.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		stop()
		if err := <-ended; err != nil {
			h.t.Errorf("the syncer ended with %v", err)
		}
	}
}

// play runs syncers until the offer has ended, and says how.
func (h *history) play() (end record.OfferState) {
	h.t.Helper()
	stop := h.run()
	message := ""
	defer func() {
		if end == "" { // it never came
			_, o, _ := h.offer()
			j := h.job()
			h.t.Logf("the offer is %+v", o)
			if j != nil {
				h.t.Logf("the Job is %s", shown(j))
			}
		}
	}()
	kubetest.Eventually(h.t, "the offer ends", func() bool {
		h.mu.Lock()
		dead := h.stop == nil
		h.mu.Unlock()
		if dead {
			stop()
			stop = h.run()
		}
		h.node()
		h.kueue()
		state, why := h.answer()
		if state != "" {
			end, message = state, why
		}
		return end != ""
	})
	stop()
	h.t.Logf("%s (%s) after %d steps", end, message, h.steps)
	return end
}

// shown is a Job for a person.
func shown(j *kube.Job) string {
	if j == nil {
		return "gone"
	}
	return fmt.Sprintf("of generation %d, suspended %t, settled %t, queue %q, ended %t, mark %+v, pods %+v, Workload %+v",
		j.Generation, j.Suspended, j.Settled, j.Queue, j.Ended, j.Mark, j.Pods, j.Workload)
}

// kill ends the present syncer before it learns what became of its step.
func (h *history) kill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop()
	h.stop = nil
}
