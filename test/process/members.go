package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/test/await"
)

// etcdMain is one member of an etcd cluster: its folder, name, client address,
// peer URL, the URL that the others reach it by and the initial cluster are the
// arguments, and the files of its certificate and of the authority for TLS.
func etcdMain(ctx context.Context, args []string) int {
	cfg := embedded.Config{Dir: args[0], Name: args[1], ListenClient: args[2], ListenPeer: args[3], AdvertisePeer: args[4], InitialCluster: args[5]}
	if len(args) > 6 {
		cfg.CertFile, cfg.KeyFile, cfg.CAFile = args[6], args[6], args[7]
	}
	s, err := embedded.Start(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, "ready")
	select {
	case err := <-s.Err():
		fmt.Fprintln(os.Stderr, err)
		return 1
	case <-ctx.Done():
		s.Close()
		return 0
	}
}

// Members is an etcd cluster of several processes.
type Members struct {
	t        testing.TB
	scheme   string
	args     [][]string
	machines []Machine
	procs    []*Child
}

// StartMembers starts a cluster of n members. via, when it is not nil, gives the
// address by which the others reach a member that listens at an address.
func StartMembers(t testing.TB, n int, via func(listen string) string) *Members {
	t.Helper()
	return startMembers(t, n, "http", via)
}

// StartSecureMembers starts a cluster of n members whose clients show certificates. The
// file of their own holds its key, too.
func StartSecureMembers(t testing.TB, n int, certFile, caFile string) *Members {
	t.Helper()
	return startMembers(t, n, "https", nil, certFile, caFile)
}

// Place is where one member of an etcd cluster is.
type Place struct {
	Machine Machine
	// Address is the machine's, Disk a folder there.
	Address, Disk string
}

// StartMembersOn starts a cluster with a member on each of these machines. The file of their own
// holds its key, too.
func StartMembersOn(t testing.TB, places []Place, certFile, caFile string) *Members {
	t.Helper()
	m := &Members{t: t, scheme: "https"}
	var initial []string
	for i, p := range places {
		peer := "https://" + p.Address + ":2380"
		initial = append(initial, fmt.Sprintf("m%d=%s", i, peer))
		m.args = append(m.args, []string{p.Disk + "/etcd", fmt.Sprintf("m%d", i), p.Address + ":2379", peer, peer})
		m.machines = append(m.machines, p.Machine)
	}
	if err := m.start(initial, certFile, caFile); err != nil {
		t.Fatal(err)
	}
	return m
}

// startMembers starts members anew at other ports when somebody took one between its choice and its use.
func startMembers(t testing.TB, n int, scheme string, via func(listen string) string, files ...string) *Members {
	t.Helper()
	for {
		m, initial := newMembers(t, n, scheme, via)
		err := m.start(initial, files...)
		if err == nil {
			return m
		}
		if !portTaken(err) {
			t.Fatal(err)
		}
	}
}

// portTaken says whether a program ended since another one listens where it should.
func portTaken(err error) bool { return strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) }

func newMembers(t testing.TB, n int, scheme string, via func(listen string) string) (m *Members, initial []string) {
	t.Helper()
	m = &Members{t: t, scheme: scheme, machines: make([]Machine, n)}
	ports := freePorts(t, 2*n)
	for i := range n {
		listen := fmt.Sprintf("127.0.0.1:%d", ports[n+i])
		reached := listen
		if via != nil {
			reached = via(listen)
		}
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, reached))
		m.args = append(m.args, []string{
			t.TempDir() + "/etcd", fmt.Sprintf("m%d", i), fmt.Sprintf("127.0.0.1:%d", ports[i]), "http://" + listen, "http://" + reached,
		})
	}
	return m, initial
}

// start starts all members, and waits until they run. After an error none does.
func (m *Members) start(initial []string, files ...string) (err error) {
	m.t.Helper()
	defer func() {
		if err != nil {
			for _, p := range m.procs {
				p.Kill()
			}
		}
	}()
	for i := range m.args {
		m.args[i] = append(append(m.args[i], strings.Join(initial, ",")), files...)
		c, err := start(Etcd, launch{args: m.args[i], machine: m.machines[i]})
		if err != nil {
			return err
		}
		m.procs = append(m.procs, c)
	}
	// A member is ready only when most of them run: one that has ended says why, whichever it is.
	var ready errgroup.Group
	waiting, stop := context.WithCancelCause(m.t.Context())
	defer stop(nil)
	for _, p := range m.procs {
		ready.Go(func() error {
			_, err := p.Ready(waiting)
			if err != nil {
				stop(err) // the others tell it, too
			}
			return err
		})
	}
	if err := ready.Wait(); err != nil {
		return err
	}
	// One clean-up for all, the restarted ones too: what is registered after this
	// one, such as the check of the promises, still finds them alive.
	m.t.Cleanup(func() {
		for i, p := range m.procs {
			end(m.t, fmt.Sprintf("etcd member %d", i), p)
		}
	})
	return nil
}

// Addresses are where the members listen for clients.
func (m *Members) Addresses() []string {
	var out []string
	for _, a := range m.args {
		out = append(out, a[2])
	}
	return out
}

// Endpoints are the members' client URLs.
func (m *Members) Endpoints() []string {
	var out []string
	for _, a := range m.Addresses() {
		out = append(out, m.scheme+"://"+a)
	}
	return out
}

// Child is the process of a member.
func (m *Members) Child(i int) *Child { return m.procs[i] }

// Kill ends one member by SIGKILL.
func (m *Members) Kill(i int) { m.procs[i].Kill() }

// Restart starts a member again that was killed, on what it had written. While another process has its port,
// it is tried again.
func (m *Members) Restart(i int) error {
	return await.Try(m.t.Context(), fmt.Sprintf("etcd member %d has its port", i), func() (bool, error) {
		c, err := start(Etcd, launch{log: m.procs[i].Log(), args: m.args[i], machine: m.machines[i]})
		if err != nil {
			return false, err
		}
		m.procs[i] = c
		_, err = c.Ready(m.t.Context())
		if err != nil && portTaken(err) && c.Ended() {
			return false, nil
		}
		return err == nil, err
	})
}

// freePorts finds ports that were free a moment ago. Members of an etcd cluster
// must know each other's before they start.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}
