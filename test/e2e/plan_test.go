package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/world"
)

// fdl is the definition of body, with a script beside it, and a second service.
const fdl = `functions:
  oscar:
    - oscar-cluster-a:
        name: grayifyr0
        image: ghcr.io/grycap/imagemagick
        cpu: "0.5"
        memory: 0.5Gi
        script: script.sh
        environment: {secrets: {KEY: canary-environment-secret}}
        federation:
          topology: mesh
          delegation: random
          members:
            - {type: oscar, cluster_id: oscar-cluster-b, service_name: grayifyr1}
        input: [{storage_provider: minio.default, path: grayifyr0/in}]
    - oscar-cluster-c:
        name: lonely
        image: ghcr.io/grycap/imagemagick
        script: script.sh
`

// onLoopback keeps a world from virtual time: the program opens sockets. No session ends, however
// busy the machine is: revisions are counted, and a new session is one.
func onLoopback(o *world.Options) {
	o.Wire = nil
	o.Syncer = func(c *syncer.Config) { c.SessionTTL = limit }
}

// shell runs oscarfed against a world, in a folder with an FDL.
type shell struct {
	t   *testing.T
	w   *world.World
	dir string
}

func newShell(t *testing.T, w *world.World) *shell {
	t.Helper()
	s := &shell{t: t, w: w, dir: t.TempDir()}
	s.put("fdl.yaml", fdl)
	s.put("script.sh", "#!/bin/sh\necho one\necho two\n")
	s.put("password", world.Password)
	t.Setenv("XDG_CONFIG_HOME", s.dir)
	return s
}

func (s *shell) path(name string) string { return filepath.Join(s.dir, name) }

func (s *shell) put(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shell) edit(name string, old, now string) {
	s.t.Helper()
	data, err := os.ReadFile(s.path(name))
	if err != nil || !strings.Contains(string(data), old) {
		s.t.Fatalf("%s has no %q: %v", name, old, err)
	}
	s.put(name, strings.ReplaceAll(string(data), old, now))
}

// run wants a status, and says what was printed.
func (s *shell) run(status int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	all := append([]string{"--endpoint", s.w.API, "--user", world.User, "--password-file", s.path("password")}, args...)
	if got := cli.Run(s.t.Context(), all, strings.NewReader(""), &out, &errs); got != status {
		s.t.Fatalf("oscarfed %s ended with %d, want %d:\n%s%s", strings.Join(args, " "), got, status, out.String(), errs.String())
	}
	if text := out.String() + errs.String(); strings.Contains(text, "canary-environment-secret") {
		s.t.Errorf("oscarfed %s shows a secret: %s", strings.Join(args, " "), text)
	}
	return out.String(), errs.String()
}

// nothing runs a command that must not write a revision.
func (s *shell) nothing(status int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	before := s.w.Revision()
	stdout, stderr = s.run(status, args...)
	if now := s.w.Revision(); now != before {
		s.t.Errorf("oscarfed %s cost %d revisions", strings.Join(args, " "), now-before)
	}
	return stdout, stderr
}

func wants(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(text) {
			t.Errorf("there is no %s in:\n%s", p, text)
		}
	}
}

// From nothing to two generations and back, by plans alone.
func TestPlansAreAppliedAsTheyWereShown(t *testing.T) {
	w := newWorld(t, onLoopback)
	s := newShell(t, w)
	out, errs := s.nothing(0, "plan", "-f", s.path("fdl.yaml"), "--out", s.path("plan.json"))
	wants(t, out, `^grayifyr0: create federation grayifyr0, mesh over 2 clusters, transactional$`,
		`^oscar-cluster-b +grayifyr1 +create +not asked +0s +member of a new federation$`, `^  \+ oscar-cluster-a/grayifyr0 lists oscar-cluster-b/grayifyr1$`)
	wants(t, errs, `^3 services to create, 0 to change, 0 unchanged; nothing is written$`, `holds secrets \(grayifyr0: environment.secrets.KEY\)`)
	if info, err := os.Stat(s.path("plan.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	s.run(0, "apply", "--plan", s.path("plan.json"))
	v, ok := w.Cluster(b).Sim.Service("grayifyr1")
	if !ok || v.Secrets["KEY"] != "canary-environment-secret" {
		t.Errorf("%s %v", v.JSON, v.Secrets)
	}

	// Applied once: it is not done again.
	_, errs = s.nothing(6, "apply", "--plan", s.path("plan.json"))
	wants(t, errs, `^grayifyr0: it was to be created, and is there since: generation 1 of federation grayifyr0$`, `^lonely: it was to be created`)

	// Nothing to do.
	out, _ = s.nothing(0, "plan", "-f", s.path("fdl.yaml"), "--out", s.path("none.json"))
	wants(t, out, `^grayifyr0: nothing to do, generation 1 is the same$`, `^oscar-cluster-b +grayifyr1 +none `)
	_, errs = s.nothing(0, "apply", "--plan", s.path("none.json"))
	wants(t, errs, `^grayifyr0: unchanged, generation 1$`, `^lonely: unchanged, generation 1$`)

	// A change, seen by plan and by diff.
	s.edit("fdl.yaml", "0.5Gi", "1Gi")
	s.put("script.sh", "#!/bin/sh\necho one\necho 2\n")
	out, _ = s.nothing(0, "plan", "-f", s.path("fdl.yaml"), "--out", s.path("change.json"))
	wants(t, out, `^grayifyr0: change generation 1 to 2, bound to revision \d+$`, `^  ~ memory: "0.5Gi" -> "1Gi"$`, `^  ~ script: `,
		`^oscar-cluster-b +grayifyr1 +update +- +0s +memory, script differ$`)
	out, _ = s.nothing(0, "diff", "grayifyr0", "-f", s.path("fdl.yaml"))
	wants(t, out, `^-memory: 0.5Gi$`, `^\+memory: 1Gi$`, `^-echo two$`, `^\+echo 2$`)
	s.run(0, "apply", "--plan", s.path("change.json"))
	out, _ = s.nothing(0, "diff", "grayifyr0")
	wants(t, out, `^--- generation 1$`, `^\+\+\+ generation 2$`, `^\+memory: 1Gi$`, `^\+echo 2$`)
	_, errs = s.nothing(0, "diff", "grayifyr0", "-f", s.path("fdl.yaml"))
	wants(t, errs, `are the same; secrets are not compared$`)
	out, _ = s.nothing(0, "plan", "-f", s.path("fdl.yaml"))
	wants(t, out, `^grayifyr0: nothing to do, generation 2 is the same$`)
	if v, ok := w.Cluster(b).Sim.Service("grayifyr1"); !ok || !strings.Contains(string(v.JSON), `"memory":"1Gi"`) || v.Secrets["KEY"] != "canary-environment-secret" {
		t.Errorf("%s %v", v.JSON, v.Secrets)
	}

	// A file that says nothing of secrets and members asks for the same.
	data, err := os.ReadFile(s.path("fdl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?s)        environment:.*(        input:)`).ReplaceAllString(string(data), "        delegation: random\n$1")
	s.put("absent.yaml", text)
	_, errs = s.nothing(0, "diff", "grayifyr0", "-f", s.path("absent.yaml"))
	wants(t, errs, `are the same; secrets are not compared$`)
	out, _ = s.nothing(0, "plan", "-f", s.path("absent.yaml"))
	wants(t, out, `^grayifyr0: nothing to do, generation 2 is the same$`)
	_, errs = s.run(0, "apply", "-f", s.path("absent.yaml"))
	wants(t, errs, `^grayifyr0: unchanged, generation 2`)

	// OSCAR makes a notification with a bucket, and none later.
	for path, warned := range map[string]bool{"grayifyr0/in/sub": false, "other-bucket/in": false, "in": false, "grayifyr0/in2": true} {
		s.put("input.yaml", strings.Replace(fdl, "grayifyr0/in", path, 1))
		if out, _ = s.nothing(0, "plan", "-f", s.path("input.yaml")); strings.Contains(out, "warning: uploads to "+path+" start no job") != warned {
			t.Errorf("input %s: %s", path, out)
		}
	}

	// Nor a Deployment.
	s.put("expose.yaml", strings.Replace(fdl, "image:", "expose: {api_port: 80}\n        image:", 1))
	if out, _ = s.nothing(0, "plan", "-f", s.path("expose.yaml")); !strings.Contains(out, "warning: OSCAR exposes a service when it creates it") {
		t.Error(out)
	}

	s.run(0, "rollback", "grayifyr0", "--to", "1")
	out, _ = s.nothing(0, "history", "grayifyr0")
	wants(t, out, `^3 `, `^2 `, `^1 `)
	_, errs = s.nothing(0, "diff", "grayifyr0", "--from", "1", "--to", "3")
	wants(t, errs, `generation 1 and generation 3 are the same`)
	s.nothing(5, "diff", "grayifyr0", "--from", "7")
	s.nothing(2, "diff", "grayifyr0", "--to", "1", "-f", s.path("fdl.yaml"))
}

// All are looked at before the first is written: one that was changed by somebody
// else since keeps the others as they are.
func TestAPlanOfSeveralIsRefusedAsAWhole(t *testing.T) {
	w := newWorld(t, onLoopback)
	s := newShell(t, w)
	s.run(0, "apply", "-f", s.path("fdl.yaml"))
	s.edit("fdl.yaml", "imagemagick", "imagemagick:7")
	s.nothing(0, "plan", "-f", s.path("fdl.yaml"), "--out", s.path("plan.json"))
	lonely := world.Service(t, `{"name":"lonely","cluster_id":"oscar-cluster-c","image":"ghcr.io/grycap/other","script":"s"}`)
	if _, err := w.Client.ChangeService(t.Context(), lonely, client.ChangeOptions{Wait: limit}); err != nil {
		t.Fatal(err)
	}
	_, errs := s.nothing(6, "apply", "--plan", s.path("plan.json"))
	wants(t, errs, `^lonely: its generation was 1, and is 2 since$`, `1 service of .* cannot be applied as planned; nothing is written`)
	if strings.Contains(errs, "grayifyr0:") {
		t.Errorf("the other one is blamed: %s", errs)
	}
	if v, _ := w.Cluster(b).Sim.Service("grayifyr1"); strings.Contains(string(v.JSON), "imagemagick:7") {
		t.Error("the other service was changed")
	}

	// What is there is changed on a cluster that takes nothing new, as planned.
	if _, err := w.Client.SetClusterState(t.Context(), b, "cordoned"); err != nil {
		t.Fatal(err)
	}
	s.edit("fdl.yaml", "imagemagick:7", "imagemagick:8")
	out, _ := s.run(0, "plan", "-f", s.path("fdl.yaml"))
	wants(t, out, `^warning: oscar-cluster-b/grayifyr1: the cluster is cordoned`)
	s.run(0, "apply", "-f", s.path("fdl.yaml"))
	if v, _ := w.Cluster(b).Sim.Service("grayifyr1"); !strings.Contains(string(v.JSON), "imagemagick:8") {
		t.Errorf("apply did not change what is on a cordoned cluster: %s", v.JSON)
	}

	// Drift is shown by diff and by plan.
	if _, err := w.Client.Pause(t.Context(), "grayifyr0", "", true); err != nil {
		t.Fatal(err)
	}
	w.DeleteDirectly(w.Cluster(b).URL + "/system/services/grayifyr1")
	w.Eventually("the loss is seen", func() bool {
		v, err := w.Client.Replicas(t.Context(), "grayifyr1", "")
		return err == nil && v.Self.Status.Phase == "drifted"
	})
	out, _ = s.run(0, "diff", "grayifyr0")
	wants(t, out, `^oscar-cluster-b +grayifyr1 +drifted `)
	out, _ = s.run(0, "plan", "-f", s.path("fdl.yaml"))
	wants(t, out, `^warning: Paused: the federation is paused`, `^warning: oscar-cluster-b/grayifyr1: .*drifted at generation 2`)
	if _, err := w.Client.Pause(t.Context(), "grayifyr0", "", false); err != nil {
		t.Fatal(err)
	}
}

// A file that was edited, is huge, or is no plan writes nothing.
func TestHostilePlanFiles(t *testing.T) {
	w := newWorld(t, onLoopback)
	s := newShell(t, w)
	s.nothing(0, "plan", "-f", s.path("fdl.yaml"), "--out", s.path("plan.json"))
	good, err := os.ReadFile(s.path("plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		status int
		edit   func(text string) string
	}{
		"another definition": {6, func(text string) string { return strings.ReplaceAll(text, "0.5Gi", "7Gi") }},
		"another secret":     {6, func(text string) string { return strings.ReplaceAll(text, "canary-environment-secret", "another") }},
		"another cluster": {6, func(text string) string {
			return strings.ReplaceAll(text, `"cluster_id": "oscar-cluster-b"`, `"cluster_id": "oscar-cluster-c"`)
		}},
		"another digest": {6, func(text string) string {
			return regexp.MustCompile(`"digest": "[0-9a-f]{4}`).ReplaceAllString(text, `"digest": "0000`)
		}},
		"no digest": {3, func(text string) string {
			return regexp.MustCompile(`"digest": "[^"]*"`).ReplaceAllString(text, `"digest": ""`)
		}},
		"another picture": {3, func(text string) string { return strings.Replace(text, "member of a new federation", "harmless", 1) }},
		"another deployment": {6, func(text string) string {
			return strings.Replace(text, `"definition"`, `"deployment": "best-effort", "definition"`, 1)
		}},
		"a newer version": {3, func(text string) string { return strings.Replace(text, `"v": 1`, `"v": 2`, 1) }},
		"unknown fields":  {3, func(text string) string { return strings.Replace(text, `"v": 1`, `"v": 1, "then": "rm"`, 1) }},
		"cut off":         {3, func(text string) string { return text[:len(text)/2] }},
		"empty":           {3, func(string) string { return "" }},
		"null":            {3, func(string) string { return "null" }},
		"no services":     {3, func(string) string { return `{"v":1,"services":[]}` }},
		"huge":            {3, func(text string) string { return text + strings.Repeat(" ", 33<<20) }},
		"deep":            {3, func(string) string { return strings.Repeat("[", 1<<20) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shell{t: t, w: w, dir: s.dir}
			s.put("hostile.json", tt.edit(string(good)))
			s.nothing(tt.status, "apply", "--plan", s.path("hostile.json"))
		})
	}
	s.nothing(3, "apply", "--plan", s.path("not there"))
	s.nothing(3, "apply", "--plan", s.dir)
	s.nothing(2, "apply", "--plan", s.path("plan.json"), "--cluster", "oscar-cluster-a")
	s.nothing(2, "apply", "--plan", s.path("plan.json"), "-f", s.path("fdl.yaml"))
	s.nothing(2, "apply")
	s.nothing(2, "plan", "-f", s.path("fdl.yaml"), "--out", s.dir)
}
