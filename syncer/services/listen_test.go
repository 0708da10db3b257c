package services

import (
	"maps"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/internal/signal"
)

// TestNewsOfOthersAreNoReasonToLook: an OSCAR with many users has news all the time, and
// each look at OSCAR is one of few.
func TestNewsOfOthersAreNoReasonToLook(t *testing.T) {
	t.Parallel()
	n := &news{names: map[string]bool{}, some: signal.New()}
	ours := func(name string) bool { return name == "ours" }
	n.add("foreign")
	n.add("foreign")
	<-n.some
	if n.keep(ours) {
		t.Error("somebody else's service is a reason to look")
	}
	n.add("foreign")
	n.add("ours")
	<-n.some
	if !n.keep(ours) {
		t.Error("our service is none")
	}
	if got := slices.Sorted(maps.Keys(n.take())); !slices.Equal(got, []string{"ours"}) || len(n.take()) > 0 {
		t.Errorf("taken: %v", got)
	}
}
