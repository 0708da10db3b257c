package jobs

import (
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/share"
)

// Whose jobs are sent next: those of who has the fewest under way.
func TestTurns(t *testing.T) {
	// A job is called account/federation/number.
	turns := newTurns(func(job string) share.Tenant {
		part := strings.Split(job, "/")
		out := share.Tenant{Account: part[0], Federation: part[1]}
		if part[0] == "heavy" {
			out.Weights.Account = 2
		}
		return out
	})
	next := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, turns.Pop())
		}
		if !slices.Equal(got, want) {
			t.Errorf("next are %v, want %v", got, want)
		}
	}
	for _, job := range []string{"ann/f/1", "ann/f/2", "ann/f/3", "bob/g/1", "ann/h/1"} {
		turns.Push(job)
	}
	next("ann/f/1", "bob/g/1", "ann/h/1")
	turns.Push("bob/g/2")
	next("bob/g/2")
	turns.Push("bob/g/3")
	turns.done("bob/g/1")
	turns.done("bob/g/2")
	next("bob/g/3", "ann/f/2")
	if turns.Len() != 1 {
		t.Errorf("%d wait", turns.Len())
	}
	for _, job := range []string{"heavy/i/1", "heavy/i/2", "heavy/i/3", "eve/j/1", "eve/j/2"} {
		turns.Push(job)
	}
	next("heavy/i/1", "eve/j/1", "heavy/i/2", "eve/j/2", "heavy/i/3", "ann/f/3")
	for _, job := range []string{"ann/f/1", "ann/f/2", "ann/f/3", "ann/h/1", "bob/g/3", "heavy/i/1", "heavy/i/2", "heavy/i/3", "eve/j/1", "eve/j/2"} {
		turns.done(job)
	}
	if turns.held.Total() != 0 || len(turns.sending) != 0 || len(turns.waiting) != 0 || turns.Len() != 0 {
		t.Errorf("left are %+v", turns)
	}
}
