package faults_test

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/process"
)

// TestThreeMembersTwoControlPlanesBothKindsKilled creates and deletes federations
// through two control planes, one request after another with its own
// Idempotency-Key, while members of etcd and control planes are killed and started
// again. Every request ends with a definite outcome, and the outcome is true.
func TestThreeMembersTwoControlPlanesBothKindsKilled(t *testing.T) {
	t.Parallel()
	etcd := process.StartMembers(t, 3, nil)
	invariants.Guard(t, strings.Join(etcd.Endpoints(), ","), invariants.Options{Fenced: true})
	st := storetest.Open(t, store.Config{Endpoints: etcd.Endpoints()})
	f := federate(t, setup{endpoints: etcd.Endpoints(), store: st})
	f.key = "members"
	f.startControlPlane(second)
	apis := &rotating{f: f, names: []string{first, second}}

	// At least so many kills of each kind, however long a restart takes here.
	const kills = 4
	var killedEtcd, killedControlPlanes atomic.Int64
	stop := f.again(func(i int) error {
		if i%2 == 0 {
			member := i / 2 % 3
			etcd.Kill(member)
			if err := etcd.Restart(member); err != nil {
				return err
			}
			killedEtcd.Add(1)
			return nil
		}
		name := apis.names[i/2%2]
		f.Child(name).Kill()
		if _, err := f.StartControlPlane(t.Context(), name, ""); err != nil {
			return err
		}
		killedControlPlanes.Add(1)
		return nil
	})
	rounds := f.createAndDelete(apis, func() bool { return killedEtcd.Load() >= kills && killedControlPlanes.Load() >= kills })
	stop()
	t.Logf("%d kills of etcd members and %d of control planes during %d creates and deletes",
		killedEtcd.Load(), killedControlPlanes.Load(), rounds)
}

// A port of a member that another process takes before it starts is no failure of the test.
func TestMembersStartAtOtherPortsWhenOneIsTaken(t *testing.T) {
	t.Parallel()
	var taken net.Listener
	etcd := process.StartMembers(t, 3, func(listen string) string {
		if taken == nil {
			var err error
			if taken, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", listen); err != nil {
				t.Fatal(err)
			}
		}
		return listen
	})
	defer taken.Close()
	storetest.Open(t, store.Config{Endpoints: etcd.Endpoints()})
}
