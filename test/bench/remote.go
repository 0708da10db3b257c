package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// fleetCommand makes this program a fleet, which takes its orders on standard
// input until that ends.
const fleetCommand = "fleet"

// Fleet is what a driver may ask of a fleet in another process.
type Fleet struct {
	fleet  *fleet
	inside inside
}

// None stands for no argument and no answer.
type None struct{}

// Start starts clusters and returns when all are ready.
func (r *Fleet) Start(in FleetStart, _ *None) error { return r.fleet.start(in) }

// Room lets so many pods onto each cluster.
func (r *Fleet) Room(pods int64, _ *None) error {
	r.fleet.room(pods)
	return nil
}

// Stop ends all syncers.
func (r *Fleet) Stop(None, *None) error { return r.fleet.stop() }

// Cut closes every connection to etcd and lets none be made, or ends that.
func (r *Fleet) Cut(cut bool, _ *None) error {
	if cut {
		r.fleet.link.Cut()
	} else {
		r.fleet.link.Heal()
	}
	return nil
}

// Lost returns when no syncer holds a session any more.
func (r *Fleet) Lost(None, *None) error {
	return r.fleet.until("no syncer has a session", func() bool { return r.fleet.ready() == 0 })
}

// Connected returns when every syncer holds its session and follows etcd.
func (r *Fleet) Connected(n int, _ *None) error {
	return r.fleet.until("all syncers are connected", func() bool { return r.fleet.ready() == n })
}

// Lists counts the lists of each OSCAR so far.
func (r *Fleet) Lists(_ None, out *map[int]int) error {
	*out = r.fleet.lists()
	return nil
}

// Kept is how many refresh tokens all syncers keep.
func (r *Fleet) Kept(_ None, out *int) error {
	*out = r.fleet.kept()
	return nil
}

// Compared returns when every OSCAR was listed more often than it says.
func (r *Fleet) Compared(since map[int]int, _ *None) error { return r.fleet.compared(since) }

// StartBare and StopBare run the bare clients of a relay.
func (r *Fleet) StartBare(in BareStart, _ *None) error { return r.fleet.startBare(in) }

// StopBare ends them.
func (r *Fleet) StopBare(None, *None) error {
	r.fleet.stopBare()
	return nil
}

// BareReconnect measures the floor of a reconnection.
func (r *Fleet) BareReconnect(in BareStart, out *time.Duration) (err error) {
	*out, err = r.fleet.bareReconnect(in.Etcd, in.To-in.From)
	return err
}

// Tidy gives memory back, so that what is there is in use.
func (r *Fleet) Tidy(None, *None) error {
	debug.FreeOSMemory()
	return nil
}

// serveFleet is the fleet's process.
func serveFleet(ctx context.Context, in io.Reader, out, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &fleet{ctx: ctx, link: world.NewLink(world.Loopback{}), clusters: map[int]*member{}}
	server := rpc.NewServer()
	if err := server.Register(&Fleet{fleet: f}); err != nil {
		fmt.Fprintln(stderr, "bench fleet:", err)
		return 1
	}
	server.ServeCodec(jsonrpc.NewServerCodec(stdio{in, out}))
	cancel()
	return 0
}

// stdio is a connection over two streams.
type stdio struct {
	io.Reader
	io.Writer
}

// Close implements io.Closer; the streams end with the process.
func (stdio) Close() error { return nil }

// remote is a fleet in another process.
type remote struct {
	*rpc.Client
	cmd *exec.Cmd
	in  io.Closer
}

// newRemote starts the process. It yields, or not, to the control plane: elsewhere syncers and OSCARs are on
// machines of their own.
func newRemote(yields bool) (*remote, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := []string{self, fleetCommand}
	if yields {
		command = append([]string{"nice", "-n", "10"}, command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GOGC=200", "GOMEMLIMIT=off") // elsewhere each has a small heap
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &remote{Client: jsonrpc.NewClient(stdio{out, in}), cmd: cmd, in: in}, nil
}

// do asks and waits for the answer.
func (r *remote) do(method string, in any) error {
	if err := r.Call("Fleet."+method, in, &None{}); err != nil {
		return fmt.Errorf("fleet: %s: %w", method, err)
	}
	return nil
}

func (r *remote) usage() (usage, error) { return usageOf(r.cmd.Process.Pid) }

// close ends the process: its input ends, and with it all that it runs.
func (r *remote) close() error {
	err := r.in.Close()
	limit := time.AfterFunc(await.Limit, func() { _ = r.cmd.Process.Kill() })
	defer limit.Stop()
	return errors.Join(err, r.cmd.Wait())
}
