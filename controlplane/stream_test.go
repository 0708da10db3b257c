package controlplane_test

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/await"
)

// proofOf opens a challenge with a cluster's key.
func proofOf(t *testing.T, cp *controlplane.ControlPlane, id *seal.Identity, cluster, uid string) string {
	t.Helper()
	challenge, err := cp.Clusters.ChallengeStream(t.Context(), cluster, uid, nil)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := id.Open(challenge.Sealed, seal.Header{Purpose: "relay", Cluster: cluster, UID: uid}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return string(proof)
}

func TestAStreamIsOfWhoOpensItsChallenge(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		now := &clock{at: time.Now()}
		w := newWorld(t, func(cfg *controlplane.Config) { cfg.Now = now.now })
		uid := map[string]string{}
		for _, id := range []string{"a", "b"} {
			c, err := w.Clusters.Get(t.Context(), admin, id)
			if err != nil {
				t.Fatal(err)
			}
			uid[id] = c.UID
		}
		take := func(cp *controlplane.ControlPlane, cluster, uid, proof string) error {
			_, err := cp.Clusters.TakeStream(t.Context(), clusters.OpenStream{Cluster: cluster, UID: uid, Proof: proof})
			return err
		}
		a := w.clusters["a"].identity
		proof := proofOf(t, w.ControlPlane, a, "a", uid["a"])

		challenge, err := w.Clusters.ChallengeStream(t.Context(), "a", uid["a"], []string{w.Clusters.Instance()})
		if err != nil || challenge.Sealed == "" {
			t.Errorf("a stream that only the syncer knows of is dying: %+v, %v", challenge, err)
		}
		if _, err := w.clusters["b"].identity.Open(challenge.Sealed, seal.Header{Purpose: "relay", Cluster: "a", UID: uid["a"]}, time.Now()); err == nil {
			t.Error("another cluster opens the challenge")
		}
		refused(t, "another cluster", take(w.ControlPlane, "b", uid["b"], proof), fault.CodeForbidden, "proof")
		refused(t, "another registration", take(w.ControlPlane, "a", uid["b"], proof), fault.CodeForbidden, "proof")
		refused(t, "no proof", take(w.ControlPlane, "a", uid["a"], ""), fault.CodeForbidden, "proof")
		renewal, _, err := w.Clusters.Challenge()
		if err != nil {
			t.Fatal(err)
		}
		refused(t, "a challenge that everybody gets", take(w.ControlPlane, "a", uid["a"], renewal), fault.CodeForbidden, "proof")
		refused(t, "half a proof", take(w.ControlPlane, "a", uid["a"], proof[:len(proof)-2]), fault.CodeForbidden, "proof")
		refused(t, "no uid", take(w.ControlPlane, "a", "", proof), fault.CodeInvalid, "")

		other := startControlPlane(t, w.store, w.identity, func(cfg *controlplane.Config) { cfg.Now = now.now })
		await.Until(t, "each instance knows of the other", func() bool {
			here, err := w.Clusters.ChallengeStream(t.Context(), "a", uid["a"], nil)
			there, err2 := other.Clusters.ChallengeStream(t.Context(), "a", uid["a"], nil)
			return err == nil && err2 == nil && here.Instances == 2 && there.Instances == 2
		})
		if err := take(other, "a", uid["a"], proof); err != nil {
			t.Errorf("another instance: %v", err)
		}
		if err := take(w.ControlPlane, "a", uid["a"], proof); err != nil {
			t.Errorf("the proof: %v", err)
		}
		refused(t, "the proof again", take(w.ControlPlane, "a", uid["a"], proof), fault.CodeForbidden, "proof")

		late := proofOf(t, w.ControlPlane, a, "a", uid["a"])
		now.pass(2 * time.Minute)
		refused(t, "a late proof", take(w.ControlPlane, "a", uid["a"], late), fault.CodeForbidden, "proof")

		_, err = w.Clusters.ChallengeStream(t.Context(), "z", "no-uid", nil)
		refused(t, "a cluster that is not registered", err, fault.CodeForbidden, "registered")
		gone := proofOf(t, w.ControlPlane, a, "a", uid["a"])
		if _, err := w.Clusters.Remove(t.Context(), admin, "a", clusters.RemoveOptions{Force: true, Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		refused(t, "a cluster that was removed", take(w.ControlPlane, "a", uid["a"], gone), fault.CodeForbidden, "registered")
	})
}
