package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/store/embedded"
)

// insideCommand makes this program the control plane, or etcd alone, and lets the driver look
// inside: bench inside ADDRESS controlplane ARGUMENTS, bench inside ADDRESS etcd DIR QUOTA.
const insideCommand = "inside"

// insideProfile is the variable of the environment that names a file for a profile of the CPU, from
// the start on.
const insideProfile = "BENCH_INSIDE_PROFILE"

// serveInside runs another program in this process until it ends.
func serveInside(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) < 2 {
		fmt.Fprintln(stderr, "bench inside: give an address and a program")
		return 2
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", args[0])
	if err != nil {
		fmt.Fprintln(stderr, "bench inside:", err)
		return 1
	}
	// Package virtual, which a world imports, makes the segments of etcd's log small.
	wal.SegmentSizeBytes = 64 * 1000 * 1000
	look := &inside{}
	if file := os.Getenv(insideProfile); file != "" {
		if err := look.begin(file); err != nil {
			fmt.Fprintln(stderr, "bench inside:", err)
			return 1
		}
	}
	server := &http.Server{Handler: look.handler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	switch name, args := args[1], args[2:]; name {
	case "controlplane":
		return boot.ControlPlaneMain(ctx, args, stdout, stderr)
	case "etcd":
		if err := etcdAlone(ctx, args, stdout); err != nil {
			fmt.Fprintln(stderr, "bench inside:", err)
			return 1
		}
		return 0
	default:
		fmt.Fprintf(stderr, "bench inside: there is no program %q\n", name)
		return 2
	}
}

// etcdAlone is an etcd without a control plane, until ctx ends.
func etcdAlone(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 2 {
		return errors.New("etcd needs a folder and a quota")
	}
	quota, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	etcd, err := embedded.Start(ctx, embedded.Config{
		Dir: args[0], ListenClient: "127.0.0.1:0", Quota: quota, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer etcd.Close()
	fmt.Fprintln(stdout, etcd.Endpoint())
	<-ctx.Done()
	return nil
}

// inside tells what only a process itself knows.
type inside struct {
	mu  sync.Mutex
	cpu *os.File
	// watched ends a watch of the heap, and gets the most that it had.
	watched chan chan uint64
}

func (i *inside) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, liveHeap()) })
	mux.HandleFunc("POST /watch", func(http.ResponseWriter, *http.Request) { i.watch() })
	mux.HandleFunc("POST /most", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i.most()) })
	mux.HandleFunc("POST /begin", func(w http.ResponseWriter, r *http.Request) { respond(w, i.begin(r.FormValue("file"))) })
	mux.HandleFunc("POST /end", func(w http.ResponseWriter, r *http.Request) { respond(w, i.end(r.FormValue("file"))) })
	return mux
}

func respond(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// liveHeap is what is in use after a collection, in bytes. What a pool holds survives one.
func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// watch looks at the heap each millisecond, until most is asked for.
func (i *inside) watch() {
	ended := make(chan chan uint64)
	i.mu.Lock()
	i.watched = ended
	i.mu.Unlock()
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		var most uint64
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case to := <-ended:
				to <- most
				return
			case <-tick.C:
			}
		}
	}()
}

// most is the most that the heap had while it was watched: what is in use, and what is not yet
// collected. In bytes.
func (i *inside) most() uint64 {
	i.mu.Lock()
	ended := i.watched
	i.mu.Unlock()
	to := make(chan uint64)
	ended <- to
	return <-to
}

// begin begins a profile of the CPU in a file.
func (i *inside) begin(file string) (err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cpu, err = os.Create(file); err != nil {
		return err
	}
	return pprof.StartCPUProfile(i.cpu)
}

// end ends the profile of the CPU, and writes one of the heap, with all that was allocated, into a
// file.
func (i *inside) end(file string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	pprof.StopCPUProfile()
	err := i.cpu.Close()
	heap, createErr := os.Create(file)
	if createErr != nil {
		return errors.Join(err, createErr)
	}
	runtime.GC()
	return errors.Join(err, pprof.Lookup("heap").WriteTo(heap, 0), heap.Close())
}

// askInside asks a process that serves inside at an address.
func askInside(ctx context.Context, address, what, file string) (string, error) {
	to := url.URL{Scheme: "http", Host: address, Path: what, RawQuery: url.Values{"file": {file}}.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", what, answer)
	}
	return string(answer), err
}

// liveIn is the live heap of a process that serves inside at an address.
func liveIn(ctx context.Context, address string) (int64, error) { return bytesIn(ctx, address, "live") }

// bytesIn asks such a process for a number of bytes.
func bytesIn(ctx context.Context, address, what string) (int64, error) {
	text, err := askInside(ctx, address, what, "")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// Profile says into which files a fleet profiles itself.
type Profile struct{ CPU, Heap string }

// BeginProfile begins a profile of the fleet's CPU.
func (r *Fleet) BeginProfile(to Profile, _ *None) error { return r.inside.begin(to.CPU) }

// EndProfile ends it, and writes one of the heap.
func (r *Fleet) EndProfile(to Profile, _ *None) error { return r.inside.end(to.Heap) }

// startProfiled starts the control plane, and profiles it until its API serves if that is asked for.
func (w *bench) startProfiled(ctx context.Context, name string) (time.Duration, error) {
	if w.profiles == "" {
		return w.server.start(ctx)
	}
	took, err := w.server.start(ctx, insideProfile+"="+filepath.Join(w.profiles, name+".server.cpu"))
	if err != nil {
		return took, err
	}
	_, err = askInside(ctx, w.inside, "end", filepath.Join(w.profiles, name+".server.heap"))
	return took, err
}

// profiled runs fn, and profiles server and fleet meanwhile if that is asked for: the files
// NAME.server.cpu, NAME.server.heap, NAME.fleet.cpu and NAME.fleet.heap are for go tool pprof.
func (w *bench) profiled(ctx context.Context, name string, fn func() error) (err error) {
	if w.profiles == "" {
		return fn()
	}
	file := func(of string) string { return filepath.Join(w.profiles, name+"."+of) }
	fleet := Profile{CPU: file("fleet.cpu"), Heap: file("fleet.heap")}
	if _, err := askInside(ctx, w.inside, "begin", file("server.cpu")); err != nil {
		return err
	}
	if err := w.fleet.do("BeginProfile", fleet); err != nil {
		return err
	}
	err = fn()
	_, endErr := askInside(ctx, w.inside, "end", file("server.heap"))
	return errors.Join(err, endErr, w.fleet.do("EndProfile", fleet))
}
