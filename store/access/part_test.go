package access_test

import (
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// A cluster gets a part whose name it knows, by a plain reading of this one key, and learns in no
// other way of any part: whether there is one, what it holds, how long it is.
func TestAClusterGetsAPartByItsNameAlone(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		const federation = "0199c3a2"
		name := record.NewPartName()
		key := record.PartKey(federation, name)
		for _, at := range []string{key, record.PartKey(federation, "short"), record.PartsPrefix + "stray", record.PartsPrefix + federation + "/" + name + "/below"} {
			if err := put(t, g.controlPlane, at); err != nil {
				t.Fatal(err)
			}
		}
		syncer := g.open(access.Syncer(clusterA, uidA))
		want, err := g.controlPlane.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := syncer.Get(t.Context(), key); err != nil || string(got.Value) != string(want.Value) || got.ModRevision != want.ModRevision {
			t.Errorf("the part is %q at %d, error %v", got.Value, got.ModRevision, err)
		}
		if _, err := syncer.Get(t.Context(), record.PartKey(federation, record.NewPartName())); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an absent part: %v", err)
		}
		if _, err := g.open("somebody").Get(t.Context(), key); !errors.Is(err, store.ErrDenied) {
			t.Errorf("a stranger gets the part: %v", err)
		}

		client := raw(t, g, access.Syncer(clusterA, uidA))
		kv := pb.NewKVClient(client.ActiveConnection())
		end := []byte(clientv3.GetPrefixRangeEnd(record.PartsPrefix))
		read := func(what string, r *pb.RangeRequest) {
			t.Helper()
			resp, err := kv.Range(t.Context(), r)
			if err == nil {
				t.Errorf("%s is answered with %d keys, count %d", what, len(resp.Kvs), resp.Count)
			}
			stream, err := kv.RangeStream(t.Context(), r)
			if err == nil {
				_, err = stream.Recv()
			}
			if err == nil {
				t.Errorf("%s is streamed", what)
			}
			op := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
			if _, err := kv.Txn(t.Context(), &pb.TxnRequest{Success: []*pb.RequestOp{op}}); err == nil {
				t.Errorf("%s is answered in a transaction", what)
			}
			if _, err := kv.Txn(t.Context(), &pb.TxnRequest{Failure: []*pb.RequestOp{op}}); err == nil {
				t.Errorf("%s is accepted in a transaction's other branch", what)
			}
		}
		exact := func(change func(*pb.RangeRequest)) *pb.RangeRequest {
			r := &pb.RangeRequest{Key: []byte(key)}
			change(r)
			return r
		}
		for what, r := range map[string]*pb.RangeRequest{
			"everything":           {Key: []byte{0}, RangeEnd: []byte{0}},
			"all parts":            {Key: []byte(record.PartsPrefix), RangeEnd: end},
			"parts of one":         {Key: []byte(record.PartsOfPrefix(federation)), RangeEnd: end},
			"from the name on":     exact(func(r *pb.RangeRequest) { r.RangeEnd = []byte{0} }),
			"a range of one":       exact(func(r *pb.RangeRequest) { r.RangeEnd = append([]byte(key), 0) }),
			"a limit":              exact(func(r *pb.RangeRequest) { r.Limit = 1 }),
			"keys only":            exact(func(r *pb.RangeRequest) { r.KeysOnly = true }),
			"a count":              exact(func(r *pb.RangeRequest) { r.CountOnly = true }),
			"a count of all":       {Key: []byte(record.PartsPrefix), RangeEnd: end, CountOnly: true},
			"a serializable one":   exact(func(r *pb.RangeRequest) { r.Serializable = true }),
			"an old revision":      exact(func(r *pb.RangeRequest) { r.Revision = want.ModRevision }),
			"a revision's bound":   exact(func(r *pb.RangeRequest) { r.MinModRevision = 1 }),
			"a sorted one":         exact(func(r *pb.RangeRequest) { r.SortOrder = pb.RangeRequest_DESCEND }),
			"another sorted one":   exact(func(r *pb.RangeRequest) { r.SortTarget = pb.RangeRequest_VALUE }),
			"a short name":         {Key: []byte(record.PartKey(federation, "short"))},
			"no federation":        {Key: []byte(record.PartsPrefix + "stray")},
			"what is below":        {Key: []byte(key + "/below")},
			"a name with a prefix": {Key: []byte(key + "0")},
			"another kind":         {Key: []byte(record.HistoryPrefix + federation + "/" + name)},
		} {
			read(what, r)
		}
		plain := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: exact(func(*pb.RangeRequest) {})}}
		nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{plain}}}}
		for what, txn := range map[string]*pb.TxnRequest{
			"a read":     {Success: []*pb.RequestOp{plain}},
			"a nested":   {Success: []*pb.RequestOp{nested}},
			"a compare":  {Compare: []*pb.Compare{{Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, Key: []byte(key)}}},
			"its length": {Compare: []*pb.Compare{{Target: pb.Compare_VALUE, Result: pb.Compare_LESS, Key: []byte(key), TargetUnion: &pb.Compare_Value{Value: []byte("x")}}}},
		} {
			if _, err := kv.Txn(t.Context(), txn); err == nil {
				t.Errorf("a transaction with %s is done", what)
			}
		}
		if _, err := kv.Put(t.Context(), &pb.PutRequest{Key: []byte(key), Value: []byte("x"), PrevKv: true}); err == nil {
			t.Error("a part is written")
		}
		if _, err := kv.DeleteRange(t.Context(), &pb.DeleteRangeRequest{Key: []byte(key), PrevKv: true}); err == nil {
			t.Error("a part is deleted")
		}
		for what, options := range map[string][]clientv3.OpOption{"one part": nil, "all": {clientv3.WithPrefix()}, "the past": {clientv3.WithRev(1), clientv3.WithPrevKV()}} {
			watched := key
			if what == "all" {
				watched = record.PartsPrefix
			}
			if resp := <-client.Watch(t.Context(), watched, options...); resp.Err() == nil {
				t.Errorf("a watch of %s is opened: %d events", what, len(resp.Events))
			}
		}
	})
}

// Without its user in etcd a cluster gets no part, although its connection may be open for a moment.
func TestARevokedClusterGetsNoPart(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		key := record.PartKey("0199c3a2", record.NewPartName())
		if err := put(t, g.controlPlane, key); err != nil {
			t.Fatal(err)
		}
		syncer := g.open(access.Syncer(clusterA, uidA))
		if _, err := syncer.Get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if err := g.admin.Revoke(t.Context(), clusterA, uidA); err != nil {
			t.Fatal(err)
		}
		if _, err := syncer.Get(t.Context(), key); err == nil {
			t.Error("the part is given to it")
		}
	})
}

// Where a cluster reaches etcd itself, there are no parts for it: etcd's rights do not give them.
func TestAnEtcdWithoutAGuardGivesNoPart(t *testing.T) {
	g := guardByGateway(t)
	key := record.PartKey("0199c3a2", record.NewPartName())
	if err := put(t, g.controlPlane, key); err != nil {
		t.Fatal(err)
	}
	g.gateway = ""
	if _, err := g.open(access.Syncer(clusterA, uidA)).Get(t.Context(), key); !errors.Is(err, store.ErrDenied) {
		t.Errorf("a part that etcd itself is asked for: %v", err)
	}
}
