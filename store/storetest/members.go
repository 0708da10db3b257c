package storetest

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/store/embedded"
)

// StartMembers starts one cluster of n members in this process. The end of the
// test closes them; closing one before is a failure that the others must bear.
// with changes the settings of each.
func StartMembers(t testing.TB, n int, with ...func(*embedded.Config)) []*embedded.Server {
	t.Helper()
	// Members must know each other's ports before they listen. Another process may take a port in
	// between: then all of it is done once more.
	for {
		members, err := startMembers(t, n, with)
		if err == nil {
			return members
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// freePeers returns URLs of n free ports, different ones since all are open at once.
func freePeers(n int) ([]string, error) {
	peers := make([]string, n)
	for i := range peers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		peers[i] = "http://" + l.Addr().String()
	}
	return peers, nil
}

func startMembers(t testing.TB, n int, with []func(*embedded.Config)) ([]*embedded.Server, error) {
	peers, err := freePeers(n)
	if err != nil {
		return nil, err
	}
	cluster, dirs := make([]string, n), make([]string, n)
	for i, peer := range peers {
		cluster[i] = fmt.Sprintf("m%d=%s", i, peer)
		dirs[i] = filepath.Join(t.TempDir(), "etcd")
	}
	members := make([]*embedded.Server, n)
	// A member is ready only when most of them run.
	start, ctx := errgroup.WithContext(t.Context())
	for i := range n {
		start.Go(func() (err error) {
			cfg := embedded.Config{
				Dir:            dirs[i],
				Name:           fmt.Sprintf("m%d", i),
				ListenClient:   "127.0.0.1:0",
				ListenPeer:     peers[i],
				InitialCluster: strings.Join(cluster, ","),
				NoFsync:        true,
				Logger:         Logger(t),
			}
			for _, set := range with {
				set(&cfg)
			}
			members[i], err = embedded.Start(ctx, cfg)
			return err
		})
	}
	err = start.Wait()
	for _, m := range members {
		if m == nil {
			continue
		}
		if err == nil {
			t.Cleanup(m.Close)
		} else {
			m.Close()
		}
	}
	return members, err
}

// Endpoints are the client URLs of members.
func Endpoints(members []*embedded.Server) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = m.Endpoint()
	}
	return out
}
