package access_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// heap is what is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what lay in pools goes the second time
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// All members of a federation read the same parts at once, and the largest of them 120 times. Their
// answers are in memory once, however slowly they are taken.
func TestReadersOfOnePartShareItsAnswer(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		const readers, size, window = 40, 1 << 20, 64 << 10
		key := record.PartKey("0199c3a2", record.NewPartName())
		if _, err := g.controlPlane.Update(t.Context(), store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(key, strings.Repeat("x", size))
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		client := raw(t, g, access.Syncer(clusterA, uidA), grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
		if _, err := client.Get(t.Context(), record.PartKey("0199c3a2", record.NewPartName())); err != nil {
			t.Fatal(err)
		}
		want, err := g.controlPlane.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		before := heap()
		answers := make([]grpc.ClientStream, readers)
		for i := range answers {
			answer, err := client.ActiveConnection().NewStream(t.Context(), &grpc.StreamDesc{}, pb.KV_Range_FullMethodName)
			if err == nil {
				err = answer.SendMsg(&pb.RangeRequest{Key: []byte(key)})
			}
			if err != nil {
				t.Fatal(err)
			}
			answers[i] = answer
		}
		for _, answer := range answers {
			if _, err := answer.Header(); err != nil { // it waits until the answer is built
				t.Fatal(err)
			}
		}
		if grown := int64(heap()) - int64(before); grown > readers*size/4 {
			t.Errorf("%d answers of %d bytes that are not taken keep %d bytes of memory", readers, size, grown)
		}
		for _, answer := range answers {
			got := &pb.RangeResponse{}
			if err := answer.RecvMsg(got); err != nil {
				t.Fatal(err)
			}
			if got.Count != 1 || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != string(want.Value) || got.Header.GetRevision() < got.Kvs[0].ModRevision {
				t.Fatalf("%d keys, count %d, header %v", len(got.Kvs), got.Count, got.Header)
			}
		}

		syncer := g.open(access.Syncer(clusterA, uidA))
		if _, err := g.controlPlane.Update(t.Context(), store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
			tx.Delete(key)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		if _, err := syncer.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a part that is gone: %v", err)
		}
	})
}
