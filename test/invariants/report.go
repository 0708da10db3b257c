package invariants

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// Rule names what was broken.
type Rule string

// The rules. The numbers are those of the promises.
const (
	RuleRecords  Rule = "0 records"
	RuleAtomic   Rule = "1 atomic graph"
	RuleUnique   Rule = "2 unique places"
	RuleGraph    Rule = "3 topology"
	RuleWriters  Rule = "4 writers"
	RuleAbsence  Rule = "5 absence is no order"
	RuleOurs     Rule = "6 ours"
	RuleData     Rule = "7 user data"
	RuleJobs     Rule = "8 jobs"
	RuleSecrets  Rule = "9 secrets"
	RuleStatus   Rule = "10 generations"
	RuleRequests Rule = "11 requests"
	RuleVotes    Rule = "votes"
	// RuleClusters is about the removal of a cluster, and of what comes back.
	RuleClusters Rule = "clusters"
	// RuleJoins is about the identity of a cluster.
	RuleJoins  Rule = "joins"
	RuleEpochs Rule = "epochs"
)

// Violation is one broken promise. One that lasts is reported at the revision at
// which it was first seen.
type Violation struct {
	// Revision is the store's revision at which it was seen.
	Revision int64
	Rule     Rule
	// Key is the key that shows it.
	Key     string
	Message string
}

func (v Violation) String() string {
	return fmt.Sprintf("revision %d: %s: %s: %s", v.Revision, v.Rule, strings.TrimPrefix(v.Key, record.Root), v.Message)
}

// Report is what a check found.
type Report struct {
	// Revisions is how many revisions were checked: those that changed a key of ours.
	Revisions int64
	// Last is the revision of the store up to which everything was read.
	Last       int64
	Violations []Violation

	order       []string
	federations map[string]*touches
	transitions map[Transition]bool
}

// newReport is the report of a history of which nothing was read beyond a revision.
func newReport(last int64) *Report {
	return &Report{Last: last, federations: map[string]*touches{}, transitions: map[Transition]bool{}}
}

// touches are the revisions that concerned one federation.
type touches struct {
	revisions []int64
	// outcome is the first revision at which its creation was not in flight any
	// more, and deletion the one that turned it into tombstones; 0: not yet.
	outcome, deletion int64
}

// ErrNothingChecked says that the store has no history of ours: a test whose
// guard saw nothing proves nothing.
var ErrNothingChecked = errors.New("no revision was checked")

// Err is nil when at least one revision was checked and none broke a rule.
// Otherwise it has a line for each violation.
func (r *Report) Err() error {
	if r.Revisions == 0 {
		return ErrNothingChecked
	}
	errs := make([]error, len(r.Violations))
	for i, v := range r.Violations {
		errs[i] = errors.New(v.String())
	}
	return errors.Join(errs...)
}

// Federations lists the uids of all federations that ever were, oldest first.
func (r *Report) Federations() []string { return slices.Clone(r.order) }

// RevisionsOf lists the revisions that touched a federation: its record, its name
// and request, the desired and observed records and the memories of its replicas.
// Those that wrote only specs or history are not counted.
func (r *Report) RevisionsOf(uid string) []int64 {
	if t := r.federations[uid]; t != nil {
		return slices.Clone(t.revisions)
	}
	return nil
}

// Cost counts the revisions that touched one federation, as RevisionsOf does.
type Cost struct {
	// Create counts those up to the one that decided the outcome of the creation:
	// 2n+3 for n replicas that say yes and become ready.
	Create int
	// Life counts those between outcome and deletion.
	Life int
	// Delete counts those from the one that turned it into tombstones to the last:
	// n+2 for n replicas when no cluster is away.
	Delete int
}

// CostOf splits RevisionsOf into the parts of a federation's life.
func (r *Report) CostOf(uid string) Cost {
	var c Cost
	t := r.federations[uid]
	if t == nil {
		return c
	}
	for _, revision := range t.revisions {
		switch {
		case t.deletion != 0 && revision >= t.deletion:
			c.Delete++
		case t.outcome == 0 || revision <= t.outcome:
			c.Create++
		default:
			c.Life++
		}
	}
	return c
}

// touch notes that a revision concerned a federation.
func (r *Report) touch(uid string, revision int64) *touches {
	t := r.federations[uid]
	if t == nil {
		t = &touches{}
		r.federations[uid] = t
		r.order = append(r.order, uid)
	}
	if n := len(t.revisions); n == 0 || t.revisions[n-1] != revision {
		t.revisions = append(t.revisions, revision)
	}
	return t
}
