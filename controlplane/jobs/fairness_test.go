package jobs

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// simulation is clusters with places for so many jobs, each of one processor, and the jobs of accounts,
// each of which has a federation on all clusters. Rounds assign, and jobs end when the test says so.
type simulation struct {
	clusters, places int
	weights          map[string]float64
	recipient        string
	// waiting are the jobs of each account, and running those at each cluster, as account/job.
	waiting map[string][]string
	running []map[string]string
	jobs    int
	// forgets says that no record tells what a job takes.
	forgets bool
	// elsewhere is an account whose federation has an endpoint alone, and second the account of a federation
	// that has another name.
	elsewhere, second string
}

func newSimulation(t testing.TB, clusters, places int, weights map[string]float64) *simulation {
	t.Helper()
	identity, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	s := &simulation{clusters: clusters, places: places, weights: weights, recipient: identity.Recipient(), waiting: map[string][]string{}}
	for range clusters {
		s.running = append(s.running, map[string]string{})
	}
	return s
}

// submit queues jobs of an account.
func (s *simulation) submit(account string, n int) {
	for range n {
		s.jobs++
		s.waiting[account] = append(s.waiting[account], fmt.Sprintf("job-%08d", s.jobs))
	}
}

// place is what a job takes.
var place = delegation.Request{CPU: 1000, Memory: 1 << 20}

func clusterAt(i int) string { return fmt.Sprintf("cluster-%02d", i) }

// view is the store as it stands.
func (s *simulation) view(t testing.TB) *view.View {
	t.Helper()
	var kvs []store.KV
	put := func(key string, rec any) {
		value, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		kvs = append(kvs, store.KV{Key: key, Value: value, CreateRevision: int64(len(kvs) + 1), ModRevision: int64(len(kvs) + 1)})
	}
	all := int64(s.places) * place.CPU
	room := roomOf(place)
	at := record.At(time.Now())
	job := func(id, account string) record.Job {
		owner := account
		if account == "second" && s.second != "" {
			owner = s.second
		}
		return record.Job{
			V: record.Version, Job: id, Federation: account, GroupID: account, Owner: owner, Cluster: clusterAt(0), Service: account,
			State: record.JobQueued, RequestID: record.NewUID(), AcceptedAt: at, ChangedAt: at,
		}
	}
	for i, running := range s.running {
		id := clusterAt(i)
		put(record.ClusterKey(id), record.Cluster{V: record.Version, ClusterID: id, State: record.ClusterActive, UID: id})
		put(record.SessionKey(id), record.Session{V: record.Version})
		put(record.CapacityKey(id), record.Capacity{V: record.Version, Session: int64(len(kvs)), Nodes: []record.CapacityNode{{
			Name: "n", Status: record.NodeReady, CPU: record.NodeAmount{Allocatable: all, Free: all},
			Memory: record.NodeMemory{Allocatable: 64 << 30, Free: 64 << 30},
		}}})
		put(record.ObservedClusterKey(id), record.ObservedCluster{V: record.Version, Recipient: s.recipient})
		put(record.ReservedKey(id), record.Reserved{V: record.Version, Jobs: promise(nil, room, int64(len(running)))})
		for name, account := range running {
			j := job(name, account)
			j.State, j.Attempt, j.Reserved = record.JobAssigned, 1, &room
			j.Place = &record.Place{ClusterID: id, ServiceName: account, UID: account + id, ClusterUID: id, Takes: &room}
			if s.forgets {
				j.Place.Takes = nil
			}
			put(record.JobKey(name), j)
		}
	}
	for account, waiting := range s.waiting {
		f := record.Federation{
			V: record.Version, UID: account, GroupID: account, Owner: account, Phase: record.PhaseReady, Generation: 1,
			Topology: oscar.TopologyMesh, Delegation: oscar.DelegationStatic,
		}
		for i := range s.running {
			m := record.Member{ClusterID: clusterAt(i), ServiceName: account, UID: account + clusterAt(i)}
			f.Members = append(f.Members, m)
			put(record.DesiredServiceKey(m.ClusterID, account), record.Desired{V: record.Version, UID: m.UID, Federation: account, Intent: record.IntentApply})
			put(record.ObservedServiceKey(m.ClusterID, account), record.Observed{V: record.Version, UID: m.UID, Phase: record.PhaseReady})
		}
		if account == s.elsewhere {
			f.Members = []record.Member{{URL: "https://endpoint.example"}}
		}
		put(record.FederationKey(account), f)
		for _, id := range waiting {
			put(record.JobKey(id), job(id, account))
		}
	}
	return view.Of(kvs...)
}

// assign makes rounds until none assigns anything, and returns the accounts in the order of assignment.
func (s *simulation) assign(t testing.TB) (order []string) {
	t.Helper()
	need := &Needs{generation: 1, request: place}
	for {
		p := newRound(&clock.FirstSeen{}, time.Now(), Weights{Accounts: s.weights}, func(*record.Federation) *Needs { return need })
		p.fill(s.view(t))
		if len(p.steps) == 0 {
			return order
		}
		for _, step := range p.steps {
			account, id := step.next.Federation, step.next.Job
			if s.waiting[account][0] != id {
				t.Fatalf("%s is assigned before %s", id, s.waiting[account][0])
			}
			s.waiting[account] = s.waiting[account][1:]
			for i := range s.running {
				if clusterAt(i) == step.next.Place.ClusterID {
					s.running[i][id] = account
				}
			}
			order = append(order, account)
		}
	}
}

// end ends one job of an account at a cluster.
func (s *simulation) end(cluster int, account string) {
	for id, of := range s.running[cluster] {
		if of == account {
			delete(s.running[cluster], id)
			return
		}
	}
}

// held counts the jobs of accounts at a cluster.
func (s *simulation) held(cluster int) map[string]int {
	out := map[string]int{}
	for _, account := range s.running[cluster] {
		out[account]++
	}
	return out
}

// A user with 20,000 queued jobs delays another one's first job by at most one job's place on each cluster:
// the first place that is given back on any cluster is for it.
func TestAFloodDelaysAnothersFirstJobByOnePlace(t *testing.T) {
	s := newSimulation(t, 3, 4, nil)
	s.submit("flood", 20_000)
	s.assign(t)
	for i := range s.clusters {
		if got := s.held(i)["flood"]; got != s.places {
			t.Fatalf("alone it has %d of the %d places of a cluster", got, s.places)
		}
	}
	for i := range s.clusters {
		account := fmt.Sprint("user-", i)
		s.submit(account, 1)
		s.end(i, "flood")
		if order := s.assign(t); len(order) != 1 || order[0] != account {
			t.Errorf("the place that was given back on %s went to %v, not to %s", clusterAt(i), order, account)
		}
	}
}

// Jobs that take no part of any cluster, as those to endpoints, fill no transaction while others wait that were
// accepted after them, and each of those gets its part.
func TestJobsThatTakeNothingLeaveAPlaceForOthers(t *testing.T) {
	for name, elsewhere := range map[string]string{"to an endpoint": "flood", "that request nothing": ""} {
		s := newSimulation(t, 1, 8, nil)
		s.submit("holds", 4)
		s.assign(t)
		s.submit("flood", 400)
		s.submit("first", 2)
		s.submit("holds", 2)
		s.elsewhere = elsewhere
		need, free := &Needs{generation: 1, request: place}, &Needs{generation: 1}
		p := newRound(&clock.FirstSeen{}, time.Now(), Weights{}, func(f *record.Federation) *Needs {
			if f.UID == "flood" {
				return free
			}
			return need
		})
		p.fill(s.view(t))
		got := map[string]int{}
		for _, step := range p.steps {
			got[step.next.Federation]++
		}
		if len(p.steps) != assignAtOnce || got["first"] != 2 || got["holds"] != 2 {
			t.Errorf("%s: the first transaction has %v", name, got)
		}
	}
}

// TestAnAccountWhoseJobsTakeMoreThanCanBeCountedGoesLast: a changed definition may request anything while its jobs run,
// and records of the release before do not tell what those take.
func TestAnAccountWhoseJobsTakeMoreThanCanBeCountedGoesLast(t *testing.T) {
	for name, request := range map[string]delegation.Request{
		"a quarter of all numbers": {CPU: 1 << 62, Memory: 1 << 62},
		"the largest number":       {CPU: math.MaxInt64, Memory: math.MaxInt64},
	} {
		if order := orderAfterAChange(t, true, 4, 2, request); !slices.Equal(order, []string{"other", "other"}) {
			t.Errorf("%s: the two places go to %v", name, order)
		}
	}
}

// TestAChangedDefinitionMakesNoRunningJobSmaller: what runs takes what it took when it was assigned. An account would
// get what others have to get by a change of its definition.
func TestAChangedDefinitionMakesNoRunningJobSmaller(t *testing.T) {
	for name, request := range map[string]delegation.Request{"next to nothing": {CPU: 1, Memory: 1}, "all": {CPU: 1 << 40, Memory: 1 << 40}} {
		for held, want := range map[[2]int][]string{{4, 2}: {"other", "other"}, {2, 4}: {"second", "second"}} {
			if order := orderAfterAChange(t, false, held[0], held[1], request); !slices.Equal(order, want) {
				t.Errorf("%s, and %d of its jobs run beside %d of another's: the two places go to %v", name, held[0], held[1], order)
			}
		}
	}
}

// orderAfterAChange is to whom the last two of eight places go when jobs of two accounts run there, and the definition of the first
// one's has come to request something else. Its waiting jobs are of its second federation.
func orderAfterAChange(t *testing.T, forgets bool, first, other int, request delegation.Request) (order []string) {
	t.Helper()
	s := newSimulation(t, 1, 8, nil)
	s.submit("first", first)
	s.submit("other", other)
	s.assign(t)
	s.second, s.forgets = "first", forgets
	s.submit("second", 2)
	s.submit("other", 2)
	changed, need := &Needs{generation: 1, request: request}, &Needs{generation: 1, request: place}
	p := newRound(&clock.FirstSeen{}, time.Now(), Weights{}, func(f *record.Federation) *Needs {
		if f.UID == "first" {
			return changed
		}
		return need
	})
	p.fill(s.view(t))
	for _, step := range p.steps {
		order = append(order, step.next.Federation)
	}
	return order
}

// Users that always have more jobs come to have their weights' parts of each cluster, within one place for
// each of the others, whichever job ends when.
func TestAccountsShareEachClusterByWeight(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		weights, sum := map[string]float64{}, 0.0
		for i := range 2 + random.IntN(3) {
			w := 0.5 + 5*random.Float64()
			weights[fmt.Sprint("user-", i)], sum = w, sum+w
		}
		s := newSimulation(t, 2, 8+random.IntN(8), weights)
		for account := range weights { // one after another: the first has all places
			s.submit(account, 8*s.places)
			s.assign(t)
		}
		for range 2 { // in which every job ends, some at a time
			for i := range s.running {
				for account, n := range s.held(i) {
					for n > 0 {
						some := 1 + random.IntN(n)
						n -= some
						for range some {
							s.end(i, account)
						}
						s.assign(t)
					}
				}
			}
		}
		for i := range s.running {
			held := s.held(i)
			for account, w := range weights {
				if want := float64(s.places) * w / sum; math.Abs(float64(held[account])-want) > float64(len(weights)) {
					t.Errorf("seed %d: %s of weight %.2f has %d of %d places of %s, want %.1f", seed, account, w, held[account], s.places, clusterAt(i), want)
				}
			}
		}
	}
}
