package controlplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// newSharingWorld is newWorld with syncers that read parts.
func newSharingWorld(t *testing.T, mutate ...func(*controlplane.Config)) *world {
	t.Helper()
	w := emptyWorld(t, embedded.Config{})
	w.parts = true
	w.start(mutate...)
	return w
}

// starOf is a definition of about so many bytes with n replicas, over a, b and c.
func starOf(n, bytes int) string {
	script := min(bytes, oscar.MaxScriptBytes)
	var variables []string
	for left := bytes - script; left > 0; left -= 100 << 10 {
		variables = append(variables, fmt.Sprintf(`"LONG%d":%q`, left, strings.Repeat("y", min(left, 100<<10))))
	}
	var members []string
	for i := 1; i < n; i++ {
		members = append(members, fmt.Sprintf(`{"type":"oscar","cluster_id":%q,"service_name":"svc%d"}`, []string{"a", "b", "c"}[i%3], i))
	}
	return fmt.Sprintf(`{"name":"svc0","cluster_id":"a","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"1Gi","script":%q,"environment":{"variables":{%s},"secrets":{"KEY":"hunter2-hunter2"}},`+
		`"federation":{"topology":"star","delegation":"static","group_id":"svc","members":[%s]}}`, strings.Repeat("x", script), strings.Join(variables, ","), strings.Join(members, ","))
}

// written counts the bytes that were written after a revision, but for what syncers write, and the
// revisions.
func (w *world) written(after int64) (bytes, revisions int) {
	w.t.Helper()
	err := w.store.History(w.t.Context(), record.Root, after+1, w.revision(), func(_ int64, events []store.Event) error {
		ours := false
		for _, e := range events {
			ref := record.ParseKey(e.Key)
			if ref.Kind == record.KindObservedService && !e.Deleted || ref.Kind == record.KindElapsed || ref.Kind == record.KindTokens {
				continue
			}
			ours = true
			bytes += len(e.Key) + len(e.Value)
		}
		if ours {
			revisions++
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return bytes, revisions
}

// perMember is what a create or change may write for each member besides the definition.
const perMember = 4 << 10

// perFederation is what they may write besides for the federation: its record, its history, its
// secrets, the request, and the audit.
const perFederation = 8 << 10

// The bytes of a create are those of its definition, and a little for each member; those of a change
// that leaves the script are the little. A small definition is in the record of each member.
func TestADefinitionIsWrittenOnce(t *testing.T) {
	for _, n := range []int{3, 10, oscar.MaxReplicas} {
		for size, shares := range map[int]bool{100: false, 1300: false, 4 << 10: true, oscar.MaxServiceBytes - 20<<10: true} {
			t.Run(fmt.Sprint(n, " members, ", size, " bytes"), func(t *testing.T) {
				await.InVirtualTime(t, func(t *testing.T) { writtenOnce(t, n, size, shares) })
			})
		}
	}
}

func writtenOnce(t *testing.T, n, size int, shares bool) {
	w := newSharingWorld(t)
	w.guard("hunter2-hunter2")
	body := starOf(n, size)
	before := w.revision()
	if _, err := w.Federations.CreateService(t.Context(), admin, send(t, body)); err != nil {
		var e *fault.Error
		errors.As(err, &e)
		t.Fatal(err, e.Violations)
	}
	bytes, revisions := w.written(before)
	t.Logf("the create of %d bytes wrote %d, %d a member, in %d revisions", len(body), bytes, (bytes-len(body))/n, revisions)
	if bytes > len(body)+n*perMember+perFederation {
		t.Errorf("%d bytes were written", bytes)
	}
	before = w.revision()
	s := send(t, strings.Replace(body, "1Gi", "2Gi", 1)).Service
	if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute}); err != nil {
		t.Fatal(err)
	}
	bytes, revisions = w.written(before)
	t.Logf("the change wrote %d bytes, %d a member, in %d revisions", bytes, bytes/n, revisions)
	if bytes > n*perMember+perFederation {
		t.Errorf("%d bytes were written by the change", bytes)
	}
	want := 0
	if shares {
		want = 3 // a text, a patch and secrets
	}
	if parts := w.keys(record.PartsPrefix); len(parts) != want {
		t.Errorf("%d parts are there, not %d", len(parts), want)
	}
	rolledBackOnce(t, w, s, n)
}

// rolledBackOnce: another script, and then the first one again, whose parts are still there.
func rolledBackOnce(t *testing.T, w *world, s *oscar.Service, n int) {
	other := s.Clone()
	other.Script = strings.Repeat("z", len(s.Script))
	if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: other, Wait: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, to := range []int64{2, 1} { // a text with a patch, and the text alone
		before, had := w.revision(), len(w.keys(record.PartsPrefix))
		if _, err := w.Federations.Rollback(t.Context(), admin, "svc0", "", to, federations.ChangeRequest{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		bytes, revisions := w.written(before)
		t.Logf("the rollback to generation %d wrote %d bytes, %d a member, in %d revisions", to, bytes, bytes/n, revisions)
		if bytes > n*perMember+perFederation {
			t.Errorf("%d bytes were written by the rollback to generation %d", bytes, to)
		}
		if parts := len(w.keys(record.PartsPrefix)); parts != had {
			t.Errorf("the rollback to generation %d made %d parts of %d", to, parts, had)
		}
	}
}

// sent is what a replica's OSCAR is sent, without secrets, and its secrets.
func (w *world) sent(cluster, service string) (*oscar.Service, string) {
	w.t.Helper()
	d, ok := w.desired(cluster, service)
	if !ok {
		w.t.Fatalf("nothing is desired of %s/%s", cluster, service)
	}
	kv, err := w.store.Get(w.t.Context(), record.SpecKey(cluster, d.Spec))
	if err != nil {
		w.t.Fatal(err)
	}
	spec, err := store.Decode[record.Spec](kv)
	if err != nil {
		w.t.Fatal(err)
	}
	if shares := len(spec.Parts) > 0; shares != w.clusters[cluster].parts {
		w.t.Errorf("the spec of %s/%s has parts: %v", cluster, service, shares)
	}
	text, patch, err := w.Federations.OpenSpec(context.WithoutCancel(w.t.Context()), cluster, d, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	s, violations := oscar.ParseService(text)
	if len(violations) > 0 {
		w.t.Fatal(violations)
	}
	return s, string(patch)
}

// Of a federation the members whose syncers do not read parts have copies of their own, and all
// are sent the same; each generation can be shown and be made the next one.
func TestMembersWithPartsAndWithout(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newSharingWorld(t, func(c *controlplane.Config) { c.SweepInterval = time.Minute })
		w.guard("hunter2-hunter2", "hunter3-hunter3")
		b := w.clusters["b"]
		b.disconnect()
		b.parts = false
		b.connect()
		w.eventually(func() bool { s, err := w.Clusters.Get(t.Context(), admin, "b"); return err == nil && s.Alive })
		body := starOf(4, 20<<10)
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, body)); err != nil {
			t.Fatal(err)
		}
		check := func(memory, secret string) {
			t.Helper()
			for at, cluster := range map[string]string{"svc0": "a", "svc1": "b", "svc2": "c", "svc3": "a"} {
				s, patch := w.sent(cluster, at)
				if s.Memory != memory || len(s.Script) != 20<<10 || s.Name != at || s.ClusterID != cluster || !strings.Contains(patch, `"`+secret+`"`) || !strings.Contains(patch, `"token":"`) {
					t.Errorf("%s is sent as %s on %s with %s", at, s.Name, s.ClusterID, s.Memory)
				}
			}
		}
		check("1Gi", "hunter2-hunter2")
		change := func(body string) {
			t.Helper()
			if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: send(t, body).Service, Wait: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		change(strings.Replace(body, "1Gi", "2Gi", 1))
		check("2Gi", "hunter2-hunter2")
		change(strings.NewReplacer("1Gi", "3Gi", "hunter2", "hunter3").Replace(body))
		check("3Gi", "hunter3-hunter3")
		all, err := w.Federations.History(t.Context(), admin, "svc0", "")
		if err != nil || len(all) != 3 {
			t.Fatal(len(all), err)
		}
		for i, memory := range []string{"3Gi", "2Gi", "1Gi"} {
			if s := all[i].Service; s.Memory != memory || len(s.Script) != 20<<10 || len(s.Federation.Members) != 3 {
				t.Errorf("generation %d has %s", all[i].Generation, s.Memory)
			}
		}
		// The former secrets are in no record any more; their part is swept.
		w.eventually(func() bool { return len(w.keys(record.PartsPrefix)) == 4 })
		if _, err := w.Federations.Rollback(t.Context(), admin, "svc0", "", 1, federations.ChangeRequest{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		check("1Gi", "hunter3-hunter3")
		if _, err := w.Federations.DeleteService(t.Context(), admin, "svc0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		w.eventually(func() bool { return len(w.keys(record.PartsPrefix)) == 0 })
	})
}

// A syncer that was put back to a version that reads no parts gets copies of its own, in the same
// generation. One that reads them again gets parts with the next change.
func TestASyncerThatReadsPartsNoMoreGetsWholeSpecs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newSharingWorld(t)
		w.guard("hunter2-hunter2")
		body := starOf(5, 20<<10) // svc1 and svc4 are on b
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, body)); err != nil {
			t.Fatal(err)
		}
		b := w.clusters["b"]
		had, script := map[string]any{}, strings.Repeat("x", 20<<10)
		check := func(memory string, generation int64) {
			t.Helper()
			for at, cluster := range map[string]string{"svc0": "a", "svc1": "b", "svc2": "c", "svc4": "b"} {
				s, patch := w.sent(cluster, at)
				var secrets any
				if err := json.Unmarshal([]byte(patch), &secrets); err != nil {
					t.Fatal(err)
				}
				if s.Memory != memory || s.Script != script || s.Name != at || had[at] != nil && !reflect.DeepEqual(had[at], secrets) {
					t.Errorf("%s is sent as %s with %s, or with other secrets", at, s.Name, s.Memory)
				}
				had[at] = secrets
				if d, _ := w.desired(cluster, at); d.Generation != generation || d.Intent != record.IntentApply {
					t.Errorf("%s is at generation %d with intent %s", at, d.Generation, d.Intent)
				}
			}
		}
		whole := func(at string) bool { d, ok := w.desired("b", at); return ok && record.IsWholeSpec(d.Spec) }
		check("1Gi", 1)
		b.disconnect()
		b.parts = false
		b.connect()
		w.eventually(func() bool { return whole("svc1") && whole("svc4") })
		check("1Gi", 1)
		change := func(memory string) {
			t.Helper()
			s := send(t, strings.Replace(body, "1Gi", memory, 1)).Service
			if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		change("2Gi")
		check("2Gi", 2)
		b.disconnect()
		b.parts = true
		b.connect()
		w.eventually(func() bool { s, err := w.Clusters.Get(t.Context(), admin, "b"); return err == nil && s.Alive })
		change("3Gi")
		check("3Gi", 3)
		if whole("svc1") {
			t.Error("it reads parts again, and gets none")
		}
	})
}

// While an instance runs that does not read parts, everybody has a copy of its own.
func TestPartsWaitForTheOldestInstance(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newSharingWorld(t, func(c *controlplane.Config) { c.Forms = record.Forms{Reads: 1, Writes: 1} })
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, starOf(3, 20<<10))); err != nil {
			t.Fatal(err)
		}
		if parts := w.keys(record.PartsPrefix); len(parts) > 0 {
			t.Errorf("parts are written: %v", parts)
		}
	})
}

// A create that slept until what it had staged was swept stages its parts again.
func TestACreateThatStalledStagesItsPartsAgain(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		s := &stall{at: "controlplane.after_specs", held: make(chan []string, 1)}
		s.w = emptyWorld(t, embedded.Config{})
		s.w.parts = true
		s.w.guard()
		s.w.start(func(c *controlplane.Config) { c.SweepInterval, c.FailPoint = time.Minute, s.pass })
		if _, err := s.w.create(func(r *federations.CreateRequest) {
			r.Wait, r.Service.Script = patience, strings.Repeat("x", 4<<10) // a small one has no parts
		}); err != nil {
			t.Fatal(err)
		}
		if staged := <-s.held; !slices.ContainsFunc(staged, func(key string) bool { return record.ParseKey(key).Kind == record.KindPart }) {
			t.Errorf("swept were %v", staged)
		}
		s.w.whole("a", "b", "c")
	})
}
