package controlplane_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// withSecrets is starOf with so many KiB of secrets in the environment, at the top, and in headers of
// endpoints, which no replica is sent.
func withSecrets(t *testing.T, n, environment, top, headers int) *oscar.Service {
	t.Helper()
	s := send(t, starOf(n, 4<<10)).Service
	long := strings.Repeat("hunter2-", 16<<10)
	for left := environment; left > 0; left -= 100 {
		s.Environment.Secrets[fmt.Sprint("LONG", left)] = long[:min(left, 100)<<10]
	}
	s.Secrets = map[string]string{}
	for left := top; left > 0; left -= 15 {
		s.Secrets[fmt.Sprint("LONG", left)] = long[:min(left, 15)<<10]
	}
	for left := headers; left > 0; left -= 15 {
		s.Federation.Members = append(s.Federation.Members, oscar.Member{
			Type: oscar.MemberEndpoint, URL: fmt.Sprintf("https://example.org/%d", left), Headers: map[string]string{"X-Long": long[:min(left, 15)<<10]},
		})
	}
	return s
}

// onlyFederation is the only one in the store.
func (w *world) onlyFederation() *record.Federation {
	w.t.Helper()
	items, _, err := w.store.List(w.t.Context(), record.FederationsPrefix)
	if err != nil || len(items) != 1 {
		w.t.Fatal(len(items), err)
	}
	f, err := store.Decode[record.Federation](items[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

func sameHeaders(a, b oscar.Member) bool { return maps.Equal(a.Headers, b.Headers) }

// Secrets that no envelope holds are sealed once, in parts, and each replica is sent all of them.
func TestSecretsUpToTheLimitOfADefinition(t *testing.T) {
	for name, tc := range map[string]struct {
		n, environment, top, headers int
		parts                        int // of the text, the secrets, and those of the control plane alone
	}{
		"one envelope holds them": {3, 400, 90, 0, 1 + 1}, "two hold them": {3, 500, 240, 0, 1 + 2}, "all that is possible": {oscar.MaxReplicas, 500, 240, 240, 1 + 2},
		"most of them are of endpoints": {3, 0, 1, 900, 1 + 1 + 2},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newSharingWorld(t)
				w.guard("hunter2-hunter2")
				s := withSecrets(t, tc.n, tc.environment, tc.top, tc.headers)
				want := s.Clone()
				before := w.revision()
				if _, err := w.Federations.CreateService(t.Context(), admin, federations.CreateRequest{Service: s, Wait: time.Minute}); err != nil {
					var e *fault.Error
					errors.As(err, &e)
					t.Fatal(err, e.Violations)
				}
				bytes, _ := w.written(before)
				t.Logf("%d KiB of secrets: %d bytes were written", tc.environment+tc.top+tc.headers, bytes)
				if parts := w.keys(record.PartsPrefix); len(parts) != tc.parts {
					t.Errorf("%d parts are there, not %d", len(parts), tc.parts)
				}
				_, patch := w.sent("b", "svc1")
				var got struct {
					Environment oscar.Environment `json:"environment"`
					Secrets     map[string]string `json:"secrets"`
				}
				if err := json.Unmarshal([]byte(patch), &got); err != nil {
					t.Fatal(err)
				}
				if !maps.Equal(got.Environment.Secrets, want.Environment.Secrets) || !maps.Equal(got.Secrets, want.Secrets) {
					t.Errorf("the replica is sent %d and %d secrets, or others", len(got.Environment.Secrets), len(got.Secrets))
				}

				changed := want.Clone()
				changed.Memory = "2Gi"
				before = w.revision()
				if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: changed, Wait: time.Minute}); err != nil {
					t.Fatal(err)
				}
				bytes, _ = w.written(before)
				t.Logf("the change wrote %d bytes", bytes)
				if most := (tc.headers<<10)*2 + tc.n*perMember + perFederation; bytes > most {
					t.Errorf("the change wrote %d bytes, more than %d: secrets that stay are sealed again", bytes, most)
				}
				kept, err := w.Federations.WithSecrets(t.Context(), w.onlyFederation())
				if err != nil {
					t.Fatal(err)
				}
				if !maps.Equal(kept.Environment.Secrets, want.Environment.Secrets) || !slices.EqualFunc(kept.Federation.Members, want.Federation.Members, sameHeaders) {
					t.Error("the control plane keeps others")
				}
			})
		})
	}
}

// Secrets that only parts hold are refused while a syncer that is connected reads none. One that is
// away hinders nobody, and a member can always go.
func TestManySecretsAndASyncerThatReadsNoParts(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newSharingWorld(t)
		w.guard("hunter2-hunter2")
		b := w.clusters["b"]
		reconnect := func(parts bool) {
			t.Helper()
			b.disconnect()
			w.eventually(func() bool { s, err := w.Clusters.Get(t.Context(), admin, "b"); return err == nil && !s.Alive })
			b.parts = parts
			b.connect()
			w.eventually(func() bool { s, err := w.Clusters.Get(t.Context(), admin, "b"); return err == nil && s.Alive })
		}
		create := func() error {
			_, err := w.Federations.CreateService(t.Context(), admin, federations.CreateRequest{Service: withSecrets(t, 3, 500, 240, 0), Wait: time.Minute})
			return err
		}
		reconnect(false)
		var e *fault.Error
		if err := create(); !errors.As(err, &e) || e.Code != fault.CodeTooLarge || !strings.Contains(e.Message, `the syncer of cluster "b"`) {
			t.Fatalf("%v", err)
		}
		reconnect(true)
		if err := create(); err != nil {
			t.Fatal(err)
		}
		b.disconnect()
		w.eventually(func() bool { s, err := w.Clusters.Get(t.Context(), admin, "b"); return err == nil && !s.Alive })
		s := withSecrets(t, 3, 500, 240, 0)
		s.Memory = "2Gi"
		if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s}); err != nil {
			t.Fatal(err)
		}
		b.parts = false
		b.connect()
		w.eventually(func() bool { s, err := w.Clusters.Get(t.Context(), admin, "b"); return err == nil && s.Alive })
		if _, err := w.Federations.ChangeReplicas(t.Context(), admin, "svc0", federations.ReplicasRequest{
			Remove: []oscar.Member{{Type: "oscar", ClusterID: "c", ServiceName: "svc2"}},
		}); err != nil {
			t.Errorf("a member cannot go: %v", err)
		}
	})
}
