package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// votes plans with a question to the clusters, and gives the answer of each, with why.
func votes(w *world.World, with *client.Client, body string) map[string]string {
	w.T.Helper()
	before, wrote := w.Revision(), writesToOSCARs(w)
	plan, err := with.Plan(w.T.Context(), world.Service(w.T, body), client.PlanOptions{Ask: true})
	if err != nil {
		w.T.Fatal(err)
	}
	if now := w.Revision(); now != before {
		w.T.Errorf("asking cost %d revisions", now-before)
	}
	if now := writesToOSCARs(w); now != wrote {
		w.T.Errorf("asking cost %d writes to OSCARs", now-wrote)
	}
	out := map[string]string{}
	for _, r := range plan.Replicas {
		switch {
		case r.Vote == nil:
			out[r.ClusterID] = "not asked"
		case r.Vote.Answer == v1.VoteUnknown:
			out[r.ClusterID] = "unknown: " + r.Vote.Message
		default:
			out[r.ClusterID] = strings.TrimSpace(r.Vote.Answer + " " + r.Vote.Reason)
		}
	}
	return out
}

func writesToOSCARs(w *world.World) (n int) {
	for _, id := range []string{a, b, c} {
		for _, call := range w.Cluster(id).Sim.Log() {
			if slices.Contains([]oscarsim.Op{oscarsim.OpCreate, oscarsim.OpUpdate, oscarsim.OpDelete}, call.Op) {
				n++
			}
		}
	}
	return n
}

func wantVotes(t *testing.T, got map[string]string, ofA, ofB, ofC string) {
	t.Helper()
	for id, want := range map[string]string{a: ofA, b: ofB, c: ofC} {
		if got[id] != want {
			t.Errorf("%s: %q, not %q", id, got[id], want)
		}
	}
}

// A plan that asks tells what a creation would be told, and leaves no trace.
func TestAPlanThatAsksTellsWhatTheClustersWouldVote(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.AwaitStreams(w.CP)
		wantVotes(t, votes(w, w.Client, body), "yes", "yes", "yes")

		foreign := `{"name":"` + names[1] + `","image":"i","script":"s","cpu":"0.1","memory":"64Mi"}`
		if err := w.Cluster(b).Sim.PutService(foreign); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.SetClusterState(t.Context(), c, "paused"); err != nil {
			t.Fatal(err)
		}
		w.Eventually("both are seen", func() bool {
			got := votes(w, w.Client, body)
			return got[b] == "no NameTaken" && got[c] == "unknown: the cluster is paused" && got[a] == "yes"
		})
		if _, err := create(w, body); codeOf(err) == "" {
			t.Error("it was created all the same")
		}

		// What is there is not voted on; a new member is.
		if _, err := w.Client.SetClusterState(t.Context(), c, "active"); err != nil {
			t.Fatal(err)
		}
		two := strings.Replace(body, `{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1"},`, "", 1)
		if _, err := create(w, two); err != nil {
			t.Fatal(err)
		}
		wantVotes(t, votes(w, w.Client, body), "not asked", "no NameTaken", "not asked")
	})
}

// A cluster whose syncer is gone, or whose OSCAR hangs, keeps nobody's answer from being told.
func TestAPlanThatAsksWaitsForNobodyLong(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.AwaitStreams(w.CP)
		for _, op := range []oscarsim.Op{oscarsim.OpList, oscarsim.OpBuckets} {
			if err := w.Cluster(b).Sim.SetFault(oscarsim.Fault{Op: op, Fault: oscarsim.FaultHang}); err != nil {
				t.Fatal(err)
			}
		}
		got := votes(w, w.Client, body)
		if got[a] != "yes" || got[c] != "yes" || !strings.HasPrefix(got[b], "unknown: ") {
			t.Error(got)
		}
	})
}

// A user is told about his service by his own token alone, which only the clusters of the plan get; one
// that an OSCAR does not let in learns nothing else of it.
func TestAUserAsksWithHisOwnToken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t, func(o *world.Options) {
			o.Sim = func(cfg *oscarsim.Config) {
				if cfg.ClusterID == c {
					cfg.Groups = []string{"others"}
				}
			}
		})
		w.AwaitStreams(w.CP)
		for _, id := range []string{b, c} {
			if err := w.Cluster(id).Sim.PutService(`{"name":"` + names[map[string]int{b: 1, c: 2}[id]] + `","image":"i","script":"s"}`); err != nil {
				t.Fatal(err)
			}
		}
		user := w.WithToken(w.Token(alice, nil))
		if _, err := user.WhoAmI(t.Context()); err != nil { // her issuer is noted
			t.Fatal(err)
		}
		wantVotes(t, votes(w, user, nobodysTurn()), "yes", "no NameTaken", "no NotAllowed")

		// Somebody else, the administrator too, has no token of hers to ask with.
		one := strings.Replace(nobodysTurn(), `,
{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"grayifyr2"}`, "", 1)
		one = strings.Replace(one, "grayifyr1", "another", 1)
		if err := createAs(w, w.Token(alice, nil), one, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		status, _, answer := w.Do(http.MethodPost, "/system/plans?ask=true", nobodysTurn())
		if status != http.StatusOK || !strings.Contains(answer, `"answer":"unknown"`) || !strings.Contains(answer, "he can ask himself") {
			t.Errorf("%d %s", status, answer)
		}
	})
}
