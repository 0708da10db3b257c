package access_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// opened is a watch of one key that etcd has confirmed.
func opened(t *testing.T, client *clientv3.Client, key string) clientv3.WatchChan {
	t.Helper()
	watch := client.Watch(t.Context(), key, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	select {
	case resp := <-watch:
		if err := resp.Err(); err != nil || !resp.Created {
			t.Fatalf("the watch was not opened: %+v, %v", resp, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the watch was never opened")
	}
	return watch
}

// etcd goes on telling a watch what it was opened for, whatever has become of its
// user. Here it ends, and so does every other connection of that user; those of
// others do not.
func TestARevokedUserSeesNothingOnTheWatchThatHeHasOpen(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		revoked, other := raw(t, g, access.Syncer(clusterA, uidA)), raw(t, g, access.Syncer(clusterB, uidB))
		gone := opened(t, revoked, record.DesiredPrefix(clusterA))
		stays := opened(t, other, record.DesiredPrefix(clusterB))
		if err := g.admin.Revoke(t.Context(), clusterA, uidA); err != nil {
			t.Fatal(err)
		}
		// etcd's client opens the watch again by itself, and is told there.
		limit := time.After(time.Minute)
		for ended := false; !ended; {
			select {
			case resp, ok := <-gone:
				ended = !ok || resp.Err() != nil
				for _, ev := range resp.Events {
					t.Errorf("it was told of %s", ev.Kv.Key)
				}
			case <-limit:
				t.Fatal("the watch of the revoked user goes on")
			}
		}
		for _, key := range []string{record.DesiredServiceKey(clusterA, "after"), record.DesiredServiceKey(clusterB, "after")} {
			if err := put(t, g.controlPlane, key); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case resp := <-stays:
			if err := resp.Err(); err != nil || len(resp.Events) != 1 {
				t.Errorf("the watch of another user: %+v, %v", resp, err)
			}
		case <-time.After(time.Minute):
			t.Error("the watch of another user is told nothing any more")
		}
		if _, err := revoked.Get(t.Context(), record.DesiredClusterKey(clusterA)); !errors.Is(err, rpctypes.ErrPermissionDenied) && !errors.Is(err, rpctypes.ErrUserNotFound) {
			t.Errorf("a read of the revoked user: %v", err)
		}
	})
}

// A lease costs nothing in etcd but memory, and needs no rights.
func TestLeasesAreLimited(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		syncer, free := raw(t, g, access.Syncer(clusterA, uidA)), raw(t, g, access.ControlPlane)
		if _, err := syncer.Grant(t.Context(), 7200); !errors.Is(err, rpctypes.ErrLeaseTTLTooLarge) {
			t.Errorf("a lease of two hours: %v", err)
		}
		granted := 0
		for {
			_, err := syncer.Grant(t.Context(), 60)
			if errors.Is(err, rpctypes.ErrTooManyRequests) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if granted++; granted > 100 {
				t.Fatal("a syncer got more than 100 leases")
			}
		}
		for range granted + 10 {
			if _, err := free.Grant(t.Context(), 60); err != nil {
				t.Fatalf("the control plane is limited: %v", err)
			}
		}
		if err := g.admin.Revoke(t.Context(), clusterB, uidB); err != nil {
			t.Fatal(err)
		}
		if _, err := raw(t, g, access.Syncer(clusterB, uidB)).Grant(t.Context(), 60); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("a lease for a user who was removed: %v", err)
		}
	})
}

// Also on keys that are its own, and with a lease that is.
func TestLocksAndElectionsAreNotServed(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		client := raw(t, g, access.Syncer(clusterA, uidA))
		lease, err := client.Grant(t.Context(), 60)
		if err != nil {
			t.Fatal(err)
		}
		conn, key := client.ActiveConnection(), []byte(record.ObservedPrefix(clusterA)+"lock")
		_, locked := v3lockpb.NewLockClient(conn).Lock(t.Context(), &v3lockpb.LockRequest{Name: key, Lease: int64(lease.ID)})
		_, elected := v3electionpb.NewElectionClient(conn).Campaign(t.Context(), &v3electionpb.CampaignRequest{Name: key, Lease: int64(lease.ID)})
		observe, err := v3electionpb.NewElectionClient(conn).Observe(t.Context(), &v3electionpb.LeaderRequest{Name: key})
		if err != nil {
			t.Fatal(err)
		}
		_, observed := observe.Recv()
		for what, err := range map[string]error{"a lock": locked, "an election": elected, "a watch of one": observed} {
			if err == nil || !strings.Contains(err.Error(), "not served") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// A client that connects and says nothing has seconds, in TLS and after it.
func TestAConnectionThatNeverShakesHandsIsClosed(t *testing.T) {
	t.Parallel() // it waits most of the time
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		t.Parallel()
		address := strings.TrimPrefix(g.clientEndpoint(), "https://")
		silent, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = silent.Close() })
		half, err := tls.Dial("tcp", address, g.clientTLS(access.Syncer(clusterA, uidA)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = half.Close() })
		for what, conn := range map[string]net.Conn{"nothing": silent, "TLS alone": half} {
			if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %s the connection stands", what)
			}
		}
	})
}

// While etcd's authentication is off, the gateway would be open to everything: clusters that are
// connected then are cut off, and are let in again afterwards.
func TestTheGatewayClosesWhenAuthenticationIsSwitchedOff(t *testing.T) {
	t.Parallel() // it waits most of the time
	g := guardByGateway(t)
	client := raw(t, g, access.Syncer(clusterA, uidA))
	opened(t, client, record.DesiredPrefix(clusterA))
	root := g.open(access.Root)
	if _, err := root.Auth().AuthDisable(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Get(ctx, record.MetaKey)
		return err
	}
	wait := time.NewTicker(50 * time.Millisecond)
	defer wait.Stop()
	for reads() == nil {
		<-wait.C
	}
	if _, err := root.Auth().AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := client.Get(ctx, record.DesiredClusterKey(clusterA))
		cancel()
		if err == nil {
			return
		}
		<-wait.C
	}
}
