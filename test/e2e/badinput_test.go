package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/await"
)

// with is the good body with one replacement.
func with(from, to string) string {
	if !strings.Contains(body, from) {
		panic("the body has no " + from)
	}
	return strings.Replace(body, from, to, 1)
}

// TestBadInputLeavesNothing: every rule answers with its path and a way out, and
// nothing is written, neither to etcd nor to any OSCAR, and no vote is asked for.
func TestBadInputLeavesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		const third = `"cluster_id":"oscar-cluster-c","service_name":"grayifyr2"`
		for name, tt := range map[string]struct {
			body, rule, path string
			status           int
		}{
			"no name":               {with(`"name":"grayifyr0",`, ``), "required", "name", 400},
			"no image":              {with(`"image":"ghcr.io/grycap/imagemagick",`, ``), "required", "image", 400},
			"no script":             {with(`"script":"#!/bin/sh\n",`, ``), "required", "script", 400},
			"name of 2":             {with(`"name":"grayifyr0"`, `"name":"g0"`), "name", "name", 400},
			"name of 40":            {with(`"name":"grayifyr0"`, `"name":"`+strings.Repeat("g", 40)+`"`), "max_length", "name", 400},
			"name in capitals":      {with(`"name":"grayifyr0"`, `"name":"Bad_Name"`), "name", "name", 400},
			"member's name":         {with(`"service_name":"grayifyr1"`, `"service_name":"Bad_Name"`), "name", "federation.members[0].service_name", 400},
			"quantity":              {with(`"cpu":"0.5"`, `"cpu":"lots"`), "quantity", "cpu", 400},
			"memory":                {with(`"memory":"0.5Gi"`, `"memory":"-1"`), "quantity", "memory", 400},
			"topology":              {with(`"mesh"`, `"ring"`), "one_of", "federation.topology", 400},
			"delegation":            {with(`"random"`, `"whim"`), "one_of", "federation.delegation", 400},
			"unknown cluster":       {with(`"cluster_id":"oscar-cluster-c"`, `"cluster_id":"oscar-cluster-z"`), "known_cluster", "federation.members[1].cluster_id", 400},
			"repeated member":       {with(third, `"cluster_id":"oscar-cluster-b","service_name":"grayifyr1"`), "unique", "federation.members[1]", 400},
			"names itself":          {with(third, `"cluster_id":"oscar-cluster-a","service_name":"grayifyr0"`), "no_self", "federation.members[1]", 400},
			"undefined provider":    {with(`"minio.default","path":"grayifyr0/out"`, `"minio.shared","path":"grayifyr0/out"`), "defined_provider", "output[0].storage_provider", 400},
			"shared bucket":         {with(`"cluster_id":"oscar-cluster-c"`, `"cluster_id":"oscar-cluster-b"`), "shared_bucket", "", 400},
			"wrong type":            {with(`"cpu":"0.5"`, `"cpu":1`), "type", "cpu", 400},
			"array":                 {`[` + body + `]`, "type", "", 400},
			"truncated":             {body[:len(body)/2], "", "", 400},
			"empty":                 {``, "", "", 400},
			"deeply nested":         {`{"name":"grayifyr0","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "", "", 400},
			"body over its limit":   {with(`#!/bin/sh\n`, strings.Repeat("x", 1<<20)), "", "", 413},
			"script over its limit": {with(`#!/bin/sh\n`, strings.Repeat("x", 1000_000)), "max_bytes", "script", 400},
			"too many members":      {with(`"members":[`, `"members":[`+manyMembers(200)), "max_members", "federation.members", 400},
		} {
			step(t, name, func(t *testing.T) {
				before, calls := w.Revision(), writes(t, w.Cluster(a).Sim.Calls())
				status, _, text := w.Do("POST", "/system/services", tt.body, "Accept", "application/problem+json")
				if status != tt.status {
					t.Fatalf("%d, want %d: %s", status, tt.status, text)
				}
				var p v1.Problem
				if err := json.Unmarshal([]byte(text), &p); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				if tt.rule != "" {
					found := false
					for _, v := range p.Violations {
						found = found || v.Rule == tt.rule && (tt.path == "" || v.Path == tt.path) && v.Message != ""
					}
					if !found {
						t.Errorf("no violation of %s at %s: %s", tt.rule, tt.path, text)
					}
				}
				if after := w.Revision(); after != before {
					t.Errorf("something was written to etcd: revision %d, was %d", after, before)
				}
				if now := writes(t, w.Cluster(a).Sim.Calls()); now != calls {
					t.Error("an OSCAR was written to")
				}
			})
		}
		all := strings.NewReplacer(`"mesh"`, `"ring"`, `"cpu":"0.5"`, `"cpu":"lots"`, `oscar-cluster-c`, `oscar-cluster-z`).Replace(body)
		_, _, text := w.Do("POST", "/system/services", all)
		for _, part := range []string{"ring", "lots", "oscar-cluster-z"} {
			if !strings.Contains(text, part) {
				t.Errorf("all violations are told at once; %q is missing: %s", part, text)
			}
		}
	})
}

func writes(t *testing.T, calls map[string]int) int {
	t.Helper()
	return calls["create"] + calls["update"] + calls["delete"]
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"extra%d"},`, i)
	}
	return b.String()
}
