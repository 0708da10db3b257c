package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

const other = `{"name":"tonedr0","cluster_id":"oscar-cluster-b","image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n"}`

// small is a world whose etcd is soon full, and looked at often.
func small(o *world.Options) {
	o.Etcd = func(c *embedded.Config) { c.Quota = 16 << 20 }
	o.ControlPlane = func(c *controlplane.Config) { c.SpaceInterval = 50 * time.Millisecond }
}

// occupy writes what is not ours into etcd, until stop says so or etcd refuses.
func occupy(w *world.World, stop func() bool) error {
	w.T.Helper()
	for i := 0; !stop(); i++ {
		if _, err := w.Store.Update(w.T.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.PutBytes(fmt.Sprintf("/foreign/%04d", i), bytes.Repeat([]byte("x"), 100<<10))
			return nil
		}}); err != nil {
			return err
		}
	}
	return nil
}

// vacate takes it away again, key by key: a full etcd lets deletions through.
func vacate(w *world.World) {
	w.T.Helper()
	for _, key := range w.Keys("/foreign/") {
		if _, err := w.Store.Update(w.T.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Delete(key)
			return nil
		}}); err != nil {
			w.T.Fatal(err)
		}
	}
}

func level(w *world.World) string {
	w.T.Helper()
	info, err := w.Client.Info(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return info.Etcd.Space
}

// sessions are the revisions at which the syncers' sessions began.
func sessions(w *world.World) map[string]int64 {
	w.T.Helper()
	out := map[string]int64{}
	for _, id := range []string{a, b, c} {
		kv, err := w.Store.Get(w.T.Context(), record.SessionKey(id))
		if err != nil {
			w.T.Errorf("the session of %s: %v", id, err)
		}
		out[id] = kv.CreateRevision
	}
	return out
}

// refusedForSpace sends a request that adds, and demands 503 with a pause and what to do.
func refusedForSpace(w *world.World, method, path, body string) {
	w.T.Helper()
	status, header, text := w.Do(method, path, body)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(text, "etcd") {
		w.T.Errorf("%s %s: %d, Retry-After %q: %s", method, path, status, header.Get("Retry-After"), text)
	}
}

// TestEtcdFullSoftLimitKeepsRoomForDeletions: when etcd is nearly full, what adds is
// refused, and all the rest goes on.
func TestEtcdFullSoftLimitKeepsRoomForDeletions(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, small, func(o *world.Options) {
			// On a busy machine the file has so many free pages that etcd may be full for a moment,
			// which costs history and a defragmentation.
			o.Forgets = true
			o.Syncer = func(c *syncer.Config) { c.SessionTTL = time.Minute }
		})
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		var info *v1.Info
		if err := occupy(w, func() bool {
			<-time.After(time.Second) // etcd counts what was written within 0.1 s, and is looked at after that
			var err error
			if info, err = w.Client.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
			// So much in use that no file can be made small enough again: while there is
			// less, space is made, and it is short for a moment only.
			return info.Etcd.Space == "short" && info.Etcd.InUseBytes > info.Etcd.QuotaBytes/100*78
		}); err != nil {
			t.Fatalf("etcd refused before anybody knew: %v; it was %+v", err, info.Etcd)
		}
		t.Logf("what others wrote ends with %+v", info.Etcd)
		before := sessions(w)
		refusedForSpace(w, "POST", "/system/services", other)
		refusedForSpace(w, "PUT", "/system/services", strings.Replace(body, "0.5Gi", "1Gi", 1))
		refusedForSpace(w, "PUT", "/system/replicas/grayifyr0", `{"replicas":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1"}],
"update":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1","priority":7}]}`)
		refusedForSpace(w, "POST", "/system/clusters", `{"cluster_id":"oscar-cluster-z","endpoint":"http://127.0.0.1:1"}`)
		if status, _, text := w.Do("GET", "/health", ""); status != http.StatusOK || !strings.HasPrefix(text, "Ok, but etcd is short of space") {
			t.Errorf("/health: %d %s", status, text)
		}

		// A report arrives: what somebody deleted on the cluster is made again, and said so.
		w.DeleteDirectly(w.Cluster(b).URL + "/system/services/" + names[1])
		w.Eventually("the replica is made again", func() bool {
			return slices.Contains(w.Cluster(b).Sim.Services(), names[1]) && ready(w)
		})
		if status, _, text := w.Do("DELETE", "/system/replicas/grayifyr0?cluster_id=oscar-cluster-c&service_name=grayifyr2&wait=1m", ""); status != http.StatusOK {
			t.Errorf("a member is removed: %d %s", status, text)
		}
		if _, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{Wait: limit}); err != nil {
			t.Errorf("the deletion: %v", err)
		}
		w.Eventually("everything is gone", func() bool { return gone(w) })
		if _, ok := w.Cluster(a).Sim.Bucket(names[0]); !ok {
			t.Error("the deletion took the user's bucket")
		}
		if after := sessions(w); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("sessions were %v and are %v", before, after)
		}
	})
}

// TestEtcdFullRecoversByItself: a foreign writer fills etcd to the brim. Reads go
// on, no session ends, and when the space is given back two control planes bring it
// into order by themselves.
func TestEtcdFullRecoversByItself(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, small, func(o *world.Options) {
			o.Forgets = true
			// A defragmentation may stop etcd for seconds on a busy machine.
			o.Syncer = func(c *syncer.Config) { c.SessionTTL = time.Minute }
		})
		w.StartControlPlane("control-plane-1")
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		before := sessions(w)
		if err := occupy(w, func() bool { return false }); !errors.Is(err, store.ErrFull) {
			t.Fatalf("filling ended with: %v", err)
		}
		w.Eventually("it is known to be full", func() bool { return level(w) == "full" })
		if !ready(w) {
			t.Error("the replicas cannot be read")
		}
		refusedForSpace(w, "POST", "/system/services", other)
		refusedForSpace(w, "DELETE", "/system/services/grayifyr0", "") // an order is a record
		if status, _, text := w.Do("GET", "/health", ""); status != http.StatusOK || !strings.HasPrefix(text, "Ok, but etcd is full") {
			t.Errorf("/health: %d %s", status, text)
		}

		vacate(w)
		w.Eventually("there is space again", func() bool { return level(w) == "ok" })
		if _, err := create(w, other); err != nil {
			t.Errorf("a create afterwards: %v", err)
		}
		if _, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{Wait: limit}); err != nil {
			t.Errorf("a deletion afterwards: %v", err)
		}
		w.Eventually("the federation is gone", func() bool {
			return !slices.ContainsFunc(names, func(name string) bool {
				return slices.ContainsFunc([]string{a, b, c}, func(id string) bool { return slices.Contains(w.Cluster(id).Sim.Services(), name) })
			})
		})
		if after := sessions(w); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("sessions were %v and are %v", before, after)
		}
		if status, _, text := w.Do("GET", "/health", ""); status != http.StatusOK || text != "Ok" {
			t.Errorf("/health: %d %s", status, text)
		}
	})
}
