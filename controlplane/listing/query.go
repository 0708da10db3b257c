package listing

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// Limit is how many entries a page of jobs, events or the audit has, when so many are asked for: 100
// without a number.
func Limit(asked int) int { return min(cmp.Or(max(asked, 0), 100), v1.MaxPage) }

// Query is what a caller asks of a list. Empty fields match everything.
type Query struct {
	// Limit is how many entries the page has at most; 0 is all.
	Limit int
	// Continue is the token of the page before; empty for the first one.
	Continue string
	// Labels selects by labels; nil selects all.
	Labels labels.Selector
	// Phases: an entry is in one of them.
	Phases []string
	// ClusterID is a cluster that an entry is on, and Owner is whose it is.
	ClusterID, Owner string
}

// MatchesOwner says whether the query asks for what an owner has.
func (q *Query) MatchesOwner(owner string) bool { return q.Owner == "" || q.Owner == owner }

// MatchesPhase says whether the query asks for a phase.
func (q *Query) MatchesPhase(phase string) bool {
	return len(q.Phases) == 0 || slices.Contains(q.Phases, phase)
}

// MatchesLabels says whether the query asks for labels.
func (q *Query) MatchesLabels(of map[string]string) bool {
	return q.Labels == nil || q.Labels.Matches(labels.Set(of))
}

// Page is a part of a list. Each calls fn with its entries, in order; it may be called once.
type Page[T any] struct {
	// Next continues the list behind this page; empty when there is nothing more.
	Next string
	Each func(fn func(T) error) error
}

// All are the entries of the page.
func (p *Page[T]) All() (all []T, err error) {
	err = p.Each(func(one T) error {
		all = append(all, one)
		return nil
	})
	return all, err
}

// expired says that the revision of a list is gone, and how to go on.
func expired(next string) error {
	return &fault.Error{
		Code: fault.CodeExpired, Continue: next,
		Message: "the revision of this list is no longer kept; list again without continue, or go on with the token of this answer " +
			"at the present revision, where what changed meanwhile may be missing or come twice",
	}
}
