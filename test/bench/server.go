package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/test/process"
)

const (
	user     = "oscar"
	password = "not-a-real-password"
)

// server is one oscar-controlplane with its embedded etcd.
type server struct {
	binary, dir string
	etcd, api   string
	// quota is that of etcd in bytes; 0 for its default.
	quota int64
	// profiles is the folder of options, and inside where the process can be looked into; empty for
	// nowhere; metrics is where it then shows its metrics.
	profiles, inside, metrics string
	child                     *process.Child
	client                    *http.Client
	users                     *users
}

// newServer starts one with an empty store.
func newServer(ctx context.Context, o options) (*server, error) {
	dir, err := os.MkdirTemp("", "oscarfed-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{binary: o.controlPlane, dir: dir, profiles: o.profiles, client: &http.Client{
		Timeout: 5 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 16},
	}}
	if s.users, err = newUsers(); err != nil {
		return nil, err
	}
	if s.etcd, err = freeAddress(); err != nil {
		return nil, err
	}
	if o.inside || o.profiles != "" {
		if s.binary, err = os.Executable(); err != nil {
			return nil, err
		}
		if s.inside, err = freeAddress(); err != nil {
			return nil, err
		}
		if s.metrics, err = freeAddress(); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(s.passwordFile(), []byte(password), 0o600); err != nil {
		return nil, err
	}
	if _, err := s.start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// freeAddress is a port of loopback that was free a moment ago: a restarted
// server must have the same again.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *server) passwordFile() string { return filepath.Join(s.dir, "password") }

// data is the directory of its etcd.
func (s *server) data() string { return filepath.Join(s.dir, "etcd") }

func (s *server) endpoint() string { return "http://" + s.etcd }

// start runs the binary, with more in its environment, and returns how long it took until its API
// served.
func (s *server) start(ctx context.Context, env ...string) (time.Duration, error) {
	began := time.Now()
	var args []string
	if s.inside != "" {
		args = []string{insideCommand, s.inside, "controlplane"}
	}
	if s.quota > 0 {
		args = append(args, "--etcd-quota", strconv.FormatInt(s.quota, 10))
	}
	child, err := process.Run(process.Command{Path: s.binary, Env: env, Args: append(args,
		"--listen", "127.0.0.1:0", "--metrics-listen", s.metrics, "--etcd-listen", s.etcd,
		"--oidc-issuer", s.users.provider.Issuer(), "--oidc-audience", audience, "--oidc-group", group,
		"--data-dir", s.dir, "--admin-user", user, "--admin-password-file", s.passwordFile(), "--rate-limit", "0", "--log-level", "error",
		// A slow machine is to be measured, not refused.
		"--prepare-deadline", "2m", "--apply-grace", "10m",
	)})
	if err != nil {
		return 0, fmt.Errorf("%w; make build makes it", err)
	}
	line, err := child.Ready(ctx)
	if err != nil {
		child.Kill()
		return 0, err
	}
	s.child = child
	_, address, _ := strings.Cut(line, "API on ")
	s.api = "http://" + address
	return time.Since(began), nil
}

// kill ends the process as a crash does.
func (s *server) kill() { s.child.Kill() }

// stop ends the process in order and removes its data.
func (s *server) stop() error {
	return errors.Join(stopChild(s.child), s.users.close(), os.RemoveAll(s.dir))
}

// stopChild ends a process in order, unless it has ended.
func stopChild(c *process.Child) error {
	if c.Ended() {
		return nil
	}
	return c.Stop()
}

func (s *server) usage() (usage, error) { return usageOf(s.child.Pid()) }

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 20

// call sends one request of the administrator and returns when it had been written to the connection.
func (s *server) call(ctx context.Context, method, path string, body []byte, want ...int) (time.Time, error) {
	return s.callAs(ctx, administrator, method, path, body, want...)
}

// administrator gives a request the credentials of the administrator.
func administrator(r *http.Request) error {
	r.SetBasicAuth(user, password)
	return nil
}

// callAs is call for the caller that a request is given the credentials of.
func (s *server) callAs(ctx context.Context, as func(*http.Request) error, method, path string, body []byte, want ...int) (time.Time, error) {
	var sent time.Time
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { sent = time.Now() },
	})
	req, err := http.NewRequestWithContext(ctx, method, s.api+path, bytes.NewReader(body))
	if err != nil {
		return sent, err
	}
	if err := as(req); err != nil {
		return sent, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return sent, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return sent, err
	}
	if !slices.Contains(want, resp.StatusCode) {
		return sent, fmt.Errorf("%s %s answered %d, not one of %d: %.300s", method, path, resp.StatusCode, want, answer)
	}
	return sent, nil
}

// register makes clusters known, with the ids that a fleet gives them.
func (s *server) register(ctx context.Context, from, to int) error {
	for i := from; i < to; i++ {
		body, err := json.Marshal(map[string]string{"cluster_id": clusterID(i), "endpoint": "https://" + clusterID(i) + ".example.org"})
		if err != nil {
			return err
		}
		if _, err := s.call(ctx, http.MethodPost, "/system/clusters", body, http.StatusCreated); err != nil {
			return err
		}
	}
	return nil
}

// definition of a service on n clusters from a first one on: a star with an
// input, an output, a secret and a script of a kilobyte.
func definition(name string, first, n int) []byte {
	members := []map[string]any{}
	for i := 1; i < n; i++ {
		members = append(members, map[string]any{"type": "oscar", "cluster_id": clusterID(first + i), "service_name": name})
	}
	s := map[string]any{
		"name": name, "cluster_id": clusterID(first), "image": "ghcr.io/grycap/imagemagick", "cpu": "0.5", "memory": "0.5Gi",
		"script":      "#!/bin/sh\n" + strings.Repeat("# a line of what a service does\n", 32),
		"environment": map[string]any{"variables": map[string]string{"SIZE": "10"}, "secrets": map[string]string{"KEY": "value"}},
		"input":       []any{map[string]string{"storage_provider": "minio.default", "path": name + "/in"}},
		"output":      []any{map[string]string{"storage_provider": "minio.default", "path": name + "/out"}},
	}
	if n > 1 {
		s["federation"] = map[string]any{"topology": "star", "members": members}
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // maps and strings only
	}
	return data
}

// withRefreshToken gives a definition's owner's refresh token to the service, so that its jobs may move.
func withRefreshToken(definition []byte, token string) []byte {
	return bytes.Replace(definition, []byte(`"secrets":{`), []byte(`"secrets":{"refresh_token":"`+token+`",`), 1)
}

func (s *server) create(ctx context.Context, name string, first, n int) (time.Time, error) {
	return s.call(ctx, http.MethodPost, "/system/services?wait=2m", definition(name, first, n), http.StatusCreated)
}

func (s *server) remove(ctx context.Context, name string) error {
	_, err := s.call(ctx, http.MethodDelete, "/system/services/"+name+"?data=delete&wait=2m", nil, http.StatusNoContent)
	return err
}
