//go:build linux

package runbook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/machines"
	"github.com/oscarfed/oscarfed/test/process"
)

const (
	// disk is that of each machine, in bytes.
	disk = 1 << 30
	// work is the folder in which the operator and the services work.
	work = "/etc/oscarfed"
	// logShown in bytes are in the error about a service.
	logShown = 6000
)

// host is a machine on which blocks of the page are run, by root.
type host struct {
	*machines.Machine
	s    *site
	name string
	// profile is run before each script of the operator.
	profile string

	mu       sync.Mutex
	services map[string]*service
}

// service is what systemd runs of a unit.
type service struct {
	user, script string
	child        *process.Child
	log          *process.Log
}

// unit makes a service, which systemctl starts and stops.
func (h *host) unit(name, user, script string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, ok := h.services[name]; ok {
		before.user, before.script = user, script
		return
	}
	h.services[name] = &service{user: user, script: script, log: &process.Log{}}
}

// systemctl does what its arguments say.
func (h *host) systemctl(verb, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	u, ok := h.services[name]
	if !ok {
		return fmt.Errorf("unit %s is not there", name)
	}
	running := u.child != nil && !u.child.Ended()
	if verb != "start" && running {
		// As for systemd, a program that dies of SIGTERM has stopped: etcd does.
		_ = syscall.Kill(u.child.Pid(), syscall.SIGTERM)
		err := await.Try(context.Background(), name+" has stopped", func() (bool, error) { return u.child.Ended(), nil })
		if err != nil {
			return err
		}
		running = false
	}
	if verb == "stop" || running {
		return nil
	}
	command := []string{"/bin/bash", "-e", "-c", "cd " + work + "\n" + u.script}
	if h.s.user(u.user) != 0 {
		command = append([]string{"/usr/bin/setpriv", "--reuid=" + u.user, "--regid=" + u.user, "--clear-groups"}, command...)
	}
	var err error
	u.child, err = process.Run(process.Command{Path: command[0], Args: command[1:], Env: h.environment(), Machine: h.Machine, Log: u.log})
	return err
}

// kill ends a service by SIGKILL.
func (h *host) kill(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.services[name].child.Kill()
}

func (h *host) environment() []string {
	return []string{
		"PATH=" + machines.Programs + ":/usr/bin:/bin", "HOME=" + machines.Home, "HOSTNAME=" + h.name,
		"SSL_CERT_FILE=" + trusted, "OSCARFED_KUBERNETES=off", systemVar + "=" + h.s.system + "/" + h.name,
	}
}

// run runs a script as the operator would, and gives its standard output. A command that fails ends it, and the test.
func (h *host) run(script string) string {
	h.s.t.Helper()
	out, err := h.try(h.s.t.Context(), script)
	if err != nil {
		h.s.t.Fatalf("on %s:\n%s%v", h.name, script, err)
	}
	return out
}

// try runs a script, and gives its standard output. The error has all that it wrote.
func (h *host) try(ctx context.Context, script string) (string, error) {
	var out await.Output
	err := h.begin(ctx, script, &out)()
	return out.String(), err
}

// begin starts a script. What it gives waits for the end.
func (h *host) begin(ctx context.Context, script string, out *await.Output) (end func() error) {
	cmd := exec.CommandContext(ctx, "/bin/bash", "-e", "-o", "pipefail", "-c", "cd "+work+"\n"+h.profile+script)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errs
	cmd.Env = append(os.Environ(), h.environment()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	started, err := h.Take(cmd)
	if err == nil {
		err = cmd.Start()
		started()
	}
	return func() error {
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			return fmt.Errorf("%w\n%s%s", err, out.String(), errs.String())
		}
		return nil
	}
}

// write puts a file on the machine, for its owner alone.
func (h *host) write(path string, data []byte, user string) {
	h.s.t.Helper()
	at := filepath.Join(h.Disk(), path)
	err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, data, 0o600), os.Chown(at, h.s.user(user), h.s.user(user)))
	if err != nil {
		h.s.t.Fatal(err)
	}
}

// read is a file of the machine.
func (h *host) read(path string) []byte {
	h.s.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.Disk(), path))
	if err != nil {
		h.s.t.Fatal(err)
	}
	return data
}

// end ends all that systemd runs, and shows it when the test has failed.
func (h *host) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, u := range h.services {
		if u.child == nil {
			continue
		}
		u.child.Kill()
		if h.s.t.Failed() {
			h.s.t.Logf("%s on %s:\n%s", name, h.name, u.log.Tail(logShown))
		}
	}
}

// systemVar is where systemctl asks: the test, for one machine.
const systemVar = "RUNBOOK_SYSTEM"

// serveSystem answers systemctl, and holds the connections of programs, which end when the test does.
func serveSystem(t testing.TB, hosts map[string]*host) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{host}/{verb}/{unit}", func(w http.ResponseWriter, r *http.Request) {
		h, ok := hosts[r.PathValue("host")]
		if !ok {
			http.Error(w, "there is no such machine", http.StatusNotFound)
			return
		}
		verb, name := r.PathValue("verb"), r.PathValue("unit")
		t.Logf("%s: systemctl %s %s", h.name, verb, name)
		if err := h.systemctl(verb, name); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// systemctl asks the test.
func systemctl(args []string) int {
	err := func() error {
		if len(args) != 2 || !strings.Contains(" start stop restart ", " "+args[0]+" ") {
			return fmt.Errorf("usage: systemctl start | stop | restart UNIT, not %q", args)
		}
		resp, err := http.Post(os.Getenv(systemVar)+"/"+args[0]+"/"+args[1], "", nil)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			var text bytes.Buffer
			_, err = text.ReadFrom(resp.Body)
			return errors.Join(errors.New(text.String()), err)
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "systemctl:", err)
		return 1
	}
	return 0
}
