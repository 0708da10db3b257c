package cli

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/account"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/version"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// patient is an API that the doctor looks at; a test makes it ill.
type patient struct {
	health, date string
	status       int
	info         v1.Info
	login        v1.Login
	clusters     []v1.Cluster
	refuse       bool
}

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.date != "" {
		w.Header().Set("Date", p.date)
	}
	var answer any
	switch r.URL.Path {
	case "/health":
		w.WriteHeader(p.status)
		_, _ = w.Write([]byte(p.health))
		return
	case "/system/whoami":
		if p.refuse {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer = v1.WhoAmI{Subject: "cluster_admin", Administrator: true, Rights: []string{v1.RightAll}}
	case "/system/login":
		answer = p.login
	case "/system/info":
		answer = p.info
	case "/system/clusters":
		answer = p.clusters
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// TestDoctor: a federation in order has no warning, and each thing that is not has one line that says
// what to do.
func TestDoctor(t *testing.T) {
	i := issuer.New(t, "")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	site := func() v1.Cluster {
		return v1.Cluster{ClusterID: "site", UID: "u", State: "active", Alive: true, Stream: true, OscarVersion: "v4.1.2", SyncerVersion: version.Get().Version, MinioEndpoint: i.URL}
	}
	for name, c := range map[string]struct {
		change func(*patient)
		// want is "result check found" in parts, and the status.
		want   []string
		status int
	}{
		"in order":        {func(*patient) {}, nil, exit.Done},
		"short of space":  {func(p *patient) { p.health, p.info.Etcd.Space = "Ok, but etcd is short of space", "short" }, []string{"warn health etcd is short", "warn etcd space is short"}, exit.Done},
		"no space":        {func(p *patient) { p.info.Etcd.Space = "full" }, []string{"fail etcd it has no space"}, exit.Failed},
		"not finished":    {func(p *patient) { p.info.UpgradeUnfinished = true }, []string{"warn upgrade it is not finished"}, exit.Done},
		"starting":        {func(p *patient) { p.health, p.status = "the store is away", 503 }, []string{"fail health the store is away"}, exit.Failed},
		"another server":  {func(p *patient) { p.status = 404 }, []string{"fail health no control plane"}, exit.Failed},
		"wrong clock":     {func(p *patient) { p.date = "Mon, 02 Jan 2006 15:04:05 GMT" }, []string{"warn clock that of the control plane differs"}, exit.Done},
		"not let in":      {func(p *patient) { p.refuse = true }, []string{"fail login "}, exit.Failed},
		"another version": {func(p *patient) { p.info.OscarfedVersion = "v9.9.9" }, []string{"warn version the control plane is v9.9.9", "warn cluster site its syncer is"}, exit.Done},
		"issuer is away":  {func(p *patient) { p.login.Issuers[0].Issuer = gone.URL }, []string{"fail issuer "}, exit.Failed},
		"no client":       {func(p *patient) { p.login.Issuers[0].ClientID = "" }, []string{"warn issuer "}, exit.Done},
		"cluster is away": {func(p *patient) { p.clusters[0].Alive = false }, []string{"fail cluster site its syncer"}, exit.Failed},
		"cluster is ill":  {func(p *patient) { p.clusters[0].Reason, p.clusters[0].Message = "OscarUnreachable", "no route" }, []string{"fail cluster site OscarUnreachable: no route"}, exit.Failed},
		"cluster paused":  {func(p *patient) { p.clusters[0].State = "paused" }, []string{"warn cluster site it is paused"}, exit.Done},
		"no stream":       {func(p *patient) { p.clusters[0].Stream = false }, []string{"warn cluster site no stream"}, exit.Done},
		"OSCAR is hidden": {func(p *patient) { p.clusters[0].SSLVerify, p.clusters[0].Endpoint = true, gone.URL }, []string{"warn cluster site from here"}, exit.Done},
		"an older syncer": {func(p *patient) { p.clusters[0].SyncerVersion = "v0.1.0" }, []string{"warn cluster site its syncer is v0.1.0"}, exit.Done},
		"rights lack":     {func(p *patient) { p.clusters[0].DeniedRights = []string{"pods: list, watch"} }, []string{"warn cluster site its syncer may not, in Kubernetes: pods: list, watch"}, exit.Done},
		"MinIO is hidden": {func(p *patient) { p.clusters[0].MinioEndpoint = gone.URL }, []string{"warn cluster site storage from here"}, exit.Done},
		"no MinIO":        {func(p *patient) { p.clusters[0].MinioEndpoint = "" }, []string{"warn cluster site storage its OSCAR does not say"}, exit.Done},
		"no cluster":      {func(p *patient) { p.clusters = []v1.Cluster{} }, []string{"warn clusters none"}, exit.Done},
	} {
		t.Run(name, func(t *testing.T) {
			p := &patient{
				health: "Ok", status: 200, clusters: []v1.Cluster{site()}, login: v1.Login{Issuers: []v1.LoginIssuer{{Issuer: i.URL, ClientID: "cli"}}},
				info: v1.Info{OscarfedVersion: version.Get().Version, Etcd: &v1.EtcdSpace{Space: "ok"}},
			}
			c.change(p)
			server := httptest.NewServer(p)
			defer server.Close()
			status, checks, stderr := examine(t, "--endpoint", server.URL)
			if status != c.status {
				t.Errorf("status %d, want %d: %s", status, c.status, stderr)
			}
			var got []string
			for _, line := range checks {
				if line.Result == account.CheckOK {
					continue
				}
				got = append(got, line.Result+" "+line.Check+" "+line.Found)
				if line.Do == "" && line.Check != "etcd" { // the API advises for etcd
					t.Errorf("nothing is said of what to do: %+v", line)
				}
			}
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for n, want := range c.want {
				if !strings.HasPrefix(got[n], want) {
					t.Errorf("got %q, want %q", got[n], want)
				}
			}
		})
	}
}

// What somebody has ordered is no fault: the check says how it ends.
func TestDoctorSaysHowAPauseOfAClusterEnds(t *testing.T) {
	for state, want := range map[string]string{
		v1.ClusterPaused:   "oscarfed cluster resume site",
		v1.ClusterCordoned: "oscarfed cluster uncordon site",
	} {
		server := httptest.NewServer(&patient{
			health: "Ok", status: 200, info: v1.Info{OscarfedVersion: version.Get().Version},
			clusters: []v1.Cluster{{ClusterID: "site", UID: "u", State: state, Alive: true, Stream: true, Orphans: []v1.Orphan{{}}}},
		})
		defer server.Close()
		_, checks, _ := examine(t, "--endpoint", server.URL)
		var do, found string
		for _, line := range checks {
			if line.Check == "cluster site" {
				do, found = do+line.Do+"; ", found+line.Found+"; "
			}
		}
		if !strings.Contains(do, want) || !strings.Contains(found, "it is "+state+"; 1 service there without a record") {
			t.Errorf("of a cluster that is %s it is found %q, and to do %q", state, found, do)
		}
	}
}

// A certificate that ends soon is mentioned, and one of another authority is a failure.
func TestDoctorLooksAtCertificates(t *testing.T) {
	server := httptest.NewTLSServer(&patient{health: "Ok", status: 200, info: v1.Info{OscarfedVersion: version.Get().Version}})
	defer server.Close()
	server.Config.ErrorLog = nil
	if status, checks, _ := examine(t, "--endpoint", server.URL); status != exit.Failed || len(checks) != 1 || !strings.Contains(checks[0].Found, "certificate") {
		t.Errorf("status %d: %+v", status, checks)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, checks, stderr := examine(t, "--endpoint", server.URL, "--ca-file", ca); status != exit.Done || !strings.Contains(checks[0].Found, "certificate until") {
		t.Errorf("status %d: %+v %s", status, checks, stderr)
	}
}

// examine runs the doctor.
func examine(t *testing.T, args ...string) (status int, checks []account.Check, stderr string) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var out, errs await.Output
	status = Run(t.Context(), append([]string{"doctor", "-o", "json"}, args...), strings.NewReader(""), &out, &errs)
	if err := json.Unmarshal([]byte(out.String()), &checks); err != nil {
		t.Fatalf("%v: %s%s", err, out.String(), errs.String())
	}
	return status, checks, errs.String()
}
