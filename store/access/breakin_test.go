package access_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// attacker tries what etcd's protocol allows with a syncer's certificate.
type attacker struct {
	t      *testing.T
	rnd    *rand.Rand
	client *clientv3.Client
	// own is what the certificate may read.
	own string
	// lease of another's key.
	foreign clientv3.LeaseID
	// leases of its own, which etcd gives to every user.
	leases  []clientv3.LeaseID
	watches sync.WaitGroup
	// done counts what etcd did and what it refused.
	done, refused int
}

// keys near and far from the own ones: neighbours in the order of bytes, longer and
// shorter ids, the ends of the key space.
func (b *attacker) key() string {
	cluster := pick(b.rnd, clusterB, clusterA, clusterB+"0", clusterB[:len(clusterB)-1], clusterB+"-", clusterB+"/..", "", "*")
	return pick(b.rnd,
		record.MetaKey, record.FenceKey, record.FederationKey("0199c3a2"), record.ClusterKey(cluster), "/", "", "\x00", "\xff",
		record.PartsPrefix, record.PartsOfPrefix("0199c3a2"), record.PartKey("0199c3a2", strings.Repeat("0", 64)),
		record.Root, record.ClusterTreePrefix, record.ClusterPrefix(cluster), record.ClusterTreePrefix+cluster,
		record.DesiredPrefix(cluster), record.DesiredServiceKey(cluster, "svc"), record.DesiredClusterKey(cluster), record.SpecKey(cluster, "svc/uid.1"),
		record.ObservedPrefix(cluster), record.ObservedServiceKey(cluster, fmt.Sprint("svc", b.rnd.IntN(5))), record.ObservedClusterKey(cluster),
		record.SessionKey(cluster), record.SessionKey(cluster)+"x", "/registry/secrets/x",
		record.ClusterPrefix(cluster)+string(rune(b.rnd.IntN(128))), record.ObservedPrefix(cluster)+"../desired/services/svc",
	)
}

func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

// reach is one key, a prefix, or everything from a key or between two.
func (b *attacker) reach() []clientv3.OpOption {
	switch b.rnd.IntN(5) {
	case 0:
		return []clientv3.OpOption{clientv3.WithPrefix()}
	case 1:
		return []clientv3.OpOption{clientv3.WithFromKey()}
	case 2:
		return []clientv3.OpOption{clientv3.WithRange(b.key())}
	}
	return nil
}

func (b *attacker) op(depth int) clientv3.Op {
	options := b.reach()
	switch b.rnd.IntN(6) {
	case 0, 1:
		extra := pick(b.rnd, nil, clientv3.WithKeysOnly(), clientv3.WithCountOnly(), clientv3.WithSerializable(), clientv3.WithRev(2), clientv3.WithLimit(1))
		if extra != nil {
			options = append(options, extra)
		}
		return clientv3.OpGet(b.key(), options...)
	case 2, 3:
		options = nil
		if b.rnd.IntN(3) == 0 {
			options = append(options, clientv3.WithPrevKV())
		}
		switch lease := b.lease(); b.rnd.IntN(5) {
		case 0:
			options = append(options, clientv3.WithLease(lease))
		case 2:
			options = append(options, clientv3.WithIgnoreLease())
		case 1:
			options = append(options, clientv3.WithIgnoreValue())
			return clientv3.OpPut(b.key(), "", options...)
		}
		return clientv3.OpPut(b.key(), "break-in", options...)
	case 4:
		if b.rnd.IntN(2) == 0 {
			options = append(options, clientv3.WithPrevKV())
		}
		return clientv3.OpDelete(b.key(), options...)
	}
	if depth == 0 {
		return clientv3.OpGet(b.key())
	}
	return clientv3.OpTxn(b.compares(), b.ops(depth-1), b.ops(depth-1))
}

func (b *attacker) ops(depth int) (out []clientv3.Op) {
	for range 1 + b.rnd.IntN(3) {
		out = append(out, b.op(depth))
	}
	return out
}

// compares of foreign keys would tell what they hold, bit by bit.
func (b *attacker) compares() (out []clientv3.Cmp) {
	for range b.rnd.IntN(3) {
		cmp := clientv3.Compare(clientv3.Value(b.key()), ">", "m")
		if b.rnd.IntN(2) == 0 {
			cmp = clientv3.Compare(clientv3.CreateRevision(b.key()), "=", 0)
		}
		if b.rnd.IntN(3) == 0 {
			cmp = cmp.WithPrefix()
		}
		out = append(out, cmp)
	}
	return out
}

func (b *attacker) lease() clientv3.LeaseID {
	if len(b.leases) == 0 || b.rnd.IntN(2) == 0 {
		return b.foreign
	}
	return pick(b.rnd, b.leases...)
}

// saw fails when something foreign was read.
func (b *attacker) saw(how string, kvs ...*mvccpb.KeyValue) {
	for _, kv := range kvs {
		if kv != nil && !strings.HasPrefix(string(kv.Key), b.own) {
			b.t.Errorf("%s shows %q", how, kv.Key)
		}
	}
}

func (b *attacker) sawResponse(how string, resp clientv3.OpResponse) {
	if r := resp.Get(); r != nil {
		b.saw(how+" get", r.Kvs...)
	}
	if r := resp.Put(); r != nil {
		b.saw(how+" put", r.PrevKv)
	}
	if r := resp.Del(); r != nil {
		b.saw(how+" delete", r.PrevKvs...)
	}
	if r := resp.Txn(); r != nil {
		for _, part := range r.Responses {
			switch {
			case part.GetResponseRange() != nil:
				b.saw(how+" nested get", part.GetResponseRange().Kvs...)
			case part.GetResponsePut() != nil:
				b.saw(how+" nested put", part.GetResponsePut().PrevKv)
			case part.GetResponseDeleteRange() != nil:
				b.saw(how+" nested delete", part.GetResponseDeleteRange().PrevKvs...)
			}
		}
	}
}

// try does one thing at random.
func (b *attacker) try(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var err error
	switch n := b.rnd.IntN(100); {
	case n < 88:
		var resp clientv3.OpResponse
		if resp, err = b.client.Do(ctx, b.op(2)); err == nil {
			b.sawResponse("a request", resp)
		}
	case n < 91:
		b.watch(ctx)
		return
	case n < 94:
		var resp *clientv3.LeaseGrantResponse
		if resp, err = b.client.Grant(ctx, 600); err == nil && len(b.leases) < 20 {
			b.leases = append(b.leases, resp.ID)
		}
	case n < 96:
		_, err = b.client.Revoke(ctx, b.foreign)
		if err == nil {
			b.t.Error("a foreign lease was revoked")
		}
	case n < 98:
		var resp *clientv3.LeaseTimeToLiveResponse
		if resp, err = b.client.TimeToLive(ctx, b.foreign, clientv3.WithAttachedKeys()); err == nil && len(resp.Keys) > 0 {
			b.t.Errorf("a foreign lease shows its keys %q", resp.Keys)
		}
	case n < 99:
		err = b.aside(ctx)
	default:
		switch b.rnd.IntN(9) {
		case 4:
			_, err = b.client.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:1"})
		case 5:
			_, err = b.client.Compact(ctx, 1)
		case 6:
			_, err = b.client.Defragment(ctx, b.client.Endpoints()[0])
		case 7:
			_, err = b.client.HashKV(ctx, b.client.Endpoints()[0], 0)
		case 8:
			_, err = b.client.Snapshot(ctx)
			if err == nil {
				return // a stream is refused when it is read
			}
		case 0:
			_, err = b.client.UserList(ctx)
		case 1:
			_, err = b.client.RoleGrantPermission(ctx, access.Syncer(clusterB, uidB), "/", "\x00", clientv3.PermissionType(clientv3.PermReadWrite))
		case 2:
			_, err = b.client.UserGrantRole(ctx, access.Syncer(clusterB, uidB), access.Root)
		case 3:
			_, err = b.client.AuthDisable(ctx)
		}
		if err == nil {
			b.t.Error("a syncer administers etcd")
		}
	}
	if err != nil {
		b.refused++
		return
	}
	b.done++
}

// aside uses what etcd serves beside its keys: leases of others, and locks and
// elections, which are keys, too.
func (b *attacker) aside(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, key := b.client.ActiveConnection(), []byte(b.key())
	switch b.rnd.IntN(6) {
	case 0:
		_, err = b.client.KeepAliveOnce(ctx, b.foreign)
		return err
	case 1:
		var all *clientv3.LeaseLeasesResponse
		if all, err = b.client.Leases(ctx); err == nil {
			for _, lease := range all.Leases {
				if lease.ID == b.foreign {
					b.t.Error("a list of leases shows a foreign one")
				}
			}
		}
		return err
	case 2:
		_, err = v3lockpb.NewLockClient(conn).Lock(ctx, &v3lockpb.LockRequest{Name: key, Lease: int64(b.lease())})
	case 3:
		_, err = v3lockpb.NewLockClient(conn).Unlock(ctx, &v3lockpb.UnlockRequest{Key: key})
	case 4:
		_, err = v3electionpb.NewElectionClient(conn).Leader(ctx, &v3electionpb.LeaderRequest{Name: key})
	case 5:
		_, err = v3electionpb.NewElectionClient(conn).Campaign(ctx, &v3electionpb.CampaignRequest{Name: key, Lease: int64(b.lease()), Value: []byte("break-in")})
	}
	if err == nil {
		b.t.Error("locks and elections are served")
	}
	return err
}

// watch looks for a moment: what it may not see is refused when it is opened.
func (b *attacker) watch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	options := append(b.reach(), clientv3.WithRev(1), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
	events := b.client.Watch(ctx, b.key(), options...)
	b.watches.Go(func() {
		defer cancel()
		for resp := range events {
			for _, ev := range resp.Events {
				b.saw("a watch", ev.Kv, ev.PrevKv)
			}
		}
	})
}

// 10,000 random requests with one cluster's certificate read, write, delete and
// expire nothing of anybody else.
func TestBreakIn(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		root := raw(t, g, access.Root)
		lease, err := root.Grant(t.Context(), 600)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{
			record.MetaKey, record.FenceKey, record.FederationKey("0199c3a2"), record.ClusterKey(clusterA), record.ClusterKey(clusterB), "/registry/secrets/x",
			record.PartKey("0199c3a2", strings.Repeat("1", 64)), record.PartKey("0199c3a2", "a"),
			record.DesiredServiceKey(clusterA, "svc"), record.DesiredServiceKey(clusterB+"0", "svc"), record.ObservedServiceKey(clusterA, "svc0"),
			record.DesiredServiceKey(clusterB, "svc"), record.DesiredClusterKey(clusterB), record.SpecKey(clusterB, "svc/uid.1"), record.ClusterTreePrefix + clusterB,
		} {
			if _, err := root.Put(t.Context(), key, "precious"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := root.Put(t.Context(), record.SessionKey(clusterA), "precious", clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
		mayWrite := func(key string) bool {
			return strings.HasPrefix(key, record.ObservedPrefix(clusterB)) || key == record.SessionKey(clusterB)
		}
		others := func() map[string]string {
			resp, err := root.Get(t.Context(), "", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]string{}
			for _, kv := range resp.Kvs {
				if !mayWrite(string(kv.Key)) {
					out[string(kv.Key)] = fmt.Sprintf("%s at %d with lease %d", kv.Value, kv.ModRevision, kv.Lease)
				}
			}
			return out
		}
		before := others()

		b := &attacker{
			t: t, rnd: rand.New(rand.NewPCG(20261121, 4)), client: raw(t, g, access.Syncer(clusterB, uidB)),
			own: record.ClusterPrefix(clusterB), foreign: lease.ID,
		}
		for range 10_000 {
			b.try(t.Context())
		}
		b.watches.Wait()
		t.Logf("%d requests were done, %d refused", b.done, b.refused)
		if b.done < 300 || b.refused < 1000 {
			t.Errorf("only %d requests were done and %d refused", b.done, b.refused)
		}
		after := others()
		for key, value := range before {
			if after[key] != value {
				t.Errorf("%q was %s and is %s", key, value, after[key])
			}
		}
		for key := range after {
			if _, ok := before[key]; !ok {
				t.Errorf("%q was made", key)
			}
		}
	})
}

// raw is a plain client of etcd.
func raw(t *testing.T, g *guarded, user string, options ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	certFile, keyFile := g.authority.Issue(user)
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(g.authority.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no CA")
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{g.reached(user)}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(), // it tells of each refusal
		DialOptions: options,
		TLS:         &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{cert}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return client
}
