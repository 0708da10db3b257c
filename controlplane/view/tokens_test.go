package view

import (
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A cluster may want tokens of any number of federations that there are not.
func TestWantsOfFederationsThatThereAreNotAreNotLookedAtAgain(t *testing.T) {
	t.Parallel()
	v := newView()
	v.news = newChanges()
	apply := func(key string, rec any) {
		raw, err := record.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		v.apply(key, store.KV{Key: key, Value: raw, ModRevision: 7}, true)
	}
	apply(record.FederationKey("there"), record.Federation{V: 1, UID: "there"})
	for _, uid := range []string{"there", "not"} {
		apply(record.WantKey("c", uid), record.Want{V: 1, Nonce: "n"})
	}
	if got := v.WithTokens([]string{"c"}); !slices.Equal(got, []string{"there"}) {
		t.Errorf("looked at: %v", got)
	}
}
