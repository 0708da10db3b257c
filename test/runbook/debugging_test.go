//go:build linux

package runbook_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/oscarfed/oscarfed/test/await"
)

// debug looks into an embedded etcd, finds what a deletion waits for and the trace of a job, and provokes a failure of an
// OSCAR.
func (s *site) debug() {
	s.t.Helper()
	h, d := s.hosts[federation], s.hosts["oscar-d"]
	asRoot := s.block(debugging, readingEtcd, 0)
	s.contains(h.run(asRoot), "/oscarfed/v1/c/oscar-cluster-d/desired/services/changed1\n")
	s.watch(asRoot+s.block(debugging, readingEtcd, 1), `(?m)^\d+ PUT    /oscarfed/v1/c/oscar-cluster-d/desired/services/changed1 \{.*"intent":"apply"`)

	job := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindString(h.run("oscarfed job submit changed0\n"))
	if out := h.run(strings.ReplaceAll(s.block(debugging, traces, 0), "JOB", job)); !regexp.MustCompile(`^[0-9a-f-]{32,}\s*$`).MatchString(out) {
		s.t.Errorf("the request of the job is %q", out)
	}

	h.apply("stuck", "128Mi", "d")
	d.run("systemctl stop oscar-syncer\n")
	h.run("oscarfed delete stuck0 --yes --no-wait\n")
	left := strings.NewReplacer("CLUSTER", "oscar-cluster-d", "SERVICE", "stuck0").Replace(s.block(debugging, deletion, 0))
	out := h.run(asRoot + left)
	s.contains(out, "/oscarfed/v1/c/oscar-cluster-d/desired/services/stuck0\n")
	s.contains(out, "/oscarfed/v1/c/oscar-cluster-d/observed/services/stuck0\n")
	d.run("systemctl start oscar-syncer\n")
	h.joined("d")

	oscar := strings.NewReplacer("PASSWORD", password, "http://127.0.0.1:PORT", "https://"+oscarName("d"))
	d.run(oscar.Replace(s.block(debugging, provoking, 0)))
	if _, err := h.try(s.t.Context(), "oscarfed apply -f stuck.yaml\n"); err == nil || !strings.Contains(err.Error(), "500") {
		s.t.Errorf("a creation at an OSCAR with a fault: %v", err)
	}
	d.run(oscar.Replace("curl -sf -u oscar:PASSWORD -X DELETE http://127.0.0.1:PORT/_sim/faults\n"))
}

// contains demands a text of what was printed.
func (s *site) contains(printed, want string) {
	s.t.Helper()
	if !strings.Contains(printed, want) {
		s.t.Errorf("it does not print %q:\n%s", want, printed)
	}
}

// watch runs what ends only with its reader, until it prints what matches.
func (s *site) watch(script, want string) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	var out await.Output
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = s.hosts[federation].begin(ctx, script, &out)()
	}()
	pattern := regexp.MustCompile(want)
	err := await.Try(ctx, "the watch prints "+want, func() (bool, error) {
		select {
		case <-ended:
			return false, errors.Join(errors.New("it has ended"), failed)
		default:
			return pattern.MatchString(out.String()), nil
		}
	})
	stop()
	<-ended
	if err != nil {
		s.t.Errorf("%v:\n%s", err, out.String())
	}
}

// makeSpace does what docs/debugging.md says of an external etcd that is full.
func (s *site) makeSpace() {
	s.t.Helper()
	h := s.hosts[federation]
	asRoot := h.run("oscarfed etcd root-certificate --etcd-authority /etc/oscarfed/etcd-users --out /tmp/etcd-root\n") +
		"export ETCDCTL_CACERT=ca.crt\n"
	script := s.block(debugging, full, 0)
	endpoints, _, _ := strings.Cut(script, "\n")
	var kv struct {
		Header struct {
			Revision json.Number `json:"revision"`
		} `json:"header"`
	}
	if err := json.Unmarshal([]byte(h.run(asRoot+endpoints+"\netcdctl get / -w json\n")), &kv); err != nil {
		s.t.Fatal(err)
	}
	out := h.run(asRoot + strings.ReplaceAll(script, "4711", kv.Header.Revision.String()))
	for _, want := range []string{"https://etcd-3:2379", "compacted revision " + kv.Header.Revision.String(), "Finished defragmenting"} {
		s.contains(out, want)
	}
}
