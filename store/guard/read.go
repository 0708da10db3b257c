package guard

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/oscarfed/oscarfed/store/record"
)

// weighed passes a request on whose answer has so many bytes at most.
func (c *call) weighed(ctx context.Context, req any, bytes int64) (any, error) {
	release, err := c.build(ctx, bytes)
	if err != nil {
		return nil, err
	}
	defer release()
	return c.next(ctx, req)
}

// checkRange refuses what etcd reads as a whole before it answers, or does not read in the order of
// keys. A stream of etcd takes a negative limit for none, also for each of its messages.
func (c *call) checkRange(r *pb.RangeRequest) error {
	sorted := r.SortTarget != pb.RangeRequest_KEY || r.SortOrder == pb.RangeRequest_DESCEND
	switch {
	case sorted || r.MinModRevision|r.MaxModRevision|r.MinCreateRevision|r.MaxCreateRevision != 0:
		return c.refuse("answer", "ranges are not sorted or filtered here: read them in the order of their keys")
	case r.Limit < 0:
		return c.refuse("answer", "a limit is not negative: 0 is none")
	}
	return nil
}

// single says whether a range is one key, or tells a number alone.
func single(r *pb.RangeRequest) bool { return len(r.RangeEnd) == 0 || r.CountOnly }

// read answers a range in parts, so that etcd never holds more of it than a part. One with
// a limit is answered short when it has too many bytes: More says so. One without is
// refused then.
func (c *call) read(ctx context.Context, r *pb.RangeRequest) (any, error) {
	if err := c.checkRange(r); err != nil {
		return nil, err
	}
	if isPart(r) && c.cfg.Etcd.Known(ctx, c.user.name) {
		return c.part(ctx, r)
	}
	if single(r) {
		return c.weighed(ctx, r, 2*maxValue)
	}
	if err := c.user.lists.Acquire(ctx, 1); err != nil {
		return nil, c.tooMany("lists")
	}
	defer c.user.lists.Release(1)
	release, err := c.build(ctx, int64(c.cfg.Limits.Answer)+valuesAtOnce*maxValue)
	if err != nil {
		return nil, err
	}
	defer release()

	part := proto.CloneOf(r)
	var out *pb.RangeResponse
	bytes := 0
	for {
		part.Limit = valuesAtOnce
		if r.Limit > 0 {
			part.Limit = min(valuesAtOnce, r.Limit-int64(len(out.GetKvs())))
		}
		answer, err := c.next(ctx, part)
		if err != nil {
			return nil, err
		}
		resp, ok := answer.(*pb.RangeResponse)
		if !ok {
			return answer, nil
		}
		bytes += proto.Size(resp)
		if out == nil {
			out = resp
			if part.Revision == 0 {
				part.Revision = resp.Header.GetRevision()
			}
		} else {
			out.Kvs = append(out.Kvs, resp.Kvs...)
		}
		out.More = resp.More
		switch {
		case !resp.More || len(resp.Kvs) == 0 || r.Limit > 0 && int64(len(out.Kvs)) >= r.Limit:
			return out, nil
		case bytes <= c.cfg.Limits.Answer:
		case r.Limit > 0:
			return out, nil
		default:
			return nil, c.refuse("answer", "the answer is too large for one message: read it as a stream, or page by page")
		}
		part.Key = append(resp.Kvs[len(resp.Kvs)-1].Key, 0)
	}
}

// isPart says whether a request is the plain reading of one part of a definition at present.
// Every other one that touches parts is etcd's to refuse.
func isPart(r *pb.RangeRequest) bool {
	ref := record.ParseKey(string(r.Key))
	return ref.Kind == record.KindPart && record.IsPartName(ref.Rest) && proto.Equal(r, &pb.RangeRequest{Key: r.Key})
}

// put passes on a write of one key.
func (c *call) put(ctx context.Context, r *pb.PutRequest) (any, error) {
	if err := c.mayAttach(ctx, r); err != nil {
		return nil, err
	}
	if !r.PrevKv {
		return c.next(ctx, r)
	}
	return c.weighed(ctx, r, 2*maxValue)
}

// mayAttach refuses to let a key end with another user's lease: the key's owner could not renew it
// any more.
func (c *call) mayAttach(ctx context.Context, r *pb.PutRequest) error {
	if r.GetLease() == 0 {
		return nil
	}
	return c.owns(ctx, r.Lease)
}
