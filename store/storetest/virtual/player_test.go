package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// player sends the steps of histories to one server, and tells its answers.
type player struct {
	conn    *grpc.ClientConn
	member  uint64
	newest  int64 // revision
	tokens  map[string]string
	watches *watches
}

// watches are those of one history: they share a stream.
type watches struct {
	sending sync.Mutex
	stream  pb.Watch_WatchClient
	end     context.CancelFunc
	open    map[int64]bool
	from    int64 // the latest revision that one of them begins at
	events  map[int64][]string
}

func newPlayer(t testing.TB, conn *grpc.ClientConn) *player {
	t.Helper()
	status, err := pb.NewMaintenanceClient(conn).Status(t.Context(), &pb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return &player{conn: conn, member: status.Header.MemberId, newest: status.Header.Revision, tokens: map[string]string{}, watches: &watches{}}
}

// play sends a step and returns the answer, without what differs between servers.
func (p *player) play(ctx context.Context, s step) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	answer, err := p.send(p.as(ctx, s.user), s)
	if ctx.Err() != nil {
		panic(fmt.Sprintf("no answer to %#v", s))
	}
	if status.Code(err).String() == "Unauthenticated" && s.user != "" {
		again, err := p.logIn(ctx, s.user)
		return "Unauthenticated, then " + p.words(again, err)
	}
	return p.words(answer, err)
}

func (p *player) words(answer proto.Message, err error) string {
	if err != nil {
		return fmt.Sprintf("%v: %s", status.Code(err), status.Convert(err).Message())
	}
	if h, ok := answer.(interface{ GetHeader() *pb.ResponseHeader }); ok {
		p.newest = max(p.newest, h.GetHeader().GetRevision())
	}
	return text(answer)
}

func (p *player) as(ctx context.Context, user string) context.Context {
	if p.tokens[user] == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "token", p.tokens[user])
}

// logIn gives a user another token.
func (p *player) logIn(ctx context.Context, user string) (proto.Message, error) {
	resp, err := pb.NewAuthClient(p.conn).Authenticate(ctx, &pb.AuthenticateRequest{Name: user, Password: passwordOf(user)})
	if err == nil {
		p.tokens[user] = resp.Token
	}
	return resp, err
}

// send sends one request, whatever it is.
func (p *player) send(ctx context.Context, s step) (proto.Message, error) {
	request := p.resolve(s.request)
	switch r := request.(type) {
	case *pb.WatchCreateRequest:
		return p.watch(ctx, s.user, r)
	case *pb.WatchCancelRequest:
		return p.cancelWatch(ctx, r)
	case *pb.WatchProgressRequest:
		return p.look(ctx)
	case *pb.CompactionRequest:
		// Whether a watch of the past comes before it is a matter of time.
		if err := p.catchUp(ctx); err != nil {
			return nil, err
		}
	case *pb.LeaseKeepAliveRequest:
		stream, err := pb.NewLeaseClient(p.conn).LeaseKeepAlive(ctx)
		if err != nil {
			return nil, err
		}
		if err := stream.Send(r); err != nil {
			return nil, err
		}
		return stream.Recv()
	case *pb.RangeRequest:
		if s.stream {
			return p.stream(ctx, r)
		}
	}
	method, answer := methodOf(request)
	return answer, p.conn.Invoke(ctx, method, request, answer)
}

// methodOf finds the call for a request: its name, and the type of its answer.
func methodOf(request proto.Message) (string, proto.Message) {
	name := request.ProtoReflect().Descriptor().FullName()
	services := pb.File_rpc_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			if m := methods.Get(j); m.Input().FullName() == name && !m.IsStreamingServer() {
				return fmt.Sprintf("/%s/%s", services.Get(i).FullName(), m.Name()), newMessage(m.Output())
			}
		}
	}
	panic("no call for " + name)
}

// stream reads a range in parts, and puts them together.
func (p *player) stream(ctx context.Context, r *pb.RangeRequest) (proto.Message, error) {
	stream, err := pb.NewKVClient(p.conn).RangeStream(ctx, r)
	if err != nil {
		return nil, err
	}
	whole := &pb.RangeResponse{}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return nil, err
		}
		proto.Merge(whole, part.RangeResponse)
	}
}

// watch opens a watch on the stream of this history, which is of its first user.
func (p *player) watch(ctx context.Context, user string, r *pb.WatchCreateRequest) (proto.Message, error) {
	if p.watches.stream == nil {
		ctx, end := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		stream, err := pb.NewWatchClient(p.conn).Watch(p.as(ctx, user))
		if err != nil {
			end()
			return nil, err
		}
		p.watches = &watches{stream: stream, end: end, open: map[int64]bool{}, events: map[int64][]string{}}
	}
	p.watches.from = max(p.watches.from, r.StartRevision)
	if err := p.watches.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
		return nil, err
	}
	return p.receive(func(resp *pb.WatchResponse) bool { return resp.Created })
}

func (p *player) cancelWatch(ctx context.Context, r *pb.WatchCancelRequest) (proto.Message, error) {
	if !p.watches.open[r.WatchId] {
		return &pb.WatchResponse{CancelReason: "it is not open"}, nil
	}
	if answer, err := p.look(ctx); err != nil {
		return answer, err
	}
	if !p.watches.open[r.WatchId] {
		return &pb.WatchResponse{CancelReason: "it ended by itself"}, nil
	}
	p.watches.open[r.WatchId] = false
	if err := p.watches.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: r}}); err != nil {
		return nil, err
	}
	return p.receive(func(resp *pb.WatchResponse) bool { return resp.Canceled && resp.WatchId == r.WatchId })
}

// progressPause is longer than etcd takes to bring a watch of the past up to date.
const progressPause = 30 * time.Millisecond

// look tells what all watches have seen, when they have seen everything.
func (p *player) look(ctx context.Context) (proto.Message, error) {
	if err := p.catchUp(ctx); err != nil {
		return nil, err
	}
	var seen []string
	for id := range int64(10) {
		seen = append(seen, p.watches.events[id]...)
	}
	clear(p.watches.events)
	return &pb.WatchResponse{CancelReason: strings.Join(seen, "\n")}, nil
}

// catchUp waits until all watches have seen everything.
func (p *player) catchUp(ctx context.Context) error {
	for p.watches.from > p.newest { // etcd tells no progress before
		answer, err := p.send(p.as(ctx, "root"), step{request: &pb.PutRequest{Key: []byte("z")}})
		if err != nil {
			return err
		}
		p.words(answer, nil)
	}
	if !p.watches.any() {
		return nil
	}
	done, asked := make(chan struct{}), make(chan error, 1)
	go func() { // etcd does not answer while a watch is behind
		tick := time.NewTicker(progressPause)
		defer tick.Stop()
		for {
			if err := p.watches.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}); err != nil {
				asked <- err
				return
			}
			select {
			case <-tick.C:
			case <-done:
				asked <- nil
				return
			}
		}
	}()
	_, err := p.receive(func(resp *pb.WatchResponse) bool {
		return !p.watches.any() || resp.WatchId == -1 && !resp.Created && resp.Header.Revision >= p.newest
	})
	close(done)
	return errors.Join(err, <-asked)
}

// send sends a message of one of the goroutines that do.
func (w *watches) send(r *pb.WatchRequest) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	return w.stream.Send(r)
}

func (w *watches) any() bool {
	for _, open := range w.open {
		if open {
			return true
		}
	}
	return false
}

// receive notes what watches see, until an answer is the one that is waited for.
func (p *player) receive(is func(*pb.WatchResponse) bool) (proto.Message, error) {
	for {
		resp, err := p.watches.stream.Recv()
		if err != nil {
			return nil, err
		}
		if err := p.watches.note(resp); err != nil {
			return nil, err
		}
		if is(resp) {
			resp.Header = nil // of any moment
			return resp, nil
		}
	}
}

// note notes what a watch saw.
func (w *watches) note(resp *pb.WatchResponse) error {
	id := resp.WatchId
	for _, e := range resp.Events {
		w.events[id] = append(w.events[id], fmt.Sprintf("%d saw %s", id, text(e)))
	}
	switch {
	case resp.Created:
		w.open[id] = !resp.Canceled
	case resp.Canceled && w.open[id]:
		w.open[id] = false
		w.events[id] = append(w.events[id], fmt.Sprintf("%d ended: %q, compacted at %d", id, resp.CancelReason, resp.CompactRevision))
		// etcd tells no progress on a stream with a watch that it ended itself, until that is cancelled.
		return w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}})
	}
	return nil
}

// finish ends the watches of a history.
func (p *player) finish() {
	if p.watches.stream != nil {
		p.watches.end()
		for err := error(nil); err == nil; {
			_, err = p.watches.stream.Recv()
		}
	}
	p.watches = &watches{}
}

// text is a message without what differs between servers, and in one order.
func text(m proto.Message) string {
	m = proto.Clone(m)
	switch m := m.(type) {
	case *pb.LeaseTimeToLiveResponse:
		m.TTL = min(m.TTL, 0) // what is left of it
		slices.SortFunc(m.Keys, slices.Compare)
	case *pb.LeaseLeasesResponse:
		slices.SortFunc(m.Leases, func(a, b *pb.LeaseStatus) int { return int(a.ID - b.ID) })
	}
	mask(m.ProtoReflect())
	return prototext.MarshalOptions{}.Format(m)
}

func mask(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch f.Name() {
		case "cluster_id", "member_id", "memberID", "raft_term", "token":
			m.Clear(f)
			return true
		}
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				mask(v.List().Get(i).Message())
			}
		default:
			mask(v.Message())
		}
		return true
	})
}
