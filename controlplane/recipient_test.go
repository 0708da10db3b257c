package controlplane_test

import (
	"errors"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/await"
)

// Secrets are sealed to the key that a cluster has joined with, whatever its syncer
// tells later, and who looks at the cluster sees that they differ.
func TestNothingIsSealedToAKeyThatHasNotJoined(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		reason := func(cluster string) record.Reason {
			t.Helper()
			c, err := j.Clusters.Get(t.Context(), admin, cluster)
			if err != nil {
				t.Fatal(err)
			}
			return record.Reason(c.Reason)
		}
		m := newMachine(t, "b", j.token("b", false))
		age := newIdentity(t)
		m.request.Recipient, m.request.KubeSystemUID = age.Recipient(), ""
		if _, err := j.Clusters.Join(t.Context(), m.request); err != nil {
			t.Fatal(err)
		}
		if got := reason("b"); got != record.ReasonOtherIdentity {
			t.Errorf("the syncer of b tells another key than it has joined with, and b says %q", got)
		}
		if got := reason("a"); got != "" {
			t.Errorf("a, which was not asked to join, says %q", got)
		}
		if _, err := j.create(); err != nil {
			t.Fatal(err)
		}
		specs, _, err := j.store.List(t.Context(), record.SpecsPrefix("b"))
		if err != nil || len(specs) != 1 {
			t.Fatalf("%d specs, %v", len(specs), err)
		}
		spec, err := store.Decode[record.Spec](specs[0])
		if err != nil {
			t.Fatal(err)
		}
		opens := func(id *seal.Identity) bool {
			_, err := id.Open(spec.Sealed, seal.Header{}, time.Now())
			return !errors.Is(err, seal.ErrUndecryptable)
		}
		if !opens(age) || opens(j.clusters["b"].identity) {
			t.Errorf("opened by the key of the join: %t, by the one that the syncer tells: %t", opens(age), opens(j.clusters["b"].identity))
		}
	})
}

// The same holds for refresh tokens, and for the access tokens that members get of
// them.
func TestNoTokenIsSealedToAKeyThatHasNotJoined(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		age := newIdentity(t)
		for _, cluster := range []string{"a", "b"} {
			m := newMachine(t, cluster, j.token(cluster, false))
			m.request.Recipient = age.Recipient()
			if _, err := j.Clusters.Join(t.Context(), m.request); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := j.create(); err != nil {
			t.Fatal(err)
		}
		status, err := j.Tokens.GiveRefreshToken(t.Context(), admin, "grayifyr0", tokens.RefreshTokenRequest{Token: "a refresh token", Issuer: "https://issuer.example.org"})
		if err != nil {
			t.Fatal(err)
		}
		kv, err := j.store.Get(t.Context(), record.HoldKey("a", status.UID))
		if err != nil {
			t.Fatal(err)
		}
		hold, err := store.Decode[record.Hold](kv)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := age.Open(hold.Refresh, seal.Header{}, time.Now()); errors.Is(err, seal.ErrUndecryptable) {
			t.Errorf("the refresh token is sealed to another key than a has joined with: %v", err)
		}
		j.put(record.HoldingKey("a", status.UID), record.Holding{V: 1, State: record.HoldStored, Serial: hold.Serial, LastTransitionTime: record.At(j.clock.now())})
		j.put(record.WantKey("b", status.UID), record.Want{V: 1, Nonce: "n1", WantedAt: record.At(j.clock.now())})
		var ask *record.TokenAsk
		j.eventually(func() bool {
			kv, err := j.store.Get(t.Context(), record.TokenAskKey("a", status.UID, "b"))
			if err != nil {
				return false
			}
			ask, err = store.Decode[record.TokenAsk](kv)
			return err == nil
		})
		if ask.Recipient != age.Recipient() {
			t.Errorf("a is asked to seal to %s, and b has joined with %s", ask.Recipient, age.Recipient())
		}
	})
}
