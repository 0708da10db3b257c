package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	requestTimeout = 15 * time.Second
	maxAnswer      = 4 << 20
)

// node is one OSCAR, asked by its own API with its own credentials: nothing of
// the control plane is between.
type node struct {
	ClusterID string `json:"cluster_id"`
	Endpoint  string `json:"endpoint"`
	User      string `json:"user"`
	Password  string `json:"password"`
}

// call sends one request and returns status and body.
func (n node) call(ctx context.Context, method, path, body string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.Endpoint+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	req.SetBasicAuth(n.User, n.Password)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Timeout: requestTimeout}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, data, err
}

// want is call for a request with one right status.
func (n node) want(ctx context.Context, status int, method, path, body string) ([]byte, error) {
	got, data, err := n.call(ctx, method, path, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.ClusterID, err)
	}
	if got != status {
		return nil, fmt.Errorf("%s: %s %s answered %d, not %d: %s", n.ClusterID, method, path, got, status, data)
	}
	return data, nil
}

// service is a service as its OSCAR shows it; nil when it has none of that name.
func (n node) service(ctx context.Context, name string) ([]byte, error) {
	status, data, err := n.call(ctx, http.MethodGet, "/system/services/"+name, "")
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", n.ClusterID, err)
	case status == http.StatusOK:
		return data, nil
	case status == http.StatusNotFound:
		return nil, nil
	}
	return nil, fmt.Errorf("%s: GET of %s answered %d: %s", n.ClusterID, name, status, data)
}

// state is what the simulated OSCAR holds, beyond what its API shows.
type state struct {
	Services []struct {
		Name string `json:"name"`
	} `json:"services"`
	Buckets []struct {
		Name    string   `json:"name"`
		Objects []string `json:"objects"`
	} `json:"buckets"`
	// Calls counts requests by what they do.
	Calls map[string]int `json:"calls"`
}

func (n node) state(ctx context.Context) (state, error) {
	var s state
	data, err := n.want(ctx, http.StatusOK, http.MethodGet, "/_sim/state", "")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

func (s state) hasService(name string) bool {
	for _, v := range s.Services {
		if v.Name == name {
			return true
		}
	}
	return false
}

func (s state) hasBucket(name string) bool {
	for _, v := range s.Buckets {
		if v.Name == name {
			return true
		}
	}
	return false
}

func (s state) hasObject(bucket, object string) bool {
	for _, v := range s.Buckets {
		if v.Name == bucket {
			return slices.Contains(v.Objects, object)
		}
	}
	return false
}
