package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/world"
)

var rotating = issuer.Grants{Rotate: true, ClientID: "oscarfed"}

// withHolder is a world that alice may use, whose clusters can hold her tokens.
func withHolder(t *testing.T, g issuer.Grants, mutate ...func(*world.Options)) *keeping {
	t.Helper()
	k := withHolders(t, g, mutate...)
	k.AddUser(alice)
	return k
}

// made creates alice's federation and forgets the access token that made it.
func (k *keeping) made(opts client.CreateOptions) (refresh, uid string) {
	k.T.Helper()
	refresh = k.issuer.RefreshToken(alice)
	if err := createAs(k.World, k.Token(alice, nil), withToken(body, refresh), opts); err != nil {
		k.T.Fatal(err)
	}
	uid = k.status().UID
	k.Eventually("the refresh token is stored", func() bool { return k.status().Token.State == "stored" })
	for _, id := range []string{a, b, c} {
		forgetToken(k.World, id)
	}
	return refresh, uid
}

// once checks that one access token was got for all, with no token used twice.
func (k *keeping) once() {
	k.T.Helper()
	if n, reuses := k.issuer.Exchanges(); n != 1 || reuses != 0 {
		k.T.Errorf("%d exchanges, and %d uses of a used token", n, reuses)
	}
}

// A member that was away longer than the access token lived gets its service all the
// same, and it is its owner's: the holder has a fresh one.
func TestAMemberThatWasAwayLongerThanTheTokenLived(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolder(t, rotating, func(o *world.Options) {
			o.ControlPlane = func(cfg *controlplane.Config) { cfg.PrepareDeadline = 5 * time.Second } // who is away is waited for that long
		})
		k.Cluster(c).Stop()
		_, uid := k.made(client.CreateOptions{Deployment: "best-effort"})
		k.Cluster(c).Start()
		k.Eventually("it is made, for her", func() bool { return his(k.World, 2, c) && ready(k.World) })
		k.once()
		entries, err := k.Client.Audit(t.Context(), client.AuditQuery{Federation: uid})
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for _, e := range entries {
			if e.Action == "read_refresh_token" && e.ClusterID == a {
				read++
			}
		}
		if read != 1 {
			t.Errorf("%d readings in the audit: %+v", read, entries)
		}
	})
}

// Services that vanish when the access token is gone are made again on every cluster,
// the holder's own among them, for one exchange.
func TestVanishedServicesAreMadeAgainWithOneExchange(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolder(t, rotating)
		refresh, _ := k.made(client.CreateOptions{})
		for i, id := range []string{a, b, c} {
			k.DeleteDirectly(k.Cluster(id).URL + "/system/services/" + names[i])
		}
		k.Eventually("they are made again, for her", func() bool {
			return his(k.World, 0, a) && his(k.World, 1, b) && his(k.World, 2, c) && ready(k.World)
		})
		k.once()
		if strings.Contains(k.Log.String(), refresh) || fileWith(t, k.EtcdDir, refresh) != "" {
			t.Error("the refresh token can be read")
		}
	})
}

// While the holder is away a member says so, and goes on when it is back.
func TestAMemberWaitsForTheHolder(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolder(t, rotating)
		k.made(client.CreateOptions{})
		k.Cluster(a).Stop()
		k.DeleteDirectly(k.Cluster(b).URL + "/system/services/" + names[1])
		k.Eventually("it says whom it waits for", func() bool { return reasonAt(k.World, b) == string(record.ReasonTokenHolderAway) })
		if s := k.status().Members[1]; s.State != "refused" || s.Reason != string(record.ReasonTokenHolderAway) || !strings.Contains(s.Message, a) {
			t.Errorf("%+v", s)
		}
		k.Cluster(a).Start()
		k.Eventually("it is made again, for her", func() bool { return his(k.World, 1, b) && ready(k.World) })
		if s := k.status().Members[1]; s.State != "granted" || s.Expires == nil {
			t.Errorf("%+v", s)
		}
	})
}

// A token that the issuer does not accept is lost: it is not tried again, and a new one
// heals what waited.
func TestALostTokenIsHealedByAnother(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolder(t, rotating)
		refresh, _ := k.made(client.CreateOptions{})
		k.issuer.RevokeNow(refresh)
		k.DeleteDirectly(k.Cluster(b).URL + "/system/services/" + names[1])
		k.Eventually("it says that it is lost", func() bool {
			return reasonAt(k.World, b) == string(record.ReasonTokenLost) && k.status().Token.State == "lost"
		})
		k.DeleteDirectly(k.Cluster(c).URL + "/system/services/" + names[2])
		k.Eventually("the other member says so, too", func() bool { return reasonAt(k.World, c) == string(record.ReasonTokenLost) })
		if n := k.issuer.Calls("/token"); n != 1 {
			t.Errorf("the issuer was asked %d times", n)
		}
		user := k.WithToken(k.Token(alice, map[string]any{"azp": "oscarfed"}))
		if _, err := user.SetRefreshToken(t.Context(), names[0], k.issuer.RefreshToken(alice), client.RefreshTokenOptions{}); err != nil {
			t.Fatal(err)
		}
		k.Eventually("all is made again, for her", func() bool { return his(k.World, 1, b) && his(k.World, 2, c) && ready(k.World) })
		k.once()
	})
}

// Members that want a token two thousand times, each time another one, cost one
// exchange, and next to nothing in the store.
func TestThousandsOfWantsCostOneExchange(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		k := withHolder(t, rotating)
		_, uid := k.made(client.CreateOptions{})
		k.Cluster(b).Stop() // the test writes what their syncers may write
		k.Cluster(c).Stop()
		const wants = 2_000
		before := k.Revision()
		began := time.Now()
		var wg sync.WaitGroup
		for _, member := range []string{b, c} {
			for part := range 5 {
				wg.Go(func() {
					for i := range wants / 10 {
						_, err := k.Store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
							tx.Put(record.WantKey(member, uid), record.Want{V: 1, Nonce: fmt.Sprint(part, ".", i), WantedAt: record.At(time.Now())})
							return nil
						}})
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
		k.Eventually("the last wants are answered", func() bool {
			for _, m := range k.status().Members[1:] {
				if m.State != "granted" {
					return false
				}
			}
			return true
		})
		k.once()
		// Six revisions for each of two members every five seconds, and the exchange itself.
		most := int64(2*6*(time.Since(began)/(5*time.Second)+2) + 10)
		if more := k.Revision() - before - wants; more > most {
			t.Errorf("%d wants cost %d revisions more, at most %d were expected", wants, more, most)
		}
	})
}
