package e2e_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// keeping is a world whose clusters can hold refresh tokens of an issuer.
type keeping struct {
	*world.World
	issuer *issuer.Issuer
	vaults map[string]*token.Memory
}

// withHolders gives every cluster a place for tokens.
func withHolders(t *testing.T, g issuer.Grants, mutate ...func(*world.Options)) *keeping {
	t.Helper()
	net := wire.New(1)
	k := &keeping{issuer: newIssuer(t, net), vaults: map[string]*token.Memory{a: {}, b: {}, c: {}}}
	k.issuer.Grant(g)
	k.World = newWorld(t, append([]func(*world.Options){func(o *world.Options) {
		o.Wire, o.Issuer = net, k.issuer
		o.Syncer = func(cfg *syncer.Config) {
			cfg.Vault, cfg.Issuers = k.vaults[cfg.ClusterID], []token.Issuer{{URL: k.issuer.URL, ClientID: "oscarfed"}}
		}
	}}, mutate...)...)
	return k
}

// withToken is a definition with a refresh token.
func withToken(body, refresh string) string {
	return strings.Replace(body, `"KEY":`, `"refresh_token":"`+refresh+`","KEY":`, 1)
}

func (k *keeping) status() *v1.RefreshTokenStatus {
	k.T.Helper()
	s, err := k.Client.RefreshToken(k.T.Context(), names[0], "")
	if err != nil {
		k.T.Fatal(err)
	}
	return s
}

// kept is what rests on a cluster for the one federation that there is.
func (k *keeping) kept(cluster, owner, federation string) string {
	k.T.Helper()
	kept, err := k.vaults[cluster].Get(k.T.Context(), owner, federation)
	if errors.Is(err, token.ErrNone) {
		return ""
	}
	if err != nil {
		k.T.Fatal(err)
	}
	return kept.Refresh
}

// hold is the order that stands for the holder; nil when there is none.
func (k *keeping) hold(federation string) *record.Hold {
	k.T.Helper()
	kv, err := k.Store.Get(k.T.Context(), record.HoldKey(a, federation))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		k.T.Fatal(err)
	}
	h, err := store.Decode[record.Hold](kv)
	if err != nil {
		k.T.Fatal(err)
	}
	return h
}

// A refresh token goes to the coordinator's cluster, and leaves the store once it rests
// there. Another one takes its place, the same one again does not; deleted, it is
// revoked at its issuer.
func TestARefreshTokenRestsWithItsHolderAlone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolders(t, issuer.Grants{})
		first := k.issuer.RefreshToken("somebody")
		if _, err := create(k.World, withToken(body, first)); err != nil {
			t.Fatal(err)
		}
		uid := k.status().UID
		k.Eventually("the token rests with its holder, and has left the store", func() bool {
			return k.kept(a, identity.Admin, uid) == first && k.hold(uid).Refresh == "" && k.status().Token.State == "stored"
		})
		if k.kept(b, identity.Admin, uid)+k.kept(c, identity.Admin, uid) != "" {
			t.Error("a member has it, too")
		}
		view, err := k.Client.Replicas(t.Context(), names[0], "")
		if err != nil || view.RefreshToken == nil || view.RefreshToken.Holder != a || view.RefreshToken.GivenAt == nil || view.RefreshToken.Old {
			t.Errorf("the view has %+v, %v", view.RefreshToken, err)
		}
		whole, err := k.Client.Federation(t.Context(), uid)
		if err != nil || whole.RefreshToken == nil || whole.RefreshToken.Holder != a || whole.RefreshToken.State != "stored" {
			t.Errorf("the federation is %+v, %v", whole, err)
		}

		serial := k.hold(uid).Serial
		if _, err := k.Client.SetRefreshToken(t.Context(), names[0], first, client.RefreshTokenOptions{}); err != nil {
			t.Fatal(err)
		}
		if now := k.hold(uid).Serial; now != serial {
			t.Errorf("the same token again is order %d after %d", now, serial)
		}
		second := k.issuer.RefreshToken("somebody")
		if _, err := k.Client.SetRefreshToken(t.Context(), names[1], second+"\n", client.RefreshTokenOptions{}); err != nil {
			t.Fatal(err)
		}
		k.Eventually("the second one rests there", func() bool { return k.kept(a, identity.Admin, uid) == second && k.hold(uid).Refresh == "" })

		if s, err := k.Client.DeleteRefreshToken(t.Context(), names[0], ""); err != nil || s.Token.State != "deleting" && s.Token.State != "deleted" {
			t.Errorf("%+v, %v", s, err)
		}
		k.Eventually("it is deleted", func() bool { return k.status().Token.State == "deleted" })
		if s := k.status(); !s.Token.Revoked || !k.issuer.Revoked(second) || k.kept(a, identity.Admin, uid) != "" {
			t.Errorf("%+v; revoked at the issuer: %t; kept %q", s.Token, k.issuer.Revoked(second), k.kept(a, identity.Admin, uid))
		}
		if k.issuer.Revoked(first) {
			t.Error("a token that nobody deleted was revoked")
		}

		third := k.issuer.RefreshToken("somebody")
		if _, err := k.Client.SetRefreshToken(t.Context(), names[0], third, client.RefreshTokenOptions{}); err != nil {
			t.Fatal(err)
		}
		k.Eventually("a new one heals it", func() bool { return k.kept(a, identity.Admin, uid) == third })
		if _, err := k.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		k.Eventually("with its federation it is revoked, deleted and forgotten", func() bool {
			return k.issuer.Revoked(third) && k.kept(a, identity.Admin, uid) == "" && k.hold(uid) == nil && len(k.Keys(record.ObservedTokensPrefix(a))) == 0
		})
		for _, secret := range []string{first, second, third} {
			if strings.Contains(k.Log.String(), secret) {
				t.Error("a refresh token is in a log")
			}
			if file := fileWith(t, k.EtcdDir, secret); file != "" {
				t.Errorf("a refresh token is in %s", file)
			}
		}
	})
}

// The federation goes while its holder is away: the order waits for it, and says so.
func TestARevocationWaitsForItsHolder(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolders(t, issuer.Grants{})
		refresh := k.issuer.RefreshToken("somebody")
		if _, err := create(k.World, withToken(body, refresh)); err != nil {
			t.Fatal(err)
		}
		uid := k.status().UID
		k.Eventually("it is stored", func() bool { return k.status().Token.State == "stored" })
		k.Cluster(a).Stop()
		s, err := k.Client.DeleteRefreshToken(t.Context(), names[0], "")
		if err != nil {
			t.Fatal(err)
		}
		if s.Token.State != "deleting" || s.Token.Reason != "SessionLost" || !strings.Contains(s.Token.Message, a) {
			t.Errorf("%+v", s.Token)
		}
		if _, err := k.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if k.issuer.Revoked(refresh) || k.hold(uid) == nil || k.hold(uid).Order != record.HoldRevoke {
			t.Errorf("revoked %t, order %+v", k.issuer.Revoked(refresh), k.hold(uid))
		}
		k.Cluster(a).Start()
		k.Eventually("it is carried out", func() bool {
			return k.issuer.Revoked(refresh) && k.hold(uid) == nil && k.kept(a, identity.Admin, uid) == ""
		})
	})
}

// A deletion with data revokes the token when the data is gone: issuers end the access tokens of its login with it, and
// OSCAR takes a user's rights on a bucket back with one of these only.
func TestADeletionWithDataRevokesLast(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolders(t, issuer.Grants{})
		refresh := k.issuer.RefreshToken("somebody")
		if _, err := create(k.World, withToken(body, refresh)); err != nil {
			t.Fatal(err)
		}
		uid, sim := k.status().UID, k.Cluster(a).Sim
		k.Eventually("it is stored", func() bool { return k.status().Token.State == "stored" })
		if err := sim.SetFault(oscarsim.Fault{Op: oscarsim.OpBucketDelete, Fault: oscarsim.Fault500}); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{Data: record.DataDelete}); err != nil {
			t.Fatal(err)
		}
		k.Eventually("the service is gone, which takes longer than a revocation", func() bool {
			_, there := sim.Service(names[0])
			return !there
		})
		if _, stands := sim.Bucket(names[0]); !stands {
			t.Error("the bucket is deleted")
		}
		if k.issuer.Revoked(refresh) {
			t.Error("it is revoked before the bucket is deleted")
		}
		if err := sim.SetFault(oscarsim.Fault{Op: oscarsim.OpBucketDelete, Fault: "none"}); err != nil {
			t.Fatal(err)
		}
		k.Eventually("it is revoked", func() bool { return k.issuer.Revoked(refresh) && k.hold(uid) == nil })
	})
}

// A cluster is not removed before it has revoked the tokens that it held.
func TestARemovalWaitsForTheTokensOfTheCluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolders(t, issuer.Grants{})
		refresh := k.issuer.RefreshToken("somebody")
		if _, err := create(k.World, withToken(body, refresh)); err != nil {
			t.Fatal(err)
		}
		k.Eventually("it is stored", func() bool { return k.status().Token.State == "stored" })
		k.issuer.Answer(503) // it cannot be revoked for the time being
		if _, err := k.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		k.Eventually("its services are gone", func() bool { return len(k.Keys(record.DesiredServicesPrefix(a))) == 0 })
		res, err := k.Client.RemoveCluster(t.Context(), a, client.RemoveClusterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if res.Cluster == nil || res.Cluster.Removal == nil || !strings.Contains(res.Cluster.Removal.Waits, "refresh tokens") {
			t.Errorf("the removal waits for %+v", res.Cluster)
		}
		k.issuer.Answer(0)
		k.Eventually("it is revoked, and the cluster is gone", func() bool {
			return k.issuer.Revoked(refresh) && len(k.Keys(record.ClusterKey(a))) == 0
		})
	})
}

// A creation that is refused leaves no token behind, and the token is good for the
// next try.
func TestARefusedCreationForgetsTheToken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolders(t, issuer.Grants{})
		k.Cluster(b).Sim.SetNodes(oscarsim.Node{Name: "tiny", CPU: 1, Memory: 1})
		refresh := k.issuer.RefreshToken("somebody")
		if _, err := create(k.World, withToken(body, refresh)); codeOf(err) != "failed_precondition" {
			t.Fatalf("it was not refused: %v", err)
		}
		k.Eventually("nothing is left of it", func() bool {
			return len(k.Keys(record.TokensPrefix(a))) == 0 && len(k.Keys(record.ObservedTokensPrefix(a))) == 0
		})
		if k.issuer.Revoked(refresh) {
			t.Error("its owner's token was revoked")
		}
		without := strings.Replace(body, `{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1"},`, "", 1)
		if _, err := create(k.World, withToken(without, refresh)); err != nil {
			t.Fatal(err)
		}
		k.Eventually("it is stored", func() bool { return k.status().Token.State == "stored" })
	})
}

// A syncer without Kubernetes says that it has no place for the token; it does not stay
// in the store.
func TestAHolderWithoutKubernetes(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolders(t, issuer.Grants{}, func(o *world.Options) {
			o.Syncer = func(cfg *syncer.Config) { cfg.Vault = nil }
		})
		if _, err := create(k.World, withToken(body, k.issuer.RefreshToken("somebody"))); err != nil {
			t.Fatal(err)
		}
		k.Eventually("it says so", func() bool {
			s := k.status()
			return s.Token.State == "lost" && s.Token.Reason == "TokenLost" && strings.Contains(s.Token.Message, "no Kubernetes") && k.hold(s.UID).Refresh == ""
		})
	})
}
