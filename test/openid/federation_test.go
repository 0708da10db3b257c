package openid_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/openid"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestAFederationOfAProvidersUser: created with what a login gave, kept alive by its
// refresh token when the access token has expired, and with its end the grant ends at
// the provider. The API, each OSCAR and the holder ask the same provider.
func TestAFederationOfAProvidersUser(t *testing.T) {
	const alice, a, b = "62bb11b4/Alice@science.example", "oscar-cluster-a", "oscar-cluster-b"
	realm := provider.Realm(t, openid.Science)
	var skew atomic.Int64
	vaults := map[string]*vault{a: {}, b: {}}
	w := world.New(t, world.Options{
		Clusters: []string{a, b}, Names: []string{"grayify0", "grayify1"}, Issuer: realm,
		ControlPlane: func(cfg *controlplane.Config) {
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
			cfg.SweepInterval = 50 * time.Millisecond
		},
		// Which client the refresh token was given to, the user's access token tells.
		Syncer: func(cfg *syncer.Config) {
			cfg.Vault, cfg.Issuers = vaults[cfg.ClusterID], []token.Issuer{{URL: realm.Issuer()}}
		},
	})
	w.AddUser(alice)
	login := realm.Login(alice, openid.Public)
	user := w.WithToken(login.Access)
	definition := world.Service(t, fmt.Sprintf(`{"name":"grayify0","cluster_id":%q,"image":"ghcr.io/grycap/imagemagick","script":"true",
		"environment":{"secrets":{"refresh_token":%q}},"input":[{"storage_provider":"minio.default","path":"grayify0/in"}],
		"federation":{"group_id":"grayify","topology":"mesh","members":[{"type":"oscar","cluster_id":%q,"service_name":"grayify1"}]}}`, a, login.Refresh, b))
	if _, err := user.CreateService(t.Context(), definition, client.CreateOptions{Wait: await.Limit}); err != nil {
		t.Fatal(err)
	}
	hers := func(cluster, name string) func() bool {
		return func() bool {
			v, ok := w.Cluster(cluster).Sim.Service(name)
			return ok && v.Owner == alice
		}
	}
	if !hers(a, "grayify0")() || !hers(b, "grayify1")() {
		t.Error("the services are not hers")
	}
	var uid string
	w.Eventually("the refresh token is stored", func() bool {
		s, err := user.RefreshToken(t.Context(), "grayify0", "")
		if err != nil {
			t.Fatal(err)
		}
		uid = s.UID
		return s.Token.State == "stored"
	})
	if kept := vaults[a].kept(); !slices.Equal(kept, []string{login.Refresh}) || len(vaults[b].kept()) != 0 {
		t.Errorf("the holder has kept %d tokens, the member %d", len(kept), len(vaults[b].kept()))
	}

	// Her access token has expired.
	w.Pass(func(d time.Duration) { skew.Add(int64(d)) }, 2*time.Hour)
	w.Eventually("her access token has left the store", func() bool {
		for _, id := range []string{a, b} {
			if slices.ContainsFunc(w.Keys(record.TokensPrefix(id)), func(key string) bool { return record.ParseKey(key).Kind == record.KindTokens }) {
				return false
			}
		}
		return true
	})
	w.DeleteDirectly(w.Cluster(b).URL + "/system/services/grayify1")
	w.Eventually("her service is made again, as hers", hers(b, "grayify1"))
	if kept := vaults[a].kept(); len(kept) != 2 || kept[0] != login.Refresh {
		t.Errorf("%d refresh tokens were kept", len(kept))
	}

	if _, err := user.DeleteService(t.Context(), "grayify0", client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the refresh token is gone, and so is the order", func() bool {
		_, err := vaults[a].Get(t.Context(), alice, uid)
		return errors.Is(err, token.ErrNone) && len(w.Keys(record.TokensPrefix(a))) == 0
	})
	if _, _, err := realm.Check(t.Context(), login.Access); err == nil {
		t.Error("the grant lives at the provider")
	}
}
