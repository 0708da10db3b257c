package process

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// User and Password of the administrator, of the API and of every OSCAR.
const (
	User     = "oscar"
	Password = "not-a-real-password"
)

// Config of a federation.
type Config struct {
	// Clusters are the ids; the first is the default cluster.
	Clusters []string
	// Canaries are service and bucket names that the test will use: each OSCAR gets a
	// foreign service and a foreign bucket under names that look like them.
	Canaries []string
	// Store is how the test itself reads etcd.
	Store *store.Store
	// Flags are given to a program after those that all have: how it reaches etcd, and
	// what the test wants of it. A program is named by ControlPlaneName, or by the id of
	// the cluster whose syncer it is.
	Flags func(program string) []string
	// Binary is the file of a program of another release, empty for one of this release; nil: all are.
	Binary func(program string) string
	// Workload has the jobs of each OSCAR run and end; without, they wait for ever.
	Workload *oscarsim.Workload
	// Machine is where a program runs; nil, and a nil one, is where the test does.
	Machine func(program string) Machine
	// OSCAR is put around each simulated OSCAR; nil for nothing.
	OSCAR func(next http.Handler) http.Handler
	// Ahead is how far the clock of a program is ahead.
	Ahead map[string]time.Duration
	// IdentityFile holds the control planes' key; default: a new one.
	IdentityFile string
	// Logs is a folder for the ends of the programs' logs when the test has failed;
	// default: they are in the test's own log.
	Logs string
}

// ControlPlaneName names one of several control planes.
func ControlPlaneName(k int) string { return fmt.Sprintf("control-plane-%d", k) }

// Federation is control planes and syncers in processes of their own, and simulated
// OSCARs in this one. It is safe for concurrent use.
type Federation struct {
	t            testing.TB
	cfg          Config
	passwordFile string
	oscars       map[string]*oscar

	mu       sync.Mutex
	programs map[string]*program
}

// oscar is a simulated OSCAR, and where the identity of its syncer is. What the syncer
// remembers is beside that.
type oscar struct {
	sim      *oscarsim.Sim
	url      string
	identity string
}

// program is a process, which may be the successor of others of its name.
type program struct {
	child *Child
	log   *Log
	// dir is where a control plane keeps what it knows of the store.
	dir string
	// address and api are those of a control plane that was ready once; they stay when it
	// is killed.
	address string
	api     *client.Client
}

// New makes the OSCARs, with canaries. It starts no process.
func New(t testing.TB, cfg Config) *Federation {
	t.Helper()
	f := &Federation{t: t, cfg: cfg, oscars: map[string]*oscar{}, programs: map[string]*program{}}
	dir := t.TempDir()
	f.passwordFile = filepath.Join(dir, "password")
	if err := os.WriteFile(f.passwordFile, []byte(Password), 0o600); err != nil {
		t.Fatal(err)
	}
	if cfg.IdentityFile == "" {
		f.cfg.IdentityFile = filepath.Join(dir, "identity.age")
		if _, err := seal.LoadOrCreate(f.cfg.IdentityFile); err != nil {
			t.Fatal(err)
		}
	}
	var sims []*oscarsim.Sim
	for _, id := range cfg.Clusters {
		sims = append(sims, f.addOSCAR(id))
	}
	if len(sims) > 0 {
		invariants.PlantCanaries(t, cfg.Canaries, sims...)
	}
	t.Cleanup(f.end)
	return f
}

func (f *Federation) addOSCAR(id string) *oscarsim.Sim {
	sim := oscarsim.New(oscarsim.Config{ClusterID: id, User: User, Password: Password, Workload: f.cfg.Workload})
	handler := sim.Handler()
	if f.cfg.OSCAR != nil {
		handler = f.cfg.OSCAR(handler)
	}
	server := httptest.NewServer(handler)
	f.t.Cleanup(func() {
		sim.Kill() // ends requests that hang, so that Close does not wait for them
		server.CloseClientConnections()
		server.Close()
	})
	f.oscars[id] = &oscar{sim: sim, url: server.URL, identity: filepath.Join(f.t.TempDir(), "identity.age")}
	return sim
}

// Start starts control planes, registers every cluster and starts its syncer, and waits
// until all are connected.
func (f *Federation) Start(ctx context.Context, controlPlanes int) error {
	for k := range controlPlanes {
		if _, err := f.StartControlPlane(ctx, ControlPlaneName(k), ""); err != nil {
			return err
		}
	}
	for _, id := range f.cfg.Clusters {
		if _, err := f.API(ControlPlaneName(0)).RegisterCluster(ctx, v1.ClusterSpec{ClusterID: id, Endpoint: f.URL(id)}); err != nil {
			return err
		}
		if err := f.StartSyncer(id, ""); err != nil {
			return err
		}
	}
	for _, id := range f.cfg.Clusters {
		if err := f.AwaitSyncer(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// StartControlPlane starts one in the place of the one of that name, to die at failAt
// unless that is empty. It answers nil for one that died there before it was ready.
func (f *Federation) StartControlPlane(ctx context.Context, name, failAt string) (*client.Client, error) {
	p := f.program(name)
	flags := []string{"--listen=127.0.0.1:0", "--metrics-listen=", "--identity-file=" + f.cfg.IdentityFile,
		"--data-dir=" + p.dir, "--admin-password-file=" + f.passwordFile, "--rate-limit=0", "--log-level=debug"}
	if len(f.cfg.Clusters) > 0 {
		flags = append(flags, "--default-cluster="+f.cfg.Clusters[0])
	}
	flags = append(flags, f.cfg.Flags(name)...)
	child, err := start(ControlPlane, launch{binary: f.binary(name), failAt: failAt, ahead: f.cfg.Ahead[name], log: p.log, machine: f.machine(name), args: flags})
	if err != nil {
		return nil, err
	}
	f.change(name, func(p *program) { p.child = child })
	line, err := child.Ready(ctx)
	if err != nil && failAt != "" {
		// It met its fail point before anybody could ask it; or it hangs.
		return nil, await.Try(ctx, name+" is killed at "+failAt, func() (bool, error) { return child.Killed(), nil })
	}
	if err != nil {
		return nil, err
	}
	address := "http://" + strings.TrimPrefix(line, "oscar-controlplane: API on ")
	api, err := client.New(client.Config{Endpoint: address, User: User, Password: Password, Tries: 1})
	if err != nil {
		return nil, err
	}
	f.change(name, func(p *program) { p.address, p.api = address, api })
	return api, nil
}

// StartSyncer starts the syncer of a cluster in the place of the one before, to die at
// failAt unless that is empty.
func (f *Federation) StartSyncer(id, failAt string, more ...string) error {
	o, p := f.oscars[id], f.program(id)
	flags := []string{"--cluster-id=" + id, "--metrics-listen=", "--oscar-endpoint=" + o.url, "--oscar-user=" + User,
		"--oscar-password-file=" + f.passwordFile, "--identity-file=" + o.identity, "--session-ttl=2s", "--late-window=2s", "--log-level=debug"}
	flags = slices.Concat(flags, f.cfg.Flags(id), more)
	child, err := start(Syncer, launch{binary: f.binary(id), failAt: failAt, ahead: f.cfg.Ahead[id], log: p.log, machine: f.machine(id), args: flags})
	if err != nil {
		return err
	}
	f.change(id, func(p *program) { p.child = child })
	return nil
}

func (f *Federation) binary(name string) string {
	if f.cfg.Binary == nil {
		return ""
	}
	return f.cfg.Binary(name)
}

func (f *Federation) machine(name string) Machine {
	if f.cfg.Machine == nil {
		return nil
	}
	return f.cfg.Machine(name)
}

// program is that of a name; a new one has a folder and a log, and no process yet.
func (f *Federation) program(name string) program {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.programs[name] == nil {
		f.programs[name] = &program{dir: f.t.TempDir(), log: &Log{}}
	}
	return *f.programs[name]
}

func (f *Federation) change(name string, fn func(*program)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(f.programs[name])
}

// end kills the programs.
func (f *Federation) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, p := range f.programs {
		switch {
		case p.child == nil:
		case f.cfg.Logs == "" || !f.t.Failed():
			end(f.t, name, p.child)
		default:
			p.child.Kill()
			if err := os.MkdirAll(f.cfg.Logs, 0o755); err != nil {
				f.t.Error(err)
			}
			if err := os.WriteFile(filepath.Join(f.cfg.Logs, name+".log"), []byte(p.log.String()), 0o644); err != nil {
				f.t.Error(err)
			}
		}
	}
}

// Child is the process of a program's name.
func (f *Federation) Child(name string) *Child { return f.program(name).child }

// API is a client of a control plane, of its predecessor while it is not ready, and nil
// when none was ready yet.
func (f *Federation) API(name string) *client.Client { return f.program(name).api }

// Address is where that API is.
func (f *Federation) Address(name string) string { return f.program(name).address }

// Hosts are host and port of the first n control planes.
func (f *Federation) Hosts(n int) []string {
	var out []string
	for k := range n {
		out = append(out, strings.TrimPrefix(f.Address(ControlPlaneName(k)), "http://"))
	}
	return out
}

// Sim is the OSCAR of a cluster.
func (f *Federation) Sim(id string) *oscarsim.Sim { return f.oscars[id].sim }

// URL is where a cluster's OSCAR is.
func (f *Federation) URL(id string) string { return f.oscars[id].url }
