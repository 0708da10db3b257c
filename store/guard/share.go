package guard

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

const (
	// shareFrom is the size of a part from which its answer is kept for further readers.
	shareFrom = 64 << 10
	// shareBytes bounds the answers that are kept for further readers. What is on its way to a
	// reader stays in memory besides.
	shareBytes = 8 << 20
	// shareFor is how long an answer is kept after it was last given.
	shareFor = 10 * time.Second
	// shareTimeout bounds the one reading that several readers wait for.
	shareTimeout = 5 * time.Second
)

// shared keeps encoded answers with large parts for a short time: all members of a federation read
// the same parts at once, and the answer of each would be in memory until its connection took it.
// A part never changes, so only its existence is asked for again.
type shared struct {
	reading singleflight.Group

	mu    sync.Mutex
	kept  map[string]*keptPart
	bytes int
}

type keptPart struct {
	keys  []byte
	used  time.Time
	timer *time.Timer
}

// sharedAnswer is the answer to a range: its own header, and keys that were encoded before.
// Encoded messages of protobuf that follow one another are one message.
type sharedAnswer struct{ header, keys []byte }

func (a *sharedAnswer) size() int { return len(a.header) + len(a.keys) }

// find tells the encoded answer with a part, and nil for one that is not kept.
func (s *shared) find(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept[key]
	if k == nil {
		return nil
	}
	k.used = time.Now()
	k.timer.Reset(shareFor)
	return k.keys
}

// keep keeps an answer, in place of those that were not given for longest.
func (s *shared) keep(key string, keys []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key, s.kept[key])
	for s.bytes+len(keys) > shareBytes && len(s.kept) > 0 {
		oldest := ""
		for key, k := range s.kept {
			if oldest == "" || k.used.Before(s.kept[oldest].used) {
				oldest = key
			}
		}
		s.drop(oldest, s.kept[oldest])
	}
	k := &keptPart{keys: keys, used: time.Now()}
	k.timer = time.AfterFunc(shareFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(key, k)
	})
	if s.kept == nil {
		s.kept = map[string]*keptPart{}
	}
	s.kept[key] = k
	s.bytes += len(keys)
}

// drop forgets k, unless it was replaced already. The caller holds the lock.
func (s *shared) drop(key string, k *keptPart) {
	if k == nil || s.kept[key] != k {
		return
	}
	k.timer.Stop()
	delete(s.kept, key)
	s.bytes -= len(k.keys)
}

// part answers with a part, for which the user's right is that it knows its name. Each reader asks
// for itself whether the part is there: those who share a reading may have come after its answer.
func (c *call) part(ctx context.Context, r *pb.RangeRequest) (any, error) {
	key := string(r.Key)
	keys := c.shared.find(key)
	if keys == nil {
		var err error
		if keys, err = c.readPart(ctx, key); err != nil {
			return nil, err
		}
	}
	if keys == nil { // it was not there
		return c.plainPart(ctx, r)
	}
	now, err := c.cfg.Etcd.Part(ctx, &pb.RangeRequest{Key: r.Key, CountOnly: true})
	if err != nil || now.Count == 0 {
		return now, err
	}
	header, err := proto.Marshal(&pb.RangeResponse{Header: now.Header})
	if err != nil {
		return nil, fmt.Errorf("the header of an answer: %w", err)
	}
	return &sharedAnswer{header: header, keys: keys}, nil
}

// readPart reads a part once for all that wait for it now, and keeps a large one. It is nil when there
// is none. A user whose places are taken waits for them alone, and begins no reading that others wait for.
func (c *call) readPart(ctx context.Context, key string) ([]byte, error) {
	release, err := c.buildOwn(ctx, 2*maxValue)
	if err != nil {
		return nil, err
	}
	defer release()
	done := c.shared.reading.DoChan(key, func() (any, error) {
		// The first reader may go while others wait.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shareTimeout)
		defer cancel()
		release, err := c.buildShared(ctx, 2*maxValue)
		if err != nil {
			return []byte(nil), err
		}
		defer release()
		resp, err := c.cfg.Etcd.Part(ctx, &pb.RangeRequest{Key: []byte(key)})
		if err != nil || resp.Count == 0 {
			return []byte(nil), err
		}
		keys, err := proto.Marshal(&pb.RangeResponse{Kvs: resp.Kvs, Count: resp.Count})
		if err == nil && len(keys) >= shareFrom {
			c.shared.keep(key, keys)
		}
		return keys, err
	})
	select {
	case <-ctx.Done():
		return nil, c.tooMany("bytes")
	case got := <-done:
		keys, _ := got.Val.([]byte)
		return keys, got.Err
	}
}

// plainPart reads a part for one reader.
func (c *call) plainPart(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	release, err := c.build(ctx, 2*maxValue)
	if err != nil {
		return nil, err
	}
	defer release()
	return c.cfg.Etcd.Part(ctx, r)
}

// codec sends shared answers as they are.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if a, ok := v.(*sharedAnswer); ok {
		return mem.BufferSlice{mem.SliceBuffer(a.header), mem.SliceBuffer(a.keys)}, nil
	}
	return c.CodecV2.Marshal(v)
}
