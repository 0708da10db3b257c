package controlplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// audited are the entries, the oldest first, as "by action outcome generation".
func (w *world) audited(q request.AuditQuery) (words []string, entries []v1.AuditEntry) {
	w.t.Helper()
	entries, _, err := w.Requests.Audit(w.t.Context(), admin, q)
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(entries)
	for _, e := range entries {
		words = append(words, fmt.Sprintf("%s %s %s %d", e.By, e.Action, e.Outcome, e.Generation))
	}
	return words, entries
}

func TestTheAuditTellsWhoDidWhat(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		w.clusters["d"].does(no(record.ReasonDoesNotFit))
		add := federations.ReplicasRequest{Add: []oscar.Member{member("d", "grayifyr3")}}
		if _, err := w.changeReplicas(add); err == nil {
			t.Fatal("it was not refused")
		}
		w.clusters["d"].does(yes)
		if _, err := w.changeReplicas(add); err != nil {
			t.Fatal(err)
		}
		if _, err := w.changeReplicas(federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}}); err != nil {
			t.Fatal(err)
		}
		for _, paused := range []bool{true, true, false} {
			if _, err := w.Federations.Pause(t.Context(), admin, "grayifyr0", "", "", paused); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"create accepted 1", "create done 1", "change accepted 2", "change refused 2", "change accepted 2", "change done 2",
			"change done 3", "pause done 3", "resume done 3", "delete accepted 3", "delete done 3",
		}
		for i := range want {
			want[i] = identity.Admin + " " + want[i]
		}
		var words []string
		var entries []v1.AuditEntry
		w.eventually(func() bool {
			words, entries = w.audited(request.AuditQuery{Federation: "grayifyr0"})
			return len(words) >= len(want)
		})
		if !slices.Equal(words, want) {
			t.Fatalf("audit\n%s\nwant\n%s", strings.Join(words, "\n"), strings.Join(want, "\n"))
		}
		for i, pair := range [][2]int{{0, 1}, {2, 3}, {4, 5}, {9, 10}} {
			a, b := entries[pair[0]], entries[pair[1]]
			if a.RequestID == "" || a.RequestID != b.RequestID || a.Federation != b.Federation || a.ID >= b.ID {
				t.Errorf("pair %d: %+v and %+v", i, a, b)
			}
		}
		if !strings.Contains(entries[3].Detail, "refused by the test") {
			t.Errorf("refused: %+v", entries[3])
		}
		some, _ := w.audited(request.AuditQuery{RequestID: entries[2].RequestID})
		if len(some) != 2 {
			t.Errorf("of one request: %q", some)
		}
		page, _ := w.audited(request.AuditQuery{Federation: entries[0].Federation, Before: entries[3].ID, Limit: 2})
		if !slices.Equal(page, want[1:3]) {
			t.Errorf("a page: %q", page)
		}
		clusters, _ := w.audited(request.AuditQuery{ClusterID: "d"})
		if !slices.Equal(clusters, []string{identity.Admin + " register_cluster done 0"}) {
			t.Errorf("of a cluster: %q", clusters)
		}
	})
}

func TestTheAuditTellsOfCreationsThatFail(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["b"].does(no(record.ReasonNameTaken))
		if _, err := w.create(); err == nil {
			t.Fatal("it was created")
		}
		w.clusters["b"].does(func(service string, d *record.Desired) *record.Observed {
			if d.Intent == record.IntentApply {
				return &record.Observed{Phase: record.PhaseFailed, Reason: record.ReasonCreateFailed, Message: "no"}
			}
			return yes(service, d)
		})
		if _, err := w.create(); err == nil {
			t.Fatal("it was created")
		}
		want := []string{"create accepted 1", "create refused 1", "create accepted 1", "create failed 1", "create rolled_back 1"}
		for i := range want {
			want[i] = identity.Admin + " " + want[i]
		}
		var words []string
		w.eventually(func() bool {
			words, _ = w.audited(request.AuditQuery{Federation: "grayifyr0"})
			return len(words) >= len(want)
		})
		if !slices.Equal(words, want) {
			t.Errorf("audit %q, want %q", words, want)
		}
	})
}

func TestTheAuditKeepsTheNewest(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(c *controlplane.Config) { c.KeepAudit, c.SweepInterval = 2, time.Minute })
		w.mustCreate()
		var words []string
		w.eventually(func() bool {
			words, _ = w.audited(request.AuditQuery{})
			return len(words) == 2
		})
		if want := []string{identity.Admin + " create accepted 1", identity.Admin + " create done 1"}; !slices.Equal(words, want) {
			t.Errorf("kept %q, want %q", words, want)
		}
	})
}

// put writes a record past everybody.
func (w *world) put(key string, rec any) {
	w.t.Helper()
	if _, err := w.store.Update(w.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(key, rec)
		return nil
	}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestReadingsOfRefreshTokensMoveIntoTheAudit, where no syncer can take them away.
func TestReadingsOfRefreshTokensMoveIntoTheAudit(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		reading := func(at time.Time, federation, outcome string) any {
			return record.Reading{V: 1, At: record.At(at), Federation: federation, Owner: "somebody else", Serial: 7, Why: record.ReadExchange, Outcome: outcome}
		}
		young := time.Now().Add(-time.Second)
		for _, r := range []any{
			reading(young, v.UID, "done"), reading(young, v.UID, strings.Repeat("long ", 1000)), reading(young.Add(-time.Hour), "unknown", "done"),
			reading(young.Add(time.Hour), v.UID, ""), "no reading",
		} {
			w.put(record.ReadingKey("a", uuid.Must(uuid.NewV7()).String()), r)
		}
		open := record.ReadingKey("a", uuid.Must(uuid.NewV7()).String())
		w.put(open, reading(young, v.UID, ""))
		w.eventually(func() bool { return slices.Equal(w.keys(record.ReadingsPrefix("a")), []string{open}) })
		_, entries := w.audited(request.AuditQuery{ClusterID: "a"})
		var got []string
		for _, e := range entries {
			if e.Action != string(record.ActionReadToken) {
				continue
			}
			if len(e.Detail) > 300 || e.Owner == "somebody else" || e.GroupID == "grayifyr0" && e.Owner != identity.Admin {
				t.Errorf("%+v", e)
			}
			got = append(got, e.Outcome+" "+e.GroupID)
		}
		slices.Sort(got)
		if want := []string{"done grayifyr0", "done grayifyr0", "unknown grayifyr0"}; !slices.Equal(got, want) {
			t.Errorf("entries %q, want %q", got, want)
		}
	})
}

// TestTheAuditTellsWhoJoined, by the token of whom, once.
func TestTheAuditTellsWhoJoined(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		m := newMachine(t, "a", j.token("a", false))
		for range 2 { // the second time its answer was lost
			if _, err := j.Clusters.Join(t.Context(), m.request); err != nil {
				t.Fatal(err)
			}
		}
		words, entries := j.audited(request.AuditQuery{ClusterID: "a"})
		want := []string{identity.Admin + " register_cluster done 0", identity.Admin + " issue_join_token done 0", identity.Admin + " join done 0"}
		if !slices.Equal(words, want) {
			t.Fatalf("audit %q, want %q", words, want)
		}
		if key := j.registration("a").Joined.Key; !strings.Contains(entries[2].Detail, key) || strings.Contains(fmt.Sprint(entries), m.request.Token) {
			t.Errorf("%+v", entries)
		}
	})
}

// A cluster that reports readings of a federation that it holds no token of has one entry
// for all of them, and nobody else's entries go.
func TestAClusterDoesNotWashOutTheAudit(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(c *controlplane.Config) { c.KeepAudit, c.SweepInterval = 40, time.Minute })
		w.mustCreate()
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		before, _ := w.audited(request.AuditQuery{Limit: v1.MaxPage})
		for cluster, n := range map[string]int{"a": 300, "b": 300} { // a holds it
			for range n {
				w.put(record.ReadingKey(cluster, uuid.Must(uuid.NewV7()).String()),
					record.Reading{V: 1, At: record.At(time.Now()), Federation: v.UID, Serial: 7, Why: record.ReadExchange, Outcome: "done"})
			}
		}
		for _, cluster := range []string{"a", "b"} {
			w.eventually(func() bool { return len(w.keys(record.ReadingsPrefix(cluster))) == 0 })
		}
		w.eventually(func() bool { return len(w.keys(record.AuditPrefix)) <= 40 })
		_, left := w.audited(request.AuditQuery{Limit: v1.MaxPage})
		others, readings := 0, map[string]int{}
		for _, e := range left {
			if e.Action == string(record.ActionReadToken) {
				readings[e.ClusterID]++
			} else {
				others++
			}
		}
		if others != len(before) || readings["a"] == 0 || readings["b"] > 1 {
			t.Errorf("of %d entries %d are left beside %v", len(before), others, readings)
		}
	})
}
