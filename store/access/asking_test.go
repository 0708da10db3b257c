package access_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// fill writes values of a cluster's own, as root.
func fill(t *testing.T, g *guarded, n, bytes int) {
	t.Helper()
	root, noise := raw(t, g, access.Root), rand.New(rand.NewPCG(1, 2))
	for i := 0; i < n; {
		var ops []clientv3.Op
		for size := 0; i < n && len(ops) < 100 && size+bytes < 1_400_000; i++ {
			value := make([]byte, bytes)
			for j := range value {
				value[j] = byte(noise.Uint32())
			}
			ops = append(ops, clientv3.OpPut(record.ObservedServiceKey(clusterA, fmt.Sprintf("svc%05d", i)), string(value)))
			size += bytes
		}
		if _, err := root.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// allocated is how many bytes are allocated while something is done.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if code := status.Code(err); code != codes.ResourceExhausted && !strings.Contains(fmt.Sprint(err), "too many operations") {
		t.Errorf("%s: %v", what, err)
	}
}

// Eight megabytes that are a cluster's own, read a hundred times in one transaction, made
// etcd build gigabytes.
func TestReadingMuchAtOnceIsRefusedBeforeItIsBuilt(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		fill(t, g, 12, 700_000)
		kv := pb.NewKVClient(raw(t, g, access.Syncer(clusterA, uidA)).ActiveConnection())
		prefix := record.ObservedPrefix(clusterA)
		end := clientv3.GetPrefixRangeEnd(prefix)
		read := func(key, end string) *pb.RequestOp {
			return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)}}}
		}
		nested := func(ops ...*pb.RequestOp) *pb.RequestOp {
			return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: ops}}}
		}
		times := func(n int, op *pb.RequestOp) (out []*pb.RequestOp) {
			for range n {
				out = append(out, op)
			}
			return out
		}
		one := record.ObservedServiceKey(clusterA, "svc00000")
		compare := &pb.Compare{Key: []byte(prefix), RangeEnd: []byte(end), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte("x")}}
		erase := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(prefix), RangeEnd: []byte(end), PrevKv: true}}}
		for name, txn := range map[string]*pb.TxnRequest{
			"a hundred ranges":              {Success: times(100, read(prefix, end))},
			"one range":                     {Success: times(1, read(prefix, end))},
			"a hundred of one key":          {Success: times(100, read(one, ""))},
			"the other branch":              {Compare: []*pb.Compare{{Key: []byte(one), Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: 99}}}, Failure: times(100, read(one, ""))},
			"nested":                        {Success: times(10, nested(times(100, read(one, ""))...))},
			"nested twice":                  {Success: times(3, nested(nested(times(40, read(one, ""))...)))},
			"comparisons of a range":        {Compare: []*pb.Compare{compare}},
			"former values of a range":      {Success: []*pb.RequestOp{erase}},
			"ranges below two transactions": {Success: times(2, nested(nested(read(prefix, end))))},
		} {
			var err error
			bytes := allocated(func() { _, err = kv.Txn(t.Context(), txn) })
			if t.Logf("%s: %d KiB were allocated", name, bytes>>10); bytes > 100<<20 {
				t.Errorf("%s: %d bytes were allocated", name, bytes)
			}
			refused(t, name, err)
		}
		for name, r := range map[string]*pb.RangeRequest{
			"all of it":                 {},
			"keys alone":                {KeysOnly: true, SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_VALUE},
			"sorted":                    {SortOrder: pb.RangeRequest_DESCEND, Limit: 1},
			"filtered":                  {MinModRevision: 1, Limit: 1},
			"filtered by":               {MaxCreateRevision: 1 << 40, Limit: 1},
			"limited to less than none": {Limit: -1},
			"sorted in no order":        {SortTarget: pb.RangeRequest_VALUE, Limit: 1},
		} {
			r.Key, r.RangeEnd = []byte(prefix), []byte(end)
			var err error
			if bytes := allocated(func() { _, err = kv.Range(t.Context(), r) }); bytes > 200<<20 {
				t.Errorf("%s: %d bytes were allocated", name, bytes)
			}
			refused(t, name, err)
		}
		_, err := kv.DeleteRange(t.Context(), &pb.DeleteRangeRequest{Key: []byte(prefix), RangeEnd: []byte(end), PrevKv: true})
		refused(t, "former values of a range", err)
		// With a limit the answer is short, and says so.
		resp, err := kv.Range(t.Context(), &pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(end), Limit: 1000}, grpc.MaxCallRecvMsgSize(1<<30))
		if err != nil {
			t.Fatal(err)
		}
		if !resp.More && len(resp.Kvs) != 12 {
			t.Errorf("a page of %d keys of 12, more: %v", len(resp.Kvs), resp.More)
		}
	})
}

// After keys however small, etcd does not build all that follows at once.
func TestAStreamIsBuiltInPartsWhateverComesAfterSmallKeys(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		root := raw(t, g, access.Root)
		for i := range 40 {
			if _, err := root.Put(t.Context(), fmt.Sprintf("%sa%04d", record.ObservedPrefix(clusterA), i), "x"); err != nil {
				t.Fatal(err)
			}
		}
		fill(t, g, 100, 300_000)
		stream, err := pb.NewKVClient(raw(t, g, access.Syncer(clusterA, uidA)).ActiveConnection()).RangeStream(t.Context(), &pb.RangeRequest{
			Key: []byte(record.ObservedPrefix(clusterA)), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(record.ObservedPrefix(clusterA))),
		}, grpc.MaxCallRecvMsgSize(1<<30))
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; ; {
			resp, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			got := resp.GetRangeResponse()
			if n += len(got.Kvs); len(got.Kvs) > 20 {
				t.Errorf("a message of %d keys", len(got.Kvs))
			}
			if got.Header != nil {
				if n != 140 || got.Count != 140 {
					t.Errorf("%d keys were read, and it says %d", n, got.Count)
				}
				return
			}
		}
	})
}

// etcd answered a negative limit with everything as one message, and ranges that it sorts in parts
// of their own without end.
func TestAStreamThatIsNotBuiltInPartsIsRefused(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		fill(t, g, 40, 100)
		prefix := record.ObservedPrefix(clusterA)
		kv := pb.NewKVClient(raw(t, g, access.Syncer(clusterA, uidA)).ActiveConnection())
		for name, r := range map[string]*pb.RangeRequest{
			"limited to less than none": {Limit: -1},
			"sorted in no order":        {SortTarget: pb.RangeRequest_VALUE},
		} {
			r.Key, r.RangeEnd = []byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix))
			stream, err := kv.RangeStream(t.Context(), r)
			if err == nil {
				_, err = stream.Recv()
			}
			refused(t, name, err)
		}
	})
}

// A user with limits is answered what one without is.
func TestAnswersInPartsAreThoseOfEtcd(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		fill(t, g, 95, 100)
		root, syncer := raw(t, g, access.Root), raw(t, g, access.Syncer(clusterA, uidA))
		old, err := root.Delete(t.Context(), record.ObservedServiceKey(clusterA, "svc00050"))
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			Keys         []string
			Count, Rev   int64
			More, Failed bool
		}
		whole := func(client *clientv3.Client, options ...clientv3.OpOption) (out answer) {
			resp, err := client.Get(t.Context(), record.ObservedPrefix(clusterA), append(options, clientv3.WithPrefix())...)
			if err != nil {
				t.Fatal(err)
			}
			for _, kv := range resp.Kvs {
				out.Keys = append(out.Keys, fmt.Sprintf("%s=%x", kv.Key, kv.Value))
			}
			out.Count, out.More, out.Rev = resp.Count, resp.More, resp.Header.Revision
			return out
		}
		streamed := func(client *clientv3.Client, options ...clientv3.OpOption) (out answer) {
			chunks, err := client.GetStream(t.Context(), record.ObservedPrefix(clusterA), append(options, clientv3.WithPrefix())...)
			if err != nil {
				t.Fatal(err)
			}
			for chunk := range chunks {
				if err := chunk.Err(); err != nil {
					t.Fatal(err)
				}
				for _, kv := range chunk.Kvs {
					out.Keys = append(out.Keys, fmt.Sprintf("%s=%x", kv.Key, kv.Value))
				}
				if chunk.Header != nil {
					out.Count, out.More, out.Rev = chunk.Count, chunk.More, chunk.Header.Revision
				}
			}
			return out
		}
		for name, options := range map[string][]clientv3.OpOption{
			"all": nil, "one": {clientv3.WithLimit(1)}, "a part": {clientv3.WithLimit(30)}, "some": {clientv3.WithLimit(45)}, "two parts": {clientv3.WithLimit(60)},
			"as many as there are": {clientv3.WithLimit(94)}, "more": {clientv3.WithLimit(1000)}, "keys": {clientv3.WithKeysOnly()},
			"a number": {clientv3.WithCountOnly()}, "before": {clientv3.WithRev(old.Header.Revision - 1)},
		} {
			if diff := cmp.Diff(whole(root, options...), whole(syncer, options...)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			want, got := streamed(root, options...), streamed(syncer, options...)
			if name == "before" {
				got.Rev = want.Rev // of the store, which this test does not ask for
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, as a stream: %s", name, diff)
			}
		}
	})
}

// What a syncer with 20,000 services asks when it begins anew is within the limits.
func TestARelistOf20000ServicesIsAnswered(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		const services = 20_000
		fill(t, g, services, 600)
		syncer := g.open(access.Syncer(clusterA, uidA))
		kvs, _, err := syncer.List(t.Context(), record.ObservedPrefix(clusterA))
		if err != nil || len(kvs) != services {
			t.Fatalf("%d keys, %v", len(kvs), err)
		}
		var keys []string
		for _, kv := range kvs[:128] {
			keys = append(keys, kv.Key)
		}
		view, err := syncer.Read(t.Context(), keys...)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range kvs[:128] {
			if read, ok := view.KV(kv.Key); !ok || read.ModRevision != kv.ModRevision || string(read.Value) != string(kv.Value) {
				t.Errorf("%s was read as %v", kv.Key, read)
			}
		}
		// Reports on a hundred jobs in one transaction, which came second to another one.
		tries := 0
		_, err = syncer.Update(t.Context(), store.Update{Keys: keys[:100], Build: func(_ store.View, tx *store.Txn) error {
			if tries++; tries == 1 {
				if err := put(t, g.controlPlane, keys[7]); err != nil {
					return err
				}
			}
			for _, key := range keys[:100] {
				tx.Expect(key)
				tx.Put(key, fmt.Sprint("report ", tries))
			}
			return nil
		}})
		if err != nil || tries != 2 {
			t.Errorf("after %d tries: %v", tries, err)
		}
	})
}

// Watches cost memory in etcd for as long as they are open.
func TestWatchesAreLimited(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		client := raw(t, g, access.Syncer(clusterA, uidA))
		watch, err := pb.NewWatchClient(client.ActiveConnection()).Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte(record.SessionKey(clusterA))}}}
		opened := 0
		for {
			if err = watch.Send(create); err != nil {
				break
			}
			if _, err = watch.Recv(); err != nil {
				break
			}
			if opened++; opened > 1000 {
				t.Fatal("a thousand watches are open")
			}
		}
		_, err = watch.Recv()
		refused(t, fmt.Sprintf("the watch after %d", opened), err)
		// Those that are closed make room.
		events := client.Watch(t.Context(), record.SessionKey(clusterA), clientv3.WithCreatedNotify())
		if resp := <-events; resp.Err() != nil {
			t.Errorf("afterwards: %v", resp.Err())
		}
	})
}

// etcd says of a watch of what is compacted that it is canceled, keeps it, and says so again when
// its client cancels it. Its place was given back both times.
func TestWatchesOfWhatIsCompactedAreLimited(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		fill(t, g, 10, 10)
		root := raw(t, g, access.Root)
		resp, err := root.Put(t.Context(), record.SessionKey(clusterA), "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := root.Compact(t.Context(), resp.Header.Revision); err != nil {
			t.Fatal(err)
		}
		client := raw(t, g, access.Syncer(clusterA, uidA))
		// ask sends requests, and awaits as many answers that are awaited.
		ask := func(watch pb.Watch_WatchClient, requests []*pb.WatchRequest, awaited func(*pb.WatchResponse) bool) (ids []int64, err error) {
			for _, r := range requests {
				if err := watch.Send(r); err != nil {
					break // Recv says why
				}
			}
			for len(ids) < len(requests) {
				resp, err := watch.Recv()
				if err != nil {
					return nil, err
				}
				if awaited(resp) {
					ids = append(ids, resp.WatchId)
				}
			}
			return ids, nil
		}
		created := func(resp *pb.WatchResponse) bool { return resp.Created }
		canceled := func(resp *pb.WatchResponse) bool { return resp.Canceled }
		create := func(n int, revision int64) (out []*pb.WatchRequest) {
			r := &pb.WatchCreateRequest{Key: []byte(record.SessionKey(clusterA)), StartRevision: revision}
			for range n {
				out = append(out, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}})
			}
			return out
		}
		cancel := func(ids []int64) (out []*pb.WatchRequest) {
			for _, id := range ids {
				out = append(out, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}})
			}
			return out
		}
		for _, c := range []struct {
			name    string
			stay    int // so many watches stay open, of what is there
			cancels bool
			limited bool
		}{
			{"their client does not cancel them", 0, false, true},
			{"their client cancels them beside others", 30, true, true},
			{"their client cancels them", 0, true, false},
		} {
			watch, err := pb.NewWatchClient(client.ActiveConnection()).Watch(t.Context())
			for range 2 {
				if err == nil {
					_, err = ask(watch, create(c.stay, 0), created)
				}
				var ids []int64
				if err == nil {
					ids, err = ask(watch, create(34, 1), canceled)
				}
				if err == nil && c.cancels {
					_, err = ask(watch, cancel(ids), canceled)
				}
			}
			if c.limited {
				refused(t, c.name, err)
			} else if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
}

// Streams cost memory in etcd for as long as they are open, also without a watch.
func TestStreamsAreLimited(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		client := raw(t, g, access.Syncer(clusterA, uidA))
		var opened []pb.Lease_LeaseKeepAliveClient
		lease, err := client.Grant(t.Context(), 600)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			var stream pb.Lease_LeaseKeepAliveClient
			if stream, err = pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(t.Context()); err != nil {
				break
			}
			opened = append(opened, stream)
			if len(opened) > 1000 {
				t.Fatal("a thousand streams are open")
			}
			if err = stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease.ID)}); err == nil || errors.Is(err, io.EOF) {
				_, err = stream.Recv()
			}
		}
		refused(t, fmt.Sprintf("the stream after %d", len(opened)-1), err)
		if _, err := raw(t, g, access.Syncer(clusterB, uidB)).Get(t.Context(), record.SessionKey(clusterB)); err != nil {
			t.Errorf("another cluster: %v", err)
		}
	})
}
