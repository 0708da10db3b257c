//go:build linux

package runbook_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/machines"
)

const (
	// trusted has the authority of all servers, on each machine.
	trusted = "/etc/ssl/certs/ca-certificates.crt"
	// password is that of the administrator and of all OSCARs.
	password = "not-a-real-password"
	// certified is how long certificates are valid.
	certified = 24 * time.Hour
)

// site is machines with names, and OSCARs at the names that the page has.
type site struct {
	*runbook
	network   *machines.Network
	authority *pki.Authority
	hosts     map[string]*host
	oscars    map[string]*oscarsim.Sim
	// system is the address that systemctl asks at.
	system string
}

// newSite makes a machine for each name.
func newSite(t *testing.T, names ...string) *site {
	t.Helper()
	s := &site{runbook: open(t), network: machines.NewNetwork(t), hosts: map[string]*host{}, oscars: map[string]*oscarsim.Sim{}}
	dir := t.TempDir()
	var err error
	if s.authority, err = pki.LoadOrCreate(dir, "the site's authority", time.Now); err != nil {
		t.Fatal(err)
	}
	s.startOSCARs("a", "d")
	listener := s.listen(0)
	s.serve(listener, serveSystem(t, s.hosts))
	s.system = "http://" + listener.Addr().String()
	for _, name := range names {
		h := &host{Machine: s.network.Machine(disk), s: s, name: name, services: map[string]*service{}}
		h.Root(slices.Collect(maps.Keys(programs()))...)
		s.hosts[name] = h
	}
	keygen, etcdctl := buildKeygen(t), tool(t, "etcdctl")
	for _, h := range s.hosts {
		h.Program("age-keygen", keygen)
		h.Program("etcdctl", etcdctl)
		h.write("/etc/hosts", []byte(s.names()), "root")
		h.write("/etc/passwd", []byte(s.passwd()), "root")
		h.write("/etc/group", []byte(s.passwd()), "root")
		h.write(trusted, s.authority.CertPEM(), "root")
		h.write(work+"/ca.crt", s.authority.CertPEM(), "root")
		for _, file := range []string{"/etc/hosts", "/etc/passwd", "/etc/group", trusted, work + "/ca.crt"} {
			if err := os.Chmod(filepath.Join(h.Disk(), file), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(h.end)
	}
	return s
}

// tool is a program that tools/tool.sh builds.
func tool(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../tools/tool.sh", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// buildKeygen builds age's program for keys.
func buildKeygen(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "age-keygen")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", file, "filippo.io/age/cmd/age-keygen")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build age-keygen: %v\n%s", err, out)
	}
	return file
}

// users are those of the services, by their numbers.
var users = map[string]int{"oscarfed": 4001, "etcd": 4002}

// user is the number of a user: root's, where there is no other.
func (s *site) user(name string) int {
	if id := users[name]; machines.Users(id) {
		return id
	}
	return 0
}

// passwd has all users, and is read as the file of groups, too.
func (s *site) passwd() string {
	out := "root:x:0:0::/root:/bin/bash\n"
	for name := range users {
		out += fmt.Sprintf("%s:x:%d:%[2]d::%s:/bin/bash\n", name, s.user(name), work)
	}
	return out
}

// fqdn is the name that others use of a machine.
func fqdn(name string) string {
	if strings.HasPrefix(name, "etcd-") {
		return name
	}
	return name + ".example.org"
}

// names is the file of hosts. The OSCAR beside a machine of its name is the first of that name.
func (s *site) names() string {
	out := "127.0.0.1 localhost\n"
	for letter := range s.oscars {
		out += s.network.Address() + " " + oscarName(letter) + "\n"
	}
	for name, h := range s.hosts {
		out += h.Address() + " " + fqdn(name) + "\n"
	}
	return out
}

func oscarName(letter string) string { return "oscar-" + letter + ".example.org" }

// certificate is one for names, and its key.
func (s *site) certificate(names ...string) []byte {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "server.pem")
	if _, err := s.authority.Server(pki.ServerConfig{File: file, Hosts: names, Life: certified, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		s.t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// startOSCARs simulates one for each letter, behind one address and their names.
func (s *site) startOSCARs(letters ...string) {
	s.t.Helper()
	var names []string
	handlers := map[string]http.Handler{}
	for _, letter := range letters {
		sim := oscarsim.New(oscarsim.Config{ClusterID: cluster(letter), User: "oscar", Password: password})
		s.t.Cleanup(sim.Kill)
		s.oscars[letter] = sim
		names = append(names, oscarName(letter))
		handlers[oscarName(letter)] = sim.Handler()
	}
	pem := s.certificate(names...)
	certificate, err := tls.X509KeyPair(pem, pem)
	if err != nil {
		s.t.Fatal(err)
	}
	s.serve(tls.NewListener(s.listen(443), &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler, ok := handlers[r.Host]
			if !ok {
				http.Error(w, r.Host+" is not here", http.StatusMisdirectedRequest)
				return
			}
			handler.ServeHTTP(w, r)
		}))
}

func cluster(letter string) string { return "oscar-cluster-" + letter }

func (s *site) listen(port int) net.Listener {
	s.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", fmt.Sprintf("%s:%d", s.network.Address(), port))
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *site) serve(l net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(l) }()
	s.t.Cleanup(func() { _ = server.Close() })
}

// apply has a federation created or changed: NAME0 on the first of these clusters, NAME1 on the next.
func (h *host) apply(name, memory string, letters ...string) {
	h.s.t.Helper()
	definition := fmt.Sprintf(`functions:
  oscar:
    - %s:
        name: %s0
        image: ghcr.io/grycap/imagemagick
        cpu: "0.1"
        memory: %s
        script: script.sh
        federation:
          topology: mesh
          members:
`, cluster(letters[0]), name, memory)
	for i, letter := range letters[1:] {
		definition += fmt.Sprintf("            - {type: oscar, cluster_id: %s, service_name: %s%d}\n", cluster(letter), name, i+1)
	}
	if len(letters) == 1 {
		definition, _, _ = strings.Cut(definition, "        federation:")
	}
	h.write(work+"/"+name+".yaml", []byte(definition), "root")
	h.write(work+"/script.sh", []byte("true\n"), "root")
	h.run("oscarfed apply -f " + name + ".yaml\n")
}

// asked is what a command prints as JSON, until it is what is waited for.
func asked[T any](h *host, what, command string, ok func(T) bool) {
	h.s.t.Helper()
	var last string
	defer func() {
		if h.s.t.Failed() {
			h.s.t.Log(what, last)
		}
	}()
	await.Until(h.s.t, what, func() bool {
		out, err := h.try(h.s.t.Context(), command+" -o json\n")
		var got T
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		last = fmt.Sprint(out, err)
		return err == nil && ok(got)
	})
}

// federation is the machine of the control plane, on which the operator works.
const federation = "federation"

// install makes the control plane a service, as a command of the page starts it.
func (h *host) install(command string) {
	h.s.t.Helper()
	h.profile = "export OSCARFED_ENDPOINT=https://federation.example.org:8443 OSCARFED_PASSWORD_FILE=admin-password\n"
	certificate := h.s.certificate(fqdn(h.name))
	h.write(work+"/admin-password", []byte(password), "oscarfed")
	h.write(work+"/api.crt", certificate, "oscarfed")
	h.write(work+"/api.key", certificate, "oscarfed")
	h.run("install -d -o oscarfed -g oscarfed /var/lib/oscarfed\n")
	h.unit("oscar-controlplane", "oscarfed", "exec "+command)
}

// start starts the control plane, and waits until it answers.
func (h *host) start() {
	h.s.t.Helper()
	h.run("systemctl start oscar-controlplane\n")
	asked(h, "the control plane answers", "oscarfed whoami", func(v1.WhoAmI) bool { return true })
}

// join starts the syncer that a printed command starts, and waits until its cluster is connected.
func (s *site) join(letter, command string) {
	s.t.Helper()
	h := s.hosts["oscar-"+letter]
	h.write(work+"/oscar-password", []byte(password), "root")
	h.unit("oscar-syncer", "root", "exec "+command)
	h.run("mkdir -p /var/lib/oscarfed\nsystemctl start oscar-syncer\n")
	s.hosts[federation].joined(letter)
}

// joined waits until a cluster is connected.
func (h *host) joined(letter string) {
	h.s.t.Helper()
	asked(h, cluster(letter)+" is connected", "oscarfed get clusters", func(all []struct {
		ClusterID string `json:"cluster_id"`
		Alive     bool   `json:"alive"`
	}) bool {
		for _, c := range all {
			if c.ClusterID == cluster(letter) {
				return c.Alive
			}
		}
		return false
	})
}

// differences waits until these are listed after a restore.
func (h *host) differences(want ...string) {
	h.s.t.Helper()
	slices.Sort(want)
	asked(h, fmt.Sprintf("the differences are %q", want), "oscarfed describe", func(all v1.Differences) bool {
		var got []string
		for _, d := range all.Differences {
			got = append(got, fmt.Sprintf("%s/%s %s", d.ClusterID, d.ServiceName, d.Kind))
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}
