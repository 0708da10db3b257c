package virtual_test

import (
	"context"
	"flag"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// perCheck histories are one check of rapid: more by -rapid.checks=N, others by -rapid.seed=N.
const perCheck = 10

// stage plays histories to a real server and to a virtual one.
type stage struct {
	real *player
	// asks belongs to no bubble: the virtual server's time stands still while nothing is asked.
	asks chan func(context.Context, *player)
}

// newStage starts both servers, with the same settings.
func newStage(t *testing.T, cfg embedded.Config) *stage {
	t.Helper()
	s := &stage{asks: make(chan func(context.Context, *player))}
	ended, simulated := make(chan struct{}), cfg
	go func() {
		defer close(ended)
		synctest.Test(t, func(t *testing.T) {
			l := bufconn.Listen(1 << 20)
			virtual.Start(t, l, simulated)
			p := newPlayer(t, connect(t, "passthrough:bufconn", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })))
			for ask := range s.asks {
				ask(t.Context(), p)
			}
		})
	}()
	t.Cleanup(func() { close(s.asks); <-ended })
	cfg.Dir, cfg.ListenClient, cfg.NoFsync, cfg.Logger = filepath.Join(t.TempDir(), "etcd"), "127.0.0.1:0", true, storetest.Logger(t)
	server, err := embedded.Start(t.Context(), cfg) // as slow to elect as the virtual one: it is the least time of a lease
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	s.real = newPlayer(t, connect(t, strings.TrimPrefix(server.Endpoint(), "http://")))
	return s
}

func connect(t *testing.T, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// both does the same with both servers at the same time.
func (s *stage) both(ctx context.Context, do func(context.Context, *player) []string) (genuine, simulated []string) {
	answers := make(chan []string, 1)
	s.asks <- func(ctx context.Context, p *player) { answers <- do(ctx, p) }
	genuine = do(ctx, s.real)
	return genuine, <-answers
}

// play plays histories to both and compares their answers one by one.
func (s *stage) play(t *rapid.T, before []step, histories [][]step) {
	t.Helper()
	var all []step
	genuine, simulated := s.both(t.Context(), func(ctx context.Context, p *player) (out []string) {
		for _, x := range before {
			p.play(ctx, x)
		}
		p.clear(ctx)
		for _, history := range histories {
			for _, x := range slices.Concat(history, closing) { // both play it at the same time
				out = append(out, p.play(ctx, x))
			}
			p.finish()
		}
		return out
	})
	for _, history := range histories {
		all = append(all, append(history, closing...)...)
	}
	for i, x := range all {
		if genuine[i] != simulated[i] {
			t.Fatalf("step %d, %#v:\na real server answers    %s\na virtual one            %s", i, x, genuine[i], simulated[i])
		}
	}
}

// closing is how each history ends: with what its watches saw, without alarms, and with a sum of
// all that is stored.
var closing = []step{
	{user: "root", request: &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: 1}},
	{user: "root", request: &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_CORRUPT, MemberID: 1}},
	{user: "root", request: &pb.WatchProgressRequest{}},
	// etcd keeps sums from compactions, some time after them: the one asked for is of a later revision.
	{user: "root", request: &pb.PutRequest{Key: []byte("z")}},
	{user: "root", request: &pb.HashKVRequest{Revision: -1}},
}

// clear removes what earlier histories left: a failure is found again by its own steps.
func (p *player) clear(ctx context.Context) {
	everything := &pb.DeleteRangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	p.play(ctx, step{user: "root", request: everything})
	for id := range int64(4) {
		p.play(ctx, step{user: "root", request: &pb.LeaseRevokeRequest{ID: 7 + id}})
	}
	if len(p.tokens) > 0 {
		return
	}
	for _, name := range users {
		p.play(ctx, step{request: &pb.AuthUserDeleteRequest{Name: name}})
	}
	for _, name := range roles {
		p.play(ctx, step{request: &pb.AuthRoleDeleteRequest{Role: name}})
	}
}

// check draws histories and plays them.
func check(t *testing.T, s *stage, before []step, draw func(*rapid.T) step) {
	t.Helper()
	histories := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(draw), 5, 25), perCheck, perCheck)
	rapid.Check(t, func(rt *rapid.T) { s.play(rt, before, histories.Draw(rt, "histories")) })
}

func TestAVirtualServerAnswersAsARealOne(t *testing.T) {
	defaults(t, "100")
	check(t, newStage(t, embedded.Config{}), nil, drawOpen)
}

func TestAVirtualServerKnowsTheSameRights(t *testing.T) {
	defaults(t, "2")
	s := newStage(t, embedded.Config{})
	setUp := []step{{request: &pb.AuthRoleAddRequest{Name: "root"}}}
	for _, user := range []string{"root", "ann", "bob"} {
		setUp = append(setUp, step{request: &pb.AuthUserAddRequest{Name: user, Password: passwordOf(user)}})
	}
	setUp = append(setUp, step{request: &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}}, step{request: &pb.AuthEnableRequest{}})
	s.both(t.Context(), func(ctx context.Context, p *player) []string {
		for _, x := range setUp {
			if answer := p.play(ctx, x); !strings.HasPrefix(answer, "header") {
				t.Errorf("%#v: %s", x, answer)
			}
		}
		for _, user := range []string{"root", "ann", "bob"} {
			if _, err := p.logIn(ctx, user); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	right := func(role string, kind authpb.Permission_Type, key, end string) step {
		return step{user: "root", request: &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: &authpb.Permission{PermType: kind, Key: []byte(key), RangeEnd: []byte(end)}}}
	}
	before := []step{
		{user: "root", request: &pb.AuthUserAddRequest{Name: "ann", Password: passwordOf("ann")}}, {user: "root", request: &pb.AuthUserAddRequest{Name: "bob", Password: passwordOf("bob")}},
		{user: "root", request: &pb.AuthRoleAddRequest{Name: "reader"}}, {user: "root", request: &pb.AuthRoleAddRequest{Name: "writer"}},
		right("reader", authpb.Permission_READ, "a", "c0"), right("writer", authpb.Permission_READWRITE, "b", "c0"), right("writer", authpb.Permission_WRITE, "a", ""),
		{user: "root", request: &pb.AuthUserGrantRoleRequest{User: "ann", Role: "reader"}}, {user: "root", request: &pb.AuthUserGrantRoleRequest{User: "bob", Role: "writer"}},
		{user: "root", request: &pb.AuthUserGrantRoleRequest{User: "ann", Role: "writer"}},
	}
	check(t, s, before, drawRights)
}

// given are the flags of the command line.
var given = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { out[f.Name] = true })
	return out
})

// defaults sets what the command line does not: the same histories in each run.
func defaults(t *testing.T, checks string) {
	t.Helper()
	from := given() // before the first is set
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.seed": "1"} {
		if from[name] || from["rapid.failfile"] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
}
