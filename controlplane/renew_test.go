package controlplane_test

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestRenew(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j, m, first := newJoined(t)
		j.clock.pass(16 * time.Hour)
		got, err := m.renew(j.ControlPlane, first.ClusterUID)
		if err != nil {
			t.Fatal(err)
		}
		if !got.ExpiresAt.After(first.ExpiresAt.Add(15*time.Hour)) || certificate(t, got).Subject.CommonName != certificate(t, first).Subject.CommonName {
			t.Errorf("it is valid until %s, before %s", got.ExpiresAt, first.ExpiresAt)
		}
		if until := j.registration("a").Joined.ValidUntil; !until.Equal(got.ExpiresAt.Time) {
			t.Errorf("the registration says %s", until)
		}
		// At once again: the same, and nothing is written.
		before := j.revision("a")
		if _, err := m.renew(j.ControlPlane, first.ClusterUID); err != nil || j.revision("a") != before {
			t.Errorf("%v, revision %d after %d", err, j.revision("a"), before)
		}

		// It was switched off: 89 days after the end it returns, 91 days after it does not.
		j.clock.pass(24*time.Hour + 89*24*time.Hour)
		if _, err = m.renew(j.ControlPlane, first.ClusterUID); err != nil {
			t.Fatal("after 89 days:", err)
		}
		j.clock.pass(24*time.Hour + 91*24*time.Hour)
		_, err = m.renew(j.ControlPlane, first.ClusterUID)
		refused(t, "after 91 days", err, fault.CodeFailedPrecondition, "91 days ago")
		// A token brings it back, without the loss of its key.
		m.request.Token = j.token("a", false)
		if _, err := j.Clusters.Join(t.Context(), m.request); err != nil {
			t.Error(err)
		}
	})
}

// TestTheEndOfACertificateIsNotedByAClockThatWasSetBack: that of the one before is later.
func TestTheEndOfACertificateIsNotedByAClockThatWasSetBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j, m, first := newJoined(t)
		for _, passes := range []time.Duration{2 * 24 * time.Hour, -24 * time.Hour} {
			j.clock.pass(passes)
			got, err := m.renew(j.ControlPlane, first.ClusterUID)
			if err != nil {
				t.Fatal(err)
			}
			if until := j.registration("a").Joined.ValidUntil; !until.Equal(got.ExpiresAt.Time) {
				t.Errorf("the registration says %s, and it ends at %s", until, got.ExpiresAt)
			}
		}
	})
}

func (j *joining) revision(cluster string) int64 {
	j.t.Helper()
	kv, err := j.store.Get(j.t.Context(), record.ClusterKey(cluster))
	if err != nil {
		j.t.Fatal(err)
	}
	return kv.ModRevision
}

func TestRenewRefuses(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j, m, e := newJoined(t)
		stranger := newMachine(t, "a", "")
		_, err := stranger.renew(j.ControlPlane, e.ClusterUID)
		refused(t, "another key", err, fault.CodeForbidden, "no cluster is registered")
		_, err = m.renew(j.ControlPlane, "another-uid")
		refused(t, "another registration", err, fault.CodeForbidden, "no cluster is registered")
		_, err = newMachine(t, "b", "").renew(j.ControlPlane, j.registration("b").UID)
		refused(t, "a cluster that has not joined", err, fault.CodeForbidden, "no cluster is registered")

		moved := *m
		moved.request.KubeSystemUID = "another"
		_, err = moved.renew(j.ControlPlane, e.ClusterUID)
		refused(t, "another Kubernetes", err, fault.CodeConflict, "another Kubernetes")
		moved.request.KubeSystemUID = ""
		if _, err = moved.renew(j.ControlPlane, e.ClusterUID); err != nil {
			t.Error("Kubernetes cannot be reached:", err)
		}

		old, _, err := j.Clusters.Challenge()
		if err != nil {
			t.Fatal(err)
		}
		request := func(challenge string) v1.JoinRenewal {
			return v1.JoinRenewal{ClusterID: "a", ClusterUID: e.ClusterUID, CSR: m.csr(challenge)}
		}
		if _, err := j.Clusters.Renew(t.Context(), request(old)); err != nil {
			t.Error(err)
		}
		j.clock.pass(6 * time.Minute)
		for name, challenge := range map[string]string{"an old one": old, "none": "", "a made-up one": strings.Repeat("A", len(old)), "one that was changed": "A" + old[1:]} {
			_, err := j.Clusters.Renew(t.Context(), request(challenge))
			refused(t, "challenge: "+name, err, fault.CodeConflict, "no challenge")
		}
	})
}

// Another instance with the same key takes the challenges of this one; one with
// another key does not.
func TestAnyInstanceTakesAChallenge(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j, m, e := newJoined(t)
		second := startControlPlane(t, j.store, j.identity, func(cfg *controlplane.Config) {
			cfg.Access, cfg.Now = j.gate, func() time.Time { return j.clock.now().Add(-time.Minute) }
		})
		challenge, _, err := j.Clusters.Challenge()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := second.Clusters.Renew(t.Context(), v1.JoinRenewal{ClusterID: "a", ClusterUID: e.ClusterUID, CSR: m.csr(challenge)}); err != nil {
			t.Error(err)
		}
	})
}

// Who was removed is told so; a new registration under his name is not his.
func TestWhoWasRemovedIsToldSo(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j, m, e := newJoined(t)
		if _, err := j.Clusters.Remove(t.Context(), admin, "a", clusters.RemoveOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		_, err := m.renew(j.ControlPlane, e.ClusterUID)
		refused(t, "after the removal", err, fault.CodeForbidden, "it was removed")
		again, err := j.Clusters.Register(t.Context(), admin, clusters.Spec{ClusterID: "a", Endpoint: "https://a.example.org"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.renew(j.ControlPlane, e.ClusterUID)
		refused(t, "after another registration", err, fault.CodeForbidden, "it was removed")
		m.request.Token = j.token("a", false)
		back, err := j.Clusters.Join(t.Context(), m.request)
		if err != nil || back.ClusterUID != again.UID || back.ClusterUID == e.ClusterUID {
			t.Errorf("%+v %v", back, err)
		}
	})
}
