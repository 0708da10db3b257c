package controlplane_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestJoin(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j, m, got := newJoined(t)
		reg := j.registration("a")
		cert := certificate(t, got)
		if cert.Subject.CommonName != "a."+reg.UID || !m.key.PublicKey.Equal(cert.PublicKey) || cert.NotAfter.Sub(j.clock.now()).Round(time.Minute) != 24*time.Hour {
			t.Errorf("the certificate is for %q until %s", cert.Subject.CommonName, cert.NotAfter)
		}
		if got.ClusterUID != reg.UID || len(got.EtcdCA) == 0 || len(got.EtcdEndpoints) != 1 || got.RemovedAt != nil {
			t.Errorf("%+v", got)
		}
		fingerprint, err := pki.Fingerprint(m.key.Public())
		if err != nil {
			t.Fatal(err)
		}
		if jd := reg.Joined; jd == nil || jd.Key != fingerprint || jd.KubeSystemUID != m.request.KubeSystemUID || jd.Recipient != m.request.Recipient || !jd.ValidUntil.Equal(got.ExpiresAt.Time) {
			t.Errorf("the registration says %+v", jd)
		}
		if !j.gate.in("a", reg.UID) {
			t.Error("it was not admitted to etcd")
		}

		// The answer was lost: the same again.
		again, err := j.Clusters.Join(t.Context(), m.request)
		if err != nil || again.ClusterUID != got.ClusterUID {
			t.Errorf("the same request again: %+v %v", again, err)
		}
		// A thief is later.
		thief := newMachine(t, "a", m.request.Token)
		_, err = j.Clusters.Join(t.Context(), thief.request)
		refused(t, "a second use", err, fault.CodeForbidden, "used already")
		// The token is over, even for who has used it.
		j.clock.pass(16 * time.Minute)
		_, err = j.Clusters.Join(t.Context(), m.request)
		refused(t, "after its time", err, fault.CodeForbidden, "not accepted")
	})
}

// No record holds a token, and each goes with its lease.
func TestATokenRestsAsItsHash(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		token := j.token("a", false)
		items, _, err := j.store.List(t.Context(), record.JoinsPrefix)
		if err != nil || len(items) != 1 {
			t.Fatalf("%d records, %v", len(items), err)
		}
		if kv := items[0]; kv.Lease == 0 || strings.Contains(string(kv.Value), token) || kv.Key != record.JoinKey(record.JoinHash(token)) {
			t.Errorf("%s = %s with lease %d", kv.Key, kv.Value, kv.Lease)
		}
		if _, err := j.Clusters.Join(t.Context(), newMachine(t, "a", token).request); err != nil {
			t.Fatal(err)
		}
		kv, err := j.store.Get(t.Context(), record.JoinKey(record.JoinHash(token)))
		if err != nil || kv.Lease == 0 {
			t.Errorf("a token that was used stays for ever: %+v %v", kv, err)
		}
	})
}

func TestJoinRefuses(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		if _, err := j.Clusters.Join(t.Context(), newMachine(t, "c", j.token("c", false)).request); err != nil {
			t.Fatal(err)
		}
		tests := []struct {
			name  string
			spoil func(m *machine)
			code  fault.Code
			says  string
		}{
			{"no token", func(m *machine) { m.request.Token = "" }, fault.CodeForbidden, "not accepted"},
			{"a guess", func(m *machine) { m.request.Token = "ofj_" + strings.Repeat("0", 64) }, fault.CodeForbidden, "not accepted"},
			{"a service's token", func(m *machine) { m.request.Token = strings.Repeat("a", 64) }, fault.CodeForbidden, "not accepted"},
			{"a token for another cluster", func(m *machine) { m.request.ClusterID = "b" }, fault.CodeForbidden, "not accepted"},
			{"a cluster that there is not", func(m *machine) { m.request.ClusterID = "z" }, fault.CodeForbidden, "not accepted"},
			{"another key", func(m *machine) { m.request.Token = j.token("c", false); m.request.ClusterID = "c" }, fault.CodeConflict, "another key"},
		}
		for _, tt := range tests {
			m := newMachine(t, "a", j.token("a", false))
			tt.spoil(m)
			_, err := j.Clusters.Join(t.Context(), m.request)
			refused(t, tt.name, err, tt.code, tt.says)
			if reg := j.registration("a"); reg.Joined != nil {
				t.Fatalf("%s: a has joined", tt.name)
			}
		}
		_, err := j.Clusters.IssueJoin(t.Context(), identity.Caller{Subject: "somebody"}, "a", false)
		refused(t, "a user makes a token", err, fault.CodeForbidden, "administrator")
		_, err = j.Clusters.IssueJoin(t.Context(), admin, "z", false)
		refused(t, "a token for nobody", err, fault.CodeNotFound, "not registered")
	})
}

// Whatever is wrong with a token, the answer is the same to the byte: it tells nobody
// which clusters there are.
func TestAWrongTokenTellsNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		valid := j.token("a", false)
		var answers []string
		for cluster, token := range map[string]string{"a": "ofj_" + strings.Repeat("1", 64), "z": "ofj_" + strings.Repeat("2", 64), "b": valid, "nothing": valid} {
			_, err := j.Clusters.Join(t.Context(), newMachine(t, cluster, token).request)
			if err == nil {
				t.Fatal(cluster, "has joined")
			}
			answers = append(answers, err.Error())
		}
		if len(slices.Compact(answers)) != 1 {
			t.Errorf("the answers differ: %q", answers)
		}
	})
}

func TestTheSameClusterComesBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		m := newMachine(t, "a", j.token("a", false))
		m.request.KubeSystemUID = "" // Kubernetes could not be reached
		if _, err := j.Clusters.Join(t.Context(), m.request); err != nil {
			t.Fatal(err)
		}
		// Another token and the same key: this is how who was away for too long returns.
		m.request.Token, m.request.KubeSystemUID = j.token("a", false), "kube-1"
		if _, err := j.Clusters.Join(t.Context(), m.request); err != nil {
			t.Fatal(err)
		}
		if got := j.registration("a").Joined.KubeSystemUID; got != "kube-1" {
			t.Errorf("kube-system has uid %q", got)
		}
		// The machine's disk was copied into another Kubernetes.
		copied := *m
		copied.request.Token, copied.request.KubeSystemUID = j.token("a", false), "kube-2"
		_, err := j.Clusters.Join(t.Context(), copied.request)
		refused(t, "another Kubernetes", err, fault.CodeConflict, "another Kubernetes")
		// A refusal uses nothing up.
		copied.request.KubeSystemUID = "kube-1"
		if _, err := j.Clusters.Join(t.Context(), copied.request); err != nil {
			t.Error(err)
		}
		// The identity is lost.
		lost := newMachine(t, "a", j.token("a", true))
		lost.request.KubeSystemUID = "kube-2"
		e, err := j.Clusters.Join(t.Context(), lost.request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lost.renew(j.ControlPlane, e.ClusterUID); err != nil {
			t.Error(err)
		}
		_, err = m.renew(j.ControlPlane, e.ClusterUID)
		refused(t, "the key that was replaced", err, fault.CodeForbidden, "replaced")
	})
}

// Of many that come at once with one token, to several instances, exactly one is let
// in, and the registration is his.
func TestOneOfManyJoins(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		second := startControlPlane(t, j.store, j.identity, func(cfg *controlplane.Config) { cfg.Access, cfg.Now = j.gate, j.clock.now })
		token := j.token("b", false)
		const n = 16
		machines, errs := make([]*machine, n), make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			machines[i] = newMachine(t, "b", token)
			cp := j.ControlPlane
			if i%2 == 1 {
				cp = second
			}
			wg.Go(func() { _, errs[i] = cp.Clusters.Join(t.Context(), machines[i].request) })
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err != nil:
				refused(t, "a late one", err, fault.CodeForbidden, "used already")
			case won >= 0:
				t.Fatal("two were let in")
			default:
				won = i
			}
		}
		if won < 0 {
			t.Fatal("nobody was let in")
		}
		fingerprint, err := pki.Fingerprint(machines[won].key.Public())
		if err != nil || j.registration("b").Joined.Key != fingerprint {
			t.Errorf("the registration is somebody else's: %v", err)
		}
	})
}

// The instance dies, or etcd's administrator is away, when the token is used up and
// nobody is admitted yet: the same request makes it whole.
func TestAJoinThatWasCutOffGoesOn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		m := newMachine(t, "a", j.token("a", false))
		j.gate.before = func(string, string) error { return errors.New("cut off") }
		_, err := j.Clusters.Join(t.Context(), m.request)
		refused(t, "without an administrator", err, fault.CodeUnavailable, "same request")
		j.gate.before = nil
		if _, err := j.Clusters.Join(t.Context(), m.request); err != nil {
			t.Error(err)
		}
		if !j.gate.in("a", j.registration("a").UID) {
			t.Error("it was not admitted")
		}
	})
}

// A cluster that is removed while it joins keeps no rights.
func TestRemovedWhileItJoins(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		m := newMachine(t, "a", j.token("a", false))
		uid := j.registration("a").UID
		j.gate.before = func(string, string) error {
			res, err := j.Clusters.Remove(t.Context(), admin, "a", clusters.RemoveOptions{Force: true, Wait: time.Minute})
			if err == nil && res.Cluster != nil {
				err = errors.New("it is not gone")
			}
			return err
		}
		_, err := j.Clusters.Join(t.Context(), m.request)
		refused(t, "removed meanwhile", err, fault.CodeFailedPrecondition, "removed")
		if j.gate.in("a", uid) {
			t.Error("it kept its rights")
		}
		j.gate.before = nil
		_, err = j.Clusters.Join(t.Context(), m.request)
		refused(t, "afterwards", err, fault.CodeFailedPrecondition, "removed since")
	})
}

func TestNobodyJoinsAnEtcdWithoutUsers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.Clusters.IssueJoin(t.Context(), admin, "a", false)
		refused(t, "a token", err, fault.CodeFailedPrecondition, "no users")
		_, err = w.Clusters.Join(t.Context(), newMachine(t, "a", "ofj_"+strings.Repeat("0", 64)).request)
		refused(t, "a join", err, fault.CodeFailedPrecondition, "no users")
	})
}

func TestJoinSaysAllThatIsWrong(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		_, err := j.Clusters.Join(t.Context(), v1.Join{ClusterID: "../b", CSR: "x", Recipient: "age1", KubeSystemUID: "a b"})
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Code != fault.CodeInvalid || len(e.Violations) != 4 {
			t.Errorf("%+v", err)
		}
	})
}

// A state that this code does not know of lets nobody in.
func TestOnlyStatesThatAreKnownLetIn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		m := newMachine(t, "a", j.token("a", false))
		state := func(word record.ClusterState) {
			t.Helper()
			key, told := record.ClusterKey("a"), record.DesiredClusterKey("a")
			_, err := j.store.Update(t.Context(), store.Update{Keys: []string{key, told}, Build: func(v store.View, tx *store.Txn) error {
				kv, _ := v.KV(key)
				reg, err := store.Decode[record.Cluster](kv)
				if err != nil {
					return err
				}
				reg.State = word
				tx.Put(key, reg)
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		state("of another version")
		_, err := j.Clusters.Join(t.Context(), m.request)
		refused(t, "an unknown state", err, fault.CodeFailedPrecondition, "of another version")
		state(record.ClusterCordoned)
		// It comes between the transaction and the admission.
		j.gate.before = func(string, string) error { state("of another version"); return nil }
		_, err = j.Clusters.Join(t.Context(), m.request)
		refused(t, "an unknown state meanwhile", err, fault.CodeFailedPrecondition, "lost its rights")
		if j.gate.in("a", j.registration("a").UID) {
			t.Error("it kept its rights")
		}
		j.gate.before = nil
		state(record.ClusterPaused)
		if _, err := j.Clusters.Join(t.Context(), m.request); err != nil {
			t.Error(err)
		}
	})
}
