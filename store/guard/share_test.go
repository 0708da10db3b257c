package guard

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// slowEtcd answers reads of parts when it is told to.
type slowEtcd struct {
	Etcd

	reads   atomic.Int32
	answers chan struct{}
}

func (e *slowEtcd) Part(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if !r.CountOnly {
		e.reads.Add(1)
		select {
		case <-e.answers:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &pb.RangeResponse{Header: &pb.ResponseHeader{}, Count: 1, Kvs: []*mvccpb.KeyValue{{Key: r.Key, Value: []byte("part")}}}, nil
}

// Those who wait for a reading that another one has begun get it, although he is gone.
func TestAReadingGoesOnWithoutTheOneWhoBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := &slowEtcd{answers: make(chan struct{})}
		g := New(Config{Etcd: etcd})
		ctx, leave := context.WithCancel(t.Context())
		first, second := read(ctx, g, "a"), read(t.Context(), g, "b")
		leave()
		if err := <-first; err == nil {
			t.Error("the one who is gone has got it")
		}
		close(etcd.answers)
		if err := <-second; err != nil || etcd.reads.Load() != 1 {
			t.Errorf("%v, after %d readings", err, etcd.reads.Load())
		}
	})
}

// A user that takes all of his places holds up nobody who reads the same part.
func TestAUserWithoutPlacesHoldsUpNoOtherReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := &slowEtcd{answers: make(chan struct{})}
		close(etcd.answers)
		g := New(Config{Etcd: etcd})
		greedy := g.userOf("a")
		if err := greedy.building.Acquire(t.Context(), g.cfg.Limits.Bytes); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first := read(ctx, g, "a")
		began := time.Now()
		if err := <-read(t.Context(), g, "b"); err != nil || time.Since(began) > 0 {
			t.Errorf("%v, after %s", err, time.Since(began))
		}
		if err := <-first; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a place: %v", err)
		}
	})
}

// read reads a part as a user, and has begun to when it returns.
func read(ctx context.Context, g *Guard, name string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := (&call{Guard: g, user: g.userOf(name)}).part(ctx, &pb.RangeRequest{Key: []byte("part")})
		done <- err
	}()
	synctest.Wait()
	return done
}
