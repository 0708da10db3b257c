package virtual_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// same fails where two servers answered differently.
func same(t *testing.T, requests []proto.Message, genuine, simulated []string) {
	t.Helper()
	for i, answer := range genuine {
		t.Logf("%T: %s", requests[i], answer)
		if simulated[i] != answer {
			t.Errorf("step %d, %T{%.200v}:\na real server answers    %s\na virtual one            %s", i, requests[i], requests[i], answer, simulated[i])
		}
	}
}

// commit is longer than etcd takes to write to its file, and so to know its size.
const commit = 300 * time.Millisecond

func TestAVirtualServerIsFullAsARealOne(t *testing.T) {
	t.Parallel()
	s := newStage(t, embedded.Config{Quota: 5 << 20})
	large := func(key string) proto.Message {
		return &pb.PutRequest{Key: []byte(key), Value: bytes.Repeat([]byte("x"), 1<<20)}
	}
	small := &pb.PutRequest{Key: []byte("small"), Value: []byte("1")}
	disarm := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: 1}
	within := func(op *pb.RequestOp) proto.Message { return &pb.TxnRequest{Success: []*pb.RequestOp{op}} }
	requests := []proto.Message{
		small, large("a"), large("b"), large("c"), large("d"), large("e"), large("f"), &pb.AlarmRequest{},
		small, &pb.LeaseGrantRequest{ID: 7, TTL: 1000}, within(&pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: small}}),
		within(&pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("small")}}}),
		disarm, &pb.AlarmRequest{}, small, large("g"), &pb.AlarmRequest{},
		&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("h")}, within(&pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("b")}}}),
		&pb.CompactionRequest{Revision: -1, Physical: true}, small, &pb.DefragmentRequest{}, small, disarm, small, large("a"), &pb.AlarmRequest{},
	}
	genuine, simulated := s.both(t.Context(), func(ctx context.Context, p *player) (out []string) {
		for _, r := range requests {
			out = append(out, p.play(ctx, step{request: r}))
			if proto.Size(r) > 1<<20 {
				<-time.After(commit)
			}
		}
		return out
	})
	same(t, requests, genuine, simulated)
	if !slices.ContainsFunc(genuine, func(s string) bool { return strings.Contains(s, "NOSPACE") }) {
		t.Error("it was never full")
	}
}

func TestALeaseExpiresInVirtualTimeAsInReal(t *testing.T) {
	t.Parallel()
	s := newStage(t, embedded.Config{})
	requests := []proto.Message{
		&pb.LeaseGrantRequest{ID: 7, TTL: 1}, // the least is 2 s
		&pb.PutRequest{Key: []byte("a"), Lease: 7}, &pb.PutRequest{Key: []byte("b"), Lease: 7},
		&pb.WatchCreateRequest{Key: []byte{0}, RangeEnd: []byte{0}, PrevKv: true},
		&pb.LeaseKeepAliveRequest{ID: 7}, &pb.WatchProgressRequest{},
		&pb.LeaseTimeToLiveRequest{ID: 7, Keys: true}, &pb.LeaseKeepAliveRequest{ID: 7}, &pb.LeaseLeasesRequest{},
	}
	genuine, simulated := s.both(t.Context(), func(ctx context.Context, p *player) (out []string) {
		for _, r := range requests {
			if _, ok := r.(*pb.WatchProgressRequest); ok { // both deletions are one revision
				if _, err := p.receive(func(resp *pb.WatchResponse) bool { return len(resp.Events) > 0 }); err != nil {
					out = append(out, err.Error())
				}
			}
			out = append(out, p.play(ctx, step{request: r}))
		}
		p.finish()
		return out
	})
	same(t, requests, genuine, simulated)
}

// A member of three that the two others have left, and a virtual one without leader.
func TestAServerWithoutLeaderAnswersAsAMemberThatIsLeftAlone(t *testing.T) {
	t.Parallel()
	requests := []proto.Message{
		&pb.RangeRequest{Key: []byte("a")}, &pb.RangeRequest{Key: []byte("a"), Serializable: true}, &pb.PutRequest{Key: []byte("a")}, &pb.DeleteRangeRequest{Key: []byte("a")},
		&pb.TxnRequest{}, &pb.CompactionRequest{Revision: 1}, &pb.LeaseGrantRequest{ID: 8, TTL: 1000}, &pb.LeaseRevokeRequest{ID: 7}, &pb.LeaseKeepAliveRequest{ID: 7},
		&pb.LeaseTimeToLiveRequest{ID: 7}, &pb.LeaseLeasesRequest{}, &pb.AlarmRequest{}, &pb.AuthStatusRequest{}, &pb.AuthUserListRequest{}, &pb.MemberListRequest{Linearizable: true},
		&pb.HashKVRequest{},
	}
	// ask asks all at once, first without demanding a leader: some wait for as long as etcd does.
	ask := func(ctx context.Context, p *player) []string {
		out := make([]string, 2*len(requests))
		demanding := metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
		var all sync.WaitGroup
		for i, r := range requests {
			for j, ctx := range []context.Context{ctx, demanding} {
				all.Go(func() {
					answer, err := (&player{conn: p.conn, member: p.member, watches: &watches{}}).send(ctx, step{request: r})
					out[i+j*len(requests)] = (&player{}).words(answer, err)
				})
			}
		}
		all.Wait()
		return out
	}
	setUp := []step{{request: &pb.PutRequest{Key: []byte("a")}}, {request: &pb.LeaseGrantRequest{ID: 7, TTL: 1000}}}

	var simulated []string
	synctest.Test(t, func(t *testing.T) {
		a := &address{}
		s := virtual.New(t, a.listen(), embedded.Config{})
		p := newPlayer(t, connect(t, "passthrough:bufconn", grpc.WithContextDialer(a.dial)))
		for _, x := range setUp {
			p.play(t.Context(), x)
		}
		ctx, end := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.Leaderless(ctx, time.Hour)
		}()
		<-time.After(5 * time.Second)
		simulated = ask(t.Context(), p)
		end()
		<-over
	})

	members := storetest.StartMembers(t, 3)
	p := newPlayer(t, connect(t, strings.TrimPrefix(members[0].Endpoint(), "http://")))
	for _, x := range setUp {
		p.play(t.Context(), x)
	}
	members[1].Close()
	members[2].Close()
	for status := new(pb.StatusResponse); status.Leader != 0 || len(status.Errors) == 0; {
		var err error
		if status, err = pb.NewMaintenanceClient(p.conn).Status(t.Context(), &pb.StatusRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	same(t, append(requests, requests...), ask(t.Context(), p), simulated)
}
