package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/test/await"
)

// The federation of examples/grayify, its bucket, and what is put into it. An
// object below in/ would start a job, and a deletion waits for jobs.
const (
	group  = "grayifyr0"
	bucket = "grayifyr0"
	photo  = "out/photo.jpg"
)

func replica(i int) string { return fmt.Sprintf("grayifyr%d", i) }

// stranger is somebody else's service, which stands in the way of a creation.
const stranger = `{"name":"tonedr2","image":"ghcr.io/example/somebody-elses","cpu":"0.2","memory":"128Mi","script":"#!/bin/sh\n",` +
	`"input":[],"output":[{"storage_provider":"minio.default","path":"tonedr2/results"}]}`

const refusedFDL = `functions:
  oscar:
    - oscar-cluster-a:
        name: tonedr0
        image: ghcr.io/grycap/imagemagick
        cpu: "0.5"
        memory: 0.5Gi
        script: tone.sh
        federation:
          topology: star
          members:
            - {type: oscar, cluster_id: oscar-cluster-b, service_name: tonedr1}
            - {type: oscar, cluster_id: oscar-cluster-c, service_name: tonedr2}
        input:
          - {storage_provider: minio.default, path: tonedr0/in}
        output:
          - {storage_provider: minio.default, path: tonedr0/out}
`

// exitConflict is the CLI's status for a name that is taken.
const exitConflict = 6

// story is one run of the demo.
type story struct {
	out         io.Writer
	binary, fdl string

	fed    *federation
	step   string
	steps  int
	checks int

	created, repaired, ran, deleted time.Duration
}

// summary tells what was shown in one line.
func (s *story) summary() string {
	text := fmt.Sprintf("created on 3 clusters in %s, repaired in %s, a job run in %s", round(s.created), round(s.repaired), round(s.ran))
	if s.deleted > 0 {
		text += fmt.Sprintf(", refusal left nothing, deleted in %s with its data kept", round(s.deleted))
	}
	return text
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// tell runs all steps. interrupted ends when somebody does not want to see the
// kept federation any more.
func (s *story) tell(ctx, interrupted context.Context, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "oscarfed-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	s.heading("a federation of three OSCARs, in one process")
	if s.fed, err = start(ctx, s.binary, dir); err != nil {
		return err
	}
	running := true
	defer func() {
		if running {
			err = errors.Join(err, s.fed.stop())
		}
	}()
	for _, n := range s.fed.Clusters {
		s.notef("%s at %s", n.ClusterID, n.Endpoint)
	}
	if err := s.check(len(s.fed.Clusters) == 3, "three clusters are ready"); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.create, s.repair, s.job} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if keep {
		s.invite(dir)
		<-interrupted.Done()
	} else {
		for _, step := range []func(context.Context) error{s.refuse, s.delete} {
			if err := step(ctx); err != nil {
				return err
			}
		}
	}
	s.heading("SIGTERM")
	running = false
	if err := s.fed.stop(); err != nil {
		return err
	}
	return s.check(true, "it stops with status 0")
}

// create applies the FDL and looks for the replicas on their own OSCARs.
func (s *story) create(ctx context.Context) error {
	s.heading("one FDL becomes one service on every cluster, or on none")
	started := time.Now()
	if _, err := s.cli(ctx, 0, "apply", "-f", s.fdl); err != nil {
		return err
	}
	s.created = time.Since(started)
	if _, err := s.cli(ctx, 0, "get", "federations"); err != nil {
		return err
	}
	phases, err := s.phases(ctx)
	if err != nil {
		return err
	}
	if err := s.check(len(phases) == 3 && allReady(phases), "all three replicas are ready"); err != nil {
		return fmt.Errorf("%w: %v", err, phases)
	}
	for i, n := range s.fed.Clusters {
		def, err := n.service(ctx, replica(i))
		if err != nil {
			return err
		}
		if err := s.check(def != nil, "%s has %s", n.ClusterID, replica(i)); err != nil {
			return err
		}
	}
	// Data that has to outlive all that follows.
	home := s.fed.Clusters[0]
	if _, err := home.want(ctx, http.StatusNoContent, http.MethodPut, "/_sim/objects/"+bucket+"/"+photo, "a photo"); err != nil {
		return err
	}
	s.notef("a photo is put into %s/%s on %s", bucket, photo, home.ClusterID)
	return nil
}

// repair deletes one replica by its OSCAR's own API and waits until it is back.
func (s *story) repair(ctx context.Context) error {
	s.heading("a replica that is deleted behind our back comes back")
	n, name := s.fed.Clusters[1], replica(1)
	before, err := n.service(ctx, name)
	if err != nil {
		return err
	}
	first, err := n.state(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	if _, err := n.want(ctx, http.StatusNoContent, http.MethodDelete, "/system/services/"+name, ""); err != nil {
		return err
	}
	s.notef("DELETE /system/services/%s at %s: 204", name, n.ClusterID)
	var after []byte
	if err := await.Try(ctx, "the replica is repaired", func() (bool, error) {
		now, err := n.state(ctx)
		if err != nil || now.Calls["create"] == first.Calls["create"] {
			return false, err
		}
		after, err = n.service(ctx, name)
		return after != nil, err
	}); err != nil {
		return fmt.Errorf("%s was not created again: %w", name, err)
	}
	if err := await.Try(ctx, "the replicas are ready", func() (bool, error) {
		phases, err := s.phases(ctx)
		return allReady(phases), err
	}); err != nil {
		return fmt.Errorf("%s did not become ready again: %w", name, err)
	}
	s.repaired = time.Since(started)
	if err := s.check(true, "%s is created again after %s, and ready", name, round(s.repaired)); err != nil {
		return err
	}
	same, err := sameDefinition(before, after)
	if err != nil {
		return err
	}
	if err := s.check(same, "its definition and its token are what they were"); err != nil {
		return err
	}
	_, err = s.cli(ctx, 0, "get", "replicas", group)
	return err
}

// refuse tries a creation over a foreign service.
func (s *story) refuse(ctx context.Context) error {
	s.heading("a creation over somebody else's service is refused, and leaves nothing")
	n := s.fed.Clusters[2]
	if _, err := n.want(ctx, http.StatusCreated, http.MethodPost, "/system/services", stranger); err != nil {
		return err
	}
	before, err := n.service(ctx, "tonedr2")
	if err != nil {
		return err
	}
	s.notef("somebody has created tonedr2 on %s", n.ClusterID)
	path := filepath.Join(s.fed.dir, "tone.yaml")
	if err := errors.Join(
		os.WriteFile(path, []byte(refusedFDL), 0o600),
		os.WriteFile(filepath.Join(s.fed.dir, "tone.sh"), []byte("#!/bin/sh\nconvert -modulate 50\n"), 0o600),
	); err != nil {
		return err
	}
	a, err := s.cli(ctx, exitConflict, "apply", "-f", path)
	if err != nil {
		return err
	}
	if err := s.check(strings.Contains(a.stderr, n.ClusterID+"/tonedr2") && strings.Contains(a.stderr, "NameTaken"), "the refusal names %s/tonedr2", n.ClusterID); err != nil {
		return err
	}
	after, err := n.service(ctx, "tonedr2")
	if err != nil {
		return err
	}
	if err := s.check(after != nil && string(after) == string(before), "the foreign service stands as it was, byte for byte"); err != nil {
		return err
	}
	foreign, err := n.state(ctx)
	if err != nil {
		return err
	}
	if err := s.check(foreign.hasBucket("tonedr2"), "and so does its bucket"); err != nil {
		return err
	}
	for i, other := range s.fed.Clusters[:2] {
		st, err := other.state(ctx)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("tonedr%d", i)
		if err := s.check(!st.hasService(name) && !st.hasBucket("tonedr0"), "%s has no %s and no bucket of it", other.ClusterID, name); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes the federation and looks for what has to stay.
func (s *story) delete(ctx context.Context) error {
	s.heading("a deletion takes the services and leaves the data")
	started := time.Now()
	if _, err := s.cli(ctx, 0, "delete", group); err != nil {
		return err
	}
	s.deleted = time.Since(started)
	for i, n := range s.fed.Clusters {
		st, err := n.state(ctx)
		if err != nil {
			return err
		}
		if err := s.check(!st.hasService(replica(i)), "%s has no %s", n.ClusterID, replica(i)); err != nil {
			return err
		}
		if i == 0 {
			if err := s.check(st.hasObject(bucket, photo), "%s still has %s/%s", n.ClusterID, bucket, photo); err != nil {
				return err
			}
		}
		if i == 2 {
			if err := s.check(st.hasService("tonedr2"), "%s still has the foreign tonedr2", n.ClusterID); err != nil {
				return err
			}
		}
	}
	_, err := s.cli(ctx, 5, "describe", group)
	return err
}

// phases asks the CLI for the phase of each replica.
func (s *story) phases(ctx context.Context) (map[string]string, error) {
	a, err := s.fed.oscarfed(ctx, "get", "replicas", group, "--output", "json")
	if err != nil {
		return nil, err
	}
	if a.status != 0 {
		return nil, fmt.Errorf("get replicas ended with status %d: %s", a.status, a.stderr)
	}
	type entry struct {
		ClusterID   string `json:"cluster_id"`
		ServiceName string `json:"service_name"`
		Status      struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	var view struct {
		Self     entry   `json:"self"`
		Replicas []entry `json:"replicas"`
	}
	if err := json.Unmarshal([]byte(a.stdout), &view); err != nil {
		return nil, err
	}
	phases := map[string]string{}
	for _, e := range append(view.Replicas, view.Self) {
		phases[e.ClusterID+"/"+e.ServiceName] = e.Status.Phase
	}
	return phases, nil
}

func allReady(phases map[string]string) bool {
	for _, phase := range phases {
		if phase != "ready" {
			return false
		}
	}
	return len(phases) > 0
}

// sameDefinition compares what an OSCAR showed of two lives of a service. The
// token is the mark that makes it ours.
func sameDefinition(before, after []byte) (bool, error) {
	var x, y struct {
		Token  string `json:"token"`
		Image  string `json:"image"`
		Script string `json:"script"`
	}
	if err := errors.Join(json.Unmarshal(before, &x), json.Unmarshal(after, &y)); err != nil {
		return false, err
	}
	return x == y && x.Token != "", nil
}
