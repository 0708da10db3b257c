package guard

import (
	"context"
	"errors"
	"io"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func (g *Guard) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	name := UserOf(stream.Context())
	limited, err := g.admits(name, info.FullMethod)
	if err != nil {
		return err
	}
	if !limited {
		return next(srv, stream)
	}
	arrived(stream.Context())
	c := &call{Guard: g, user: g.userOf(name), conn: g.connOf(stream.Context())}
	if err := c.checkQueued(); err != nil {
		return err
	}
	if info.FullMethod == pb.KV_RangeStream_FullMethodName {
		return c.list(srv, counted{stream, c}, next)
	}
	l := &limitedStream{ServerStream: counted{stream, c}, call: c}
	defer l.end()
	err = next(srv, l)
	if refused := l.refusal(); refused != nil {
		return refused
	}
	return err
}

// counted is a stream whose messages are counted until its connection has taken them.
type counted struct {
	grpc.ServerStream
	call *call
}

// SendMsg implements grpc.ServerStream.
func (s counted) SendMsg(m any) error {
	if m, ok := m.(proto.Message); ok {
		s.call.conn.queue(proto.Size(m))
	}
	return s.ServerStream.SendMsg(m)
}

// limitedStream is a stream of watches, or of renewals.
type limitedStream struct {
	grpc.ServerStream
	*call

	// opened are the watches of this stream that are counted, and ended says that no more are: etcd
	// goes on receiving while the stream ends. Both are under user.mu.
	opened int
	ended  bool

	mu      sync.Mutex
	refused error
}

func (l *limitedStream) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// RecvMsg implements grpc.ServerStream.
func (l *limitedStream) RecvMsg(m any) error {
	if err := l.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if err := l.user.messages.Wait(l.Context()); err != nil {
		return status.FromContextError(l.Context().Err()).Err()
	}
	if err := l.admit(m); err != nil {
		l.mu.Lock()
		l.refused = err
		l.mu.Unlock()
		return err
	}
	return nil
}

func (l *limitedStream) admit(m any) error {
	switch r := m.(type) {
	case *pb.LeaseKeepAliveRequest:
		return l.owns(l.Context(), r.ID)
	case *pb.WatchRequest:
		if create := r.GetCreateRequest(); create != nil {
			create.Fragment = true // messages of a bounded size; etcd's client puts them together
			return l.open()
		}
	}
	return nil
}

// open takes a place for a watch that is asked for.
func (l *limitedStream) open() error {
	l.user.mu.Lock()
	defer l.user.mu.Unlock()
	switch {
	case l.ended:
		return rpctypes.ErrGRPCWatchCanceled
	case l.user.watches >= l.cfg.Limits.Watches:
		return l.tooMany("watches")
	}
	l.user.watches++
	l.opened++
	return nil
}

// SendMsg implements grpc.ServerStream.
func (l *limitedStream) SendMsg(m any) error {
	switch r := m.(type) {
	case *pb.LeaseKeepAliveResponse:
		if r.TTL > 0 {
			l.user.renewed(r.ID, r.TTL)
		}
	case *pb.WatchResponse:
		// A watch that asked for what is compacted stays in etcd's memory until its client cancels it.
		if r.Canceled && r.CompactRevision == 0 {
			l.close()
		}
	}
	return l.ServerStream.SendMsg(m)
}

// close gives the place of a watch back.
func (l *limitedStream) close() {
	l.user.mu.Lock()
	defer l.user.mu.Unlock()
	if l.opened > 0 {
		l.opened--
		l.user.watches--
	}
}

// end gives all places back.
func (l *limitedStream) end() {
	l.user.mu.Lock()
	defer l.user.mu.Unlock()
	l.user.watches -= l.opened
	l.opened, l.ended = 0, true
}

// errPart ends a part of a list.
var errPart = errors.New("the part is done")

// list answers a stream of a range in parts, each of which etcd begins with few keys: by
// itself it doubles them as long as they are small, and builds whatever comes next.
func (c *call) list(srv any, stream grpc.ServerStream, next grpc.StreamHandler) error {
	ctx := stream.Context()
	req := &pb.RangeRequest{}
	if err := stream.RecvMsg(req); err != nil {
		return err
	}
	if err := c.checkRange(req); err != nil {
		return err
	}
	if err := c.user.lists.Acquire(ctx, 1); err != nil {
		return c.tooMany("lists")
	}
	defer c.user.lists.Release(1)
	if single(req) {
		p := &part{ServerStream: stream, call: c, ctx: ctx, req: req}
		return p.run(srv, next)
	}
	pinned := req.Revision
	if pinned == 0 {
		// Only the last message of a stream tells its revision, so it is asked for first.
		first := &part{ServerStream: stream, call: c, ctx: ctx, silent: true, req: &pb.RangeRequest{
			Key: req.Key, CountOnly: true, Serializable: req.Serializable,
		}}
		if err := first.run(srv, next); err != nil {
			return err
		}
		if pinned = first.header.GetRevision(); pinned == 0 {
			return status.Error(codes.Unavailable, "etcd did not tell its revision")
		}
	}
	var sent int64
	from := req.Key
	for {
		r := proto.CloneOf(req)
		r.Key, r.Revision = from, pinned
		if r.Limit > 0 {
			r.Limit -= sent
		}
		p := &part{ServerStream: stream, call: c, ctx: ctx, req: r, before: sent, revision: pinned, most: valuesAtOnce}
		if err := p.run(srv, next); !errors.Is(err, errPart) {
			return err
		}
		sent += p.sent
		from = append(p.last, 0)
	}
}

// part is one reading of a stream, as etcd sees it.
type part struct {
	grpc.ServerStream
	*call
	ctx context.Context
	req *pb.RangeRequest
	// silent keeps the answers.
	silent bool
	// most keys are sent before the part is done; 0 is no limit.
	most int64
	// before is what earlier parts have sent, and revision what they have read at.
	before, revision int64

	header *pb.ResponseHeader
	sent   int64
	last   []byte
	asked  bool
	done   bool
	// built gives back what the next message may hold.
	built func()
}

func (p *part) run(srv any, next grpc.StreamHandler) error {
	if err := p.reserve(); err != nil {
		return err
	}
	defer func() { p.built() }()
	err := next(srv, p)
	if p.done {
		return errPart
	}
	return err
}

// reserve waits until the next message may be built.
func (p *part) reserve() (err error) {
	p.built = func() {}
	release, err := p.build(p.ctx, valuesAtOnce*maxValue)
	if err == nil {
		p.built = release
	}
	return err
}

// RecvMsg implements grpc.ServerStream.
func (p *part) RecvMsg(m any) error {
	if p.asked {
		return io.EOF
	}
	p.asked = true
	if into, ok := m.(proto.Message); ok {
		proto.Reset(into)
		proto.Merge(into, p.req)
	}
	return nil
}

// SendMsg implements grpc.ServerStream. While it waits for a slow client it holds up no other
// client.
func (p *part) SendMsg(m any) error {
	message, ok := m.(*pb.RangeStreamResponse)
	if !ok {
		return status.Errorf(codes.Internal, "etcd answered %T to a stream of a range", m)
	}
	resp := message.GetRangeResponse()
	p.header = resp.GetHeader()
	if p.silent {
		return nil
	}
	p.built()
	kvs := resp.GetKvs()
	p.sent += int64(len(kvs))
	if len(kvs) > 0 {
		p.last = kvs[len(kvs)-1].Key
	}
	end := p.header != nil
	if end && !p.req.CountOnly {
		resp.Count += p.before
		if p.revision > 0 {
			p.header.Revision = p.revision
		}
	}
	if err := p.ServerStream.SendMsg(m); err != nil {
		return err
	}
	if end {
		return nil
	}
	if p.most > 0 && p.sent >= p.most {
		p.done = true
		return errPart
	}
	return p.reserve()
}
