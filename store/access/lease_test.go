package access_test

import (
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// A cluster cannot end, read, prolong or burden the lease of another cluster, also when it has no
// key yet, and cannot guess its number.
func TestALeaseIsItsOwnersAlone(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		owner, other := raw(t, g, access.Syncer(clusterA, uidA)), raw(t, g, access.Syncer(clusterB, uidB))
		root := raw(t, g, access.Root)
		var last clientv3.LeaseID
		for range 4 {
			lease, err := owner.Grant(t.Context(), 600)
			if err != nil {
				t.Fatal(err)
			}
			if d := lease.ID - last; d > -1<<20 && d < 1<<20 {
				t.Errorf("the numbers of two leases are %d apart", d)
			}
			last = lease.ID
		}
		if _, err := other.Revoke(t.Context(), last); err == nil {
			t.Error("it was revoked")
		}
		if resp, err := other.TimeToLive(t.Context(), last); err == nil && resp.TTL > 0 {
			t.Error("it was looked at")
		}
		if _, err := other.KeepAliveOnce(t.Context(), last); err == nil {
			t.Error("it was prolonged")
		}
		if _, err := other.Put(t.Context(), record.SessionKey(clusterB), "x", clientv3.WithLease(last)); err == nil {
			t.Error("another cluster's key hangs on it: its owner can renew it no more")
		}
		if _, err := other.Txn(t.Context()).Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(record.SessionKey(clusterB), "x", clientv3.WithLease(last))}, nil)).Commit(); err == nil {
			t.Error("another cluster's key hangs on it, by a nested transaction")
		}
		if _, err := other.Leases(t.Context()); err == nil {
			t.Error("all leases were listed")
		}
		if _, err := owner.KeepAliveOnce(t.Context(), last); err != nil {
			t.Errorf("its owner prolongs it: %v", err)
		}
		if resp, err := owner.TimeToLive(t.Context(), last, clientv3.WithAttachedKeys()); err != nil || resp.TTL <= 0 {
			t.Errorf("its owner looks at it: %v, %v", resp, err)
		}
		if _, err := owner.Revoke(t.Context(), last); err != nil {
			t.Errorf("its owner ends it: %v", err)
		}
		// A session of before the numbers told whose they are goes on, and no other's does.
		former, err := root.Grant(t.Context(), 600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := owner.KeepAliveOnce(t.Context(), former.ID); err == nil {
			t.Error("a lease of nobody was prolonged")
		}
		if _, err := root.Put(t.Context(), record.SessionKey(clusterA), "former", clientv3.WithLease(former.ID)); err != nil {
			t.Fatal(err)
		}
		if _, err := owner.KeepAliveOnce(t.Context(), former.ID); err != nil {
			t.Errorf("a session of before: %v", err)
		}
		if _, err := other.KeepAliveOnce(t.Context(), former.ID); err == nil {
			t.Error("a session of before was prolonged by another cluster")
		}
	})
}

// After a restart it is known whose a lease is.
func TestTheOwnerOfALeaseIsKnownAfterARestart(t *testing.T) {
	authority := storetest.NewAuthority(t)
	cert, key := authority.Issue("")
	cfg := embedded.Config{
		Dir: filepath.Join(t.TempDir(), "etcd"), ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true, LeaseKey: []byte("the key of this installation"),
		CertFile: cert, KeyFile: key, CAFile: authority.CAFile, Guarded: true, Trusted: []string{access.ControlPlane},
	}
	server := storetest.Start(t, cfg)
	g := &guarded{t: t, endpoint: server.Endpoint(), authority: authority}
	g.setUp()
	g.admit(clusterA, uidA)
	g.admit(clusterB, uidB)
	lease, err := raw(t, g, access.Syncer(clusterA, uidA)).Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	g.endpoint = storetest.Start(t, cfg).Endpoint()
	if _, err := raw(t, g, access.Syncer(clusterB, uidB)).Revoke(t.Context(), lease.ID); err == nil {
		t.Error("another cluster ended it")
	}
	if _, err := raw(t, g, access.Syncer(clusterA, uidA)).KeepAliveOnce(t.Context(), lease.ID); err != nil {
		t.Errorf("its owner prolongs it: %v", err)
	}
}
