package controlplane_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// lists writes records that lists show, and reads the lists.
type lists struct {
	*world
	random *rand.Rand
}

var listClusters = []string{"a", "b", "c"}

// newLists starts a control plane over federations of ann, bob and eve. All belong to nobody's
// syncer: the records change only when the test writes them.
func newLists(t *testing.T, n int) *lists {
	l := &lists{world: emptyWorld(t, embedded.Config{}), random: rand.New(rand.NewPCG(1, uint64(n)))}
	for i := range n {
		l.putFederation(i, "private")
	}
	for _, id := range listClusters {
		l.put(record.ClusterKey(id), record.Cluster{ClusterID: id, UID: "u" + id, State: record.ClusterActive, Labels: map[string]string{"tier": "edge", "id": id}})
	}
	l.ControlPlane, l.stop = startStoppable(t, l.store, l.identity)
	return l
}

func (l *lists) put(key string, rec any) {
	l.t.Helper()
	if _, err := l.store.Update(l.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		if rec == nil {
			tx.Delete(key)
			return nil
		}
		tx.Put(key, rec)
		return nil
	}}); err != nil {
		l.t.Fatal(err)
	}
}

func listOwner(i int) string { return []string{"ann", "bob", "eve"}[i%3] }

// putFederation writes a federation of two members and its definition.
func (l *lists) putFederation(i int, visibility string) {
	uid := fmt.Sprintf("f%04d", i)
	f := record.Federation{
		V: record.Version, UID: uid, Owner: listOwner(i), GroupID: fmt.Sprintf("g%04d", (i*37)%1000), Generation: 1, Phase: record.PhaseReady,
		Topology: "star", Delegation: "static", Deployment: "transactional", Drift: "report", Paused: true, Visibility: visibility, AllowedUsers: []string{"bob"},
	}
	for k := range 2 {
		f.Members = append(f.Members, record.Member{
			Type: "oscar", ClusterID: listClusters[(i+k)%3], ServiceName: fmt.Sprintf("s%04d-%d", (i*61)%1000, k), UID: fmt.Sprintf("%s-%d", uid, k), Coordinator: k == 0,
		})
	}
	l.put(record.FederationKey(uid), f)
	l.put(record.HistoryKey(uid, 1), record.History{V: record.Version, Owner: f.Owner,
		Service: json.RawMessage(fmt.Sprintf(`{"name":%q,"image":"i%d","labels":{"n":"%d"}}`, f.Members[0].ServiceName, i, i%5))})
}

// change changes something that lists show.
func (l *lists) change(n int) {
	i := l.random.IntN(n)
	uid := fmt.Sprintf("f%04d", i)
	at := listClusters[l.random.IntN(3)]
	switch l.random.IntN(6) {
	case 0:
		l.put(record.FederationKey(uid), nil)
		l.put(record.HistoryKey(uid, 1), nil)
	case 1:
		l.putFederation(n+l.random.IntN(n), "public")
	case 2:
		l.putFederation(i, []string{"public", "restricted", "private"}[l.random.IntN(3)])
	case 3:
		l.put(record.DesiredServiceKey(listClusters[i%3], fmt.Sprintf("s%04d-0", (i*61)%1000)), record.Desired{
			V: record.Version, UID: uid + "-0", Federation: uid, Owner: listOwner(i), Generation: 1, Intent: record.IntentApply, Mark: uid,
		})
	case 4:
		l.put(record.SessionKey(at), record.Session{V: record.Version, Version: fmt.Sprint(l.random.Int())})
	case 5:
		l.put(record.ClusterKey(at), record.Cluster{ClusterID: at, UID: "u" + at, State: record.ClusterActive, Labels: map[string]string{"n": fmt.Sprint(l.random.Int())}})
	}
}

// read reads one page as texts.
type read func(listing.Query) (texts []string, next string, err error)

func textsOf[T any](page *listing.Page[T], err error, show func(T) any) ([]string, string, error) {
	if err != nil {
		return nil, "", err
	}
	var out []string
	err = page.Each(func(one T) error {
		text, err := json.Marshal(show(one))
		out = append(out, string(text))
		return err
	})
	return out, page.Next, err
}

// kinds are the lists as a caller reads them.
func kinds(l *lists, cp *controlplane.ControlPlane, caller identity.Caller) map[string]read {
	ctx, now := l.t.Context(), time.Unix(1_800_000_000, 0)
	return map[string]read{
		"federations": func(q listing.Query) ([]string, string, error) {
			page, err := cp.Federations.List(ctx, caller, q)
			return textsOf(page, err, func(f *view.Federation) any { return f.Wire(now) })
		},
		"services": func(q listing.Query) ([]string, string, error) {
			page, err := cp.Federations.Services(ctx, caller, q, true)
			return textsOf(page, err, func(s federations.ListedService) any { return []any{s.Service, s.Deployment} })
		},
		"replicas": func(q listing.Query) ([]string, string, error) {
			page, err := cp.Federations.ReplicaStatuses(ctx, caller, q)
			return textsOf(page, err, func(s v1.ServiceStatus) any { return s })
		},
		"clusters": func(q listing.Query) ([]string, string, error) {
			page, err := cp.Clusters.List(ctx, caller, q)
			return textsOf(page, err, func(c *clusters.Cluster) any { return c })
		},
	}
}

// TestPagesAreOneViewWhileTheStoreChanges: the pages of a list are together what the list was when
// the first of them was read, whatever is made, changed and deleted between them.
func TestPagesAreOneViewWhileTheStoreChanges(t *testing.T) {
	for _, kind := range []string{"federations", "services", "clusters"} {
		t.Run(kind, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				const n = 40
				l := newLists(t, n)
				list := kinds(l, l.ControlPlane, admin)[kind]
				for round := range 4 {
					want, none, err := list(listing.Query{})
					if err != nil || none != "" || len(want) < 3 {
						t.Fatalf("%d entries, token %q: %v", len(want), none, err)
					}
					q := listing.Query{Limit: 2 + round}
					if kind == "clusters" {
						q.Limit = 1
					}
					var got []string
					for pages := 0; ; pages++ {
						some, next, err := list(q)
						if err != nil || len(some) > q.Limit || next != "" && len(some) < q.Limit {
							t.Fatalf("page %d has %d entries: %v", pages, len(some), err)
						}
						got = append(got, some...)
						if q.Continue = next; next == "" {
							break
						}
						l.change(n)
						l.change(n)
					}
					if !slices.Equal(got, want) {
						for i := range min(len(got), len(want)) {
							if got[i] != want[i] {
								t.Errorf("entry %d is\n %s\nand was\n %s", i, got[i], want[i])
								break
							}
						}
						t.Fatalf("the pages have %d entries, and the list had %d", len(got), len(want))
					}
				}
			})
		})
	}
}

// TestPagesShowNothingThatMayNoLongerBeSeen although it could be seen at their revision.
func TestPagesShowNothingThatMayNoLongerBeSeen(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		l := newLists(t, 0)
		for i := range 10 {
			l.putFederation(3*i, "restricted") // ann's, and bob may see them
		}
		for kind, list := range kinds(l, l.ControlPlane, identity.Caller{Subject: "bob"}) {
			if kind == "clusters" {
				continue
			}
			first, next, err := list(listing.Query{Limit: 2})
			if err != nil || len(first) != 2 || next == "" {
				t.Fatalf("%s: %d entries: %v", kind, len(first), err)
			}
			for i := range 10 {
				l.putFederation(3*i, "private")
			}
			rest, next, err := list(listing.Query{Limit: 2, Continue: next})
			if err != nil || len(rest) != 0 || next != "" {
				t.Errorf("%s: %d entries are shown, token %q: %v", kind, len(rest), next, err)
			}
			for i := range 10 {
				l.putFederation(3*i, "restricted")
			}
		}
	})
}

// TestFiltersTellNothingOfWhatIsNotSeen, and choose among the rest.
func TestFiltersTellNothingOfWhatIsNotSeen(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const n = 30
		l := newLists(t, n)
		selector, err := labels.Parse("n in (1,2)")
		if err != nil {
			t.Fatal(err)
		}
		ann, bob := identity.Caller{Subject: "ann"}, identity.Caller{Subject: "bob"}
		for _, tt := range []struct {
			caller                identity.Caller
			q                     listing.Query
			federations, services int
		}{
			{admin, listing.Query{}, n, 2 * n},
			{admin, listing.Query{Owner: "ann"}, n / 3, 2 * n / 3},
			{admin, listing.Query{ClusterID: "a"}, 2 * n / 3, 2 * n / 3},
			{admin, listing.Query{Labels: selector}, 2 * n / 5, 4 * n / 5},
			{admin, listing.Query{Phases: []string{"degraded"}}, n, 0},
			{admin, listing.Query{Phases: []string{"deleted", "x"}}, 0, 2 * n},
			{ann, listing.Query{}, n / 3, 2 * n / 3},
			{ann, listing.Query{Labels: selector}, 4, 8},
			{bob, listing.Query{Owner: "ann"}, 0, 0},
			{bob, listing.Query{Owner: "ann", Labels: selector}, 0, 0},
		} {
			for kind, list := range kinds(l, l.ControlPlane, tt.caller) {
				want := map[string]int{"federations": tt.federations, "services": tt.services, "replicas": tt.services}[kind]
				if kind == "clusters" {
					continue
				}
				all, _, err := list(tt.q)
				if err != nil || len(all) != want {
					t.Errorf("%s of %+v for %s: %d, want %d: %v", kind, tt.q, tt.caller, len(all), want, err)
				}
				paged := tt.q
				paged.Limit = max(want, 1) // exactly full: there is nothing more, however much is hidden
				if some, next, err := list(paged); err != nil || next != "" || !slices.Equal(some, all) {
					t.Errorf("%s of %+v for %s in one page: %d, token %q: %v", kind, tt.q, tt.caller, len(some), next, err)
				}
			}
		}
	})
}

// TestARevisionThatIsGoneIsTold: an instance that started later does not know it. The list can be
// gone on with all the same.
func TestARevisionThatIsGoneIsTold(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		l := newLists(t, 12)
		first := kinds(l, l.ControlPlane, admin)
		tokens := map[string]string{}
		for kind, list := range first {
			_, next, err := list(listing.Query{Limit: 2})
			if err != nil || next == "" {
				t.Fatal(kind, err)
			}
			tokens[kind] = next
		}
		for range 5 {
			l.putFederation(100+l.random.IntN(5), "private")
		}
		later := startControlPlane(t, l.net.Open(t, "later", store.Config{}), l.identity)
		for kind, list := range kinds(l, later, admin) {
			q := listing.Query{Limit: 2, Continue: tokens[kind]}
			_, _, err := list(q)
			gone, ok := errors.AsType[*fault.Error](err)
			if !ok || gone.Code != fault.CodeExpired || gone.Continue == "" {
				t.Fatalf("%s: %v", kind, err)
			}
			q.Continue = gone.Continue
			some, _, err := list(q)
			if err != nil || len(some) == 0 {
				t.Errorf("%s cannot be gone on with: %d, %v", kind, len(some), err)
			}
			// The instance that gave it, and one that followed since, take the token.
			if _, _, err := first[kind](listing.Query{Limit: 2, Continue: tokens[kind]}); err != nil {
				t.Errorf("%s at the first instance: %v", kind, err)
			}
			now, next, err := list(listing.Query{Limit: 1})
			if err != nil || next == "" {
				t.Fatal(kind, err)
			}
			here, _, _ := list(listing.Query{Continue: next})
			there, _, err := first[kind](listing.Query{Continue: next})
			if err != nil || !slices.Equal(here, there) || len(now) != 1 {
				t.Errorf("%s: another instance continues with %d entries, and not %d: %v", kind, len(there), len(here), err)
			}
		}
	})
}

// TestTheAuditIsReadInPages, which are of one revision.
func TestTheAuditIsReadInPages(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		l := newLists(t, 0)
		for i := range 9 {
			l.put(record.AuditKey(fmt.Sprintf("0%d", i)), record.Audit{V: record.Version, By: "ann", Action: record.ActionChange})
		}
		q, got := request.AuditQuery{By: "ann", Limit: 4}, ""
		for {
			some, next, err := l.Requests.Audit(t.Context(), admin, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range some {
				got += e.ID + " "
			}
			if q.Continue = next; next == "" {
				break
			}
			l.put(record.AuditKey("00"), nil)
			l.put(record.AuditKey("035"), record.Audit{V: record.Version, By: "ann", Action: record.ActionChange})
		}
		if want := "08 07 06 05 04 03 02 01 00 "; got != want {
			t.Errorf("got %s", got)
		}
		q = request.AuditQuery{By: "ann", Limit: 4}
		q.Continue = strings.Repeat("x", 40)
		if _, _, err := l.Requests.Audit(t.Context(), admin, q); codeOf(t, err) != fault.CodeInvalid {
			t.Errorf("a token that was made up: %v", err)
		}
	})
}

// TestAUserSeesTheAuditOfHisOwn: what he did and what was done about what he owns, at one instance
// and at another, and nothing that tells of others.
func TestAUserSeesTheAuditOfHisOwn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		l := newLists(t, 0)
		n := 0
		enter := func(e record.Audit) string {
			e.V, e.Action = record.Version, record.ActionChange
			n++
			id := fmt.Sprintf("%04d", n)
			l.put(record.AuditKey(id), e)
			return id
		}
		own := []string{
			enter(record.Audit{By: "ann", Owner: "ann"}), enter(record.Audit{By: identity.Admin, Owner: "ann"}),
			enter(record.Audit{Owner: "ann", ClusterID: "a"}), enter(record.Audit{By: "ann", Owner: "bob"}), enter(record.Audit{By: "ann"}),
		}
		for _, e := range []record.Audit{{}, {By: "bob", Owner: "bob"}, {By: identity.Admin, ClusterID: "a"}, {Owner: identity.Admin}, {By: "anna", Owner: "anna"}} {
			enter(e)
		}
		gone := enter(record.Audit{By: "ann"})
		l.put(record.AuditKey(gone), nil)
		slices.Reverse(own)
		ann := identity.Caller{Subject: "ann"}
		for what, cp := range map[string]*controlplane.ControlPlane{
			"told": l.ControlPlane, "listed": startControlPlane(t, l.net.Open(t, "later", store.Config{}), l.identity),
		} {
			for _, tt := range []struct {
				caller identity.Caller
				q      request.AuditQuery
				want   []string
			}{
				{ann, request.AuditQuery{}, own},
				{ann, request.AuditQuery{Limit: 2}, own},
				{ann, request.AuditQuery{Limit: 5}, own},
				{ann, request.AuditQuery{Before: own[1]}, own[2:]},
				{ann, request.AuditQuery{By: identity.Admin}, []string{own[3]}},
				{ann, request.AuditQuery{By: "bob"}, nil},
				{ann, request.AuditQuery{ClusterID: "a", Limit: 1}, []string{own[2]}},
				{identity.Caller{Subject: "eve"}, request.AuditQuery{}, nil},
				{identity.Caller{}, request.AuditQuery{}, nil},
			} {
				var got []string
				for more := true; more; more = tt.q.Continue != "" {
					some, next, err := cp.Requests.Audit(t.Context(), tt.caller, tt.q)
					if err != nil || tt.q.Limit > 0 && len(some) > tt.q.Limit {
						t.Fatalf("%s, %+v: %d entries, %v", what, tt.q, len(some), err)
					}
					for _, e := range some {
						got = append(got, e.ID)
					}
					tt.q.Continue = next
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("%s, %s asks %+v: %q, want %q", what, tt.caller, tt.q, got, tt.want)
				}
			}
		}
	})
}

// TestOnePageReadsSoMuchOfTheAudit, and no more, when nothing matches.
func TestOnePageReadsSoMuchOfTheAudit(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const n, atOnce = 5_200, 100
		l := newLists(t, 0)
		for first := 0; first < n; first += atOnce {
			if _, err := l.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
				for i := range atOnce {
					e := record.Audit{V: record.Version, By: "ann", Action: record.ActionChange}
					if first+i == 0 {
						e.ClusterID = "a"
					}
					tx.Put(record.AuditKey(fmt.Sprintf("%05d", first+i)), e)
				}
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, caller := range []identity.Caller{admin, {Subject: "ann"}} {
			q := request.AuditQuery{ClusterID: "a"}
			some, next, err := l.Requests.Audit(t.Context(), caller, q)
			if err != nil || len(some) != 0 || next == "" {
				t.Fatalf("%s: %d entries, token %q: %v", caller, len(some), next, err)
			}
			q.Continue = next
			if some, next, err = l.Requests.Audit(t.Context(), caller, q); err != nil || len(some) != 1 || next != "" {
				t.Errorf("%s: then %d entries, token %q: %v", caller, len(some), next, err)
			}
		}
	})
}
