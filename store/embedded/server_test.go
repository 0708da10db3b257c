package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg embedded.Config) (*embedded.Server, *clientv3.Client) {
	t.Helper()
	server := storetest.Start(t, cfg)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

func TestServerKeepsItsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	server, client := start(t, embedded.Config{Dir: dir})
	if _, err := client.Put(t.Context(), "/t/a", "1"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: mode %v, error %v", info.Mode(), err)
	}
	server.Close()
	server.Close() // again is harmless
	_, client = start(t, embedded.Config{Dir: dir})
	resp, err := client.Get(t.Context(), "/t/a")
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "1" {
		t.Errorf("after a restart: %v, error %v", resp, err)
	}
}

func TestOneServerPerDirectory(t *testing.T) {
	dir := t.TempDir()
	cfg := embedded.Config{Dir: dir, ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true, Logger: storetest.Logger(t)}
	first, err := embedded.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = embedded.Start(t.Context(), cfg)
	if !errors.Is(err, embedded.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second server: %v", err)
	}
	first.Close()
	second, err := embedded.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

func TestStartOnATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	cfg := embedded.Config{Dir: dir, ListenClient: l.Addr().String(), Fast: true, NoFsync: true, Logger: storetest.Logger(t)}
	if _, err := embedded.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("on a taken port: %v", err)
	}
	// Nothing is held by the start that failed.
	start(t, embedded.Config{Dir: dir})
}

func TestStartEndsWithItsContext(t *testing.T) {
	// The other member never comes, so this one is never ready.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := embedded.Start(ctx, embedded.Config{
		Dir: t.TempDir(), ListenClient: "127.0.0.1:0", Name: "a", ListenPeer: "http://127.0.0.1:0",
		InitialCluster: "a=http://127.0.0.1:0,b=http://127.0.0.1:1", NoFsync: true, Logger: slog.New(slog.DiscardHandler),
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A watch never ends by itself; etcd alone would wait some seconds and then break
// the connection. Here it is told why.
func TestCloseEndsWatches(t *testing.T) {
	server, client := start(t, embedded.Config{})
	watch, err := pb.NewWatchClient(client.ActiveConnection()).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte("/t/a")},
	}}); err != nil {
		t.Fatal(err)
	}
	if resp, err := watch.Recv(); err != nil || !resp.Created {
		t.Fatalf("%v, error %v", resp, err)
	}
	server.Close()
	if _, err := watch.Recv(); !errors.Is(rpctypes.Error(err), rpctypes.ErrStopped) {
		t.Errorf("the watch ended with: %v", err)
	}
	select {
	case err := <-server.Err():
		t.Errorf("an orderly end is told as %v", err)
	default:
	}
}

// A member that is alone opens no port but the clients', and serves neither
// profiles nor the JSON gateway anywhere.
func TestServerListensOnNothingElse(t *testing.T) {
	dir := t.TempDir()
	server, _ := start(t, embedded.Config{Dir: dir})
	var ports []string
	tcp, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	inodes := ownSockets(t)
	for line := range strings.SplitSeq(string(tcp), "\n") {
		f := strings.Fields(line)
		if len(f) > 9 && f[3] == "0A" && inodes[f[9]] { // listening
			var port int
			if _, err := fmt.Sscanf(f[1][strings.IndexByte(f[1], ':')+1:], "%X", &port); err != nil {
				t.Fatal(err)
			}
			ports = append(ports, fmt.Sprintf("http://127.0.0.1:%d", port))
		}
	}
	if len(ports) != 1 || ports[0] != server.Endpoint() {
		t.Errorf("listening on %v, the endpoint is %s", ports, server.Endpoint())
	}
	for path, want := range map[string]int{"/health": 200, "/metrics": 200, "/debug/pprof/": 404, "/v3/kv/range": 404} {
		if got := overSocket(t, filepath.Join(dir, "http.sock"), path); got != want {
			t.Errorf("%s answers %d, not %d", path, got, want)
		}
	}
}

func ownSockets(t *testing.T) map[string]bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]bool)
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			out[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return out
}

func overSocket(t *testing.T, socket, path string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := client.Get("http://etcd" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

// A path too long for a socket is no hindrance, and nothing of it stays.
func TestLongDataDirectory(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	server, client := start(t, embedded.Config{Dir: filepath.Join(t.TempDir(), strings.Repeat("long/", 30))})
	if _, err := client.Put(t.Context(), "/t/a", "1"); err != nil {
		t.Error(err)
	}
	server.Close()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestRetentionCompacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := virtual.NewNetwork(t, embedded.Config{Retention: time.Hour})
		s := n.Open(t, "test", store.Config{})
		var cfg store.Config
		n.Reach("test", &cfg)
		client, err := store.Dial(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		began := time.Now()
		for n := 0; ; n++ {
			if _, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
				tx.Put("/t/a", n)
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
			_, err := client.Get(t.Context(), "/t/a", clientv3.WithRev(2))
			after := time.Since(began)
			if err != nil && strings.Contains(err.Error(), "compacted") {
				if after < time.Hour {
					t.Errorf("compacted after %v", after)
				}
				return
			}
			if after > 2*time.Hour {
				t.Fatal("never compacted")
			}
			<-time.After(time.Minute)
		}
	})
}

// What etcd says at an ordinary start and end is no warning to anybody.
func TestServerIsQuiet(t *testing.T) {
	var out lines
	log := slog.New(slog.NewTextHandler(&out, nil))
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 {
		server, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, ListenClient: "127.0.0.1:0", Fast: true, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
	}
	for _, line := range out.all() {
		busy := func(word string) bool { return strings.Contains(line, word) }
		if !slices.ContainsFunc([]string{"took too long", "slow", "cannot campaign"}, busy) { // the machine may be
			t.Error(line)
		}
	}
}

// lines gathers a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(p))
	return len(p), nil
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

func TestConfigReportsAllProblems(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   embedded.Config
		wants []string
	}{
		"nothing":            {embedded.Config{}, []string{"data directory"}},
		"bad address":        {embedded.Config{Dir: "d", ListenClient: "here"}, []string{"host:port"}},
		"open to all":        {embedded.Config{Dir: "d", ListenClient: "0.0.0.0:2379"}, []string{"open to the network"}},
		"every interface":    {embedded.Config{Dir: "d", ListenClient: ":2379"}, []string{"open to the network"}},
		"half a certificate": {embedded.Config{Dir: "d", CertFile: "c"}, []string{"together"}},
		"no cluster":         {embedded.Config{Dir: "d", ListenPeer: "http://127.0.0.1:2380"}, []string{"together"}},
		"open peers": {embedded.Config{Dir: "d", ListenPeer: "http://10.0.0.1:2380", InitialCluster: "a=http://10.0.0.1:2380"},
			[]string{"peers", "open to the network"}},
		"several": {embedded.Config{ListenClient: "x", Quota: -1, KeyFile: "k"}, []string{"data directory", "host:port", "quota", "together"}},
	} {
		err := c.cfg.Validate()
		for _, want := range c.wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
		if _, err := embedded.Start(t.Context(), c.cfg); err == nil {
			t.Errorf("%s: started", name)
		}
	}
	for name, cfg := range map[string]embedded.Config{
		"the least":    {Dir: "d"},
		"certificates": {Dir: "d", ListenClient: "0.0.0.0:2379", CertFile: "c", KeyFile: "k", CAFile: "a"},
		"ipv6":         {Dir: "d", ListenClient: "[::1]:0"},
	} {
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
