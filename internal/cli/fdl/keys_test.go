package fdl

import (
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/docs"
)

// Every key of the page's lists is one of a definition, and the page says what it means.
func TestThePageTellsOfKeysThatAre(t *testing.T) {
	all, told := Keys(), documented(docs.FDL)
	if len(told) < 30 {
		t.Errorf("the lists have %d keys: are they read?", len(told))
	}
	for path, key := range told {
		if !slices.ContainsFunc(all, func(k Key) bool { return k.Path == path }) {
			t.Errorf("the page tells of %s, which no definition has", path)
		}
		if key.Meaning == "" || strings.ContainsAny(key.Meaning+key.Default, "`[") {
			t.Errorf("of %s it says %q, by default %q", path, key.Meaning, key.Default)
		}
	}
	// A federation is ours: all of it is told.
	for _, k := range all {
		if strings.HasPrefix(k.Path, "federation.") && k.Meaning == "" {
			t.Errorf("the page does not tell of %s", k.Path)
		}
	}
}

func TestKeysBelowAnObject(t *testing.T) {
	below := Below("federation.members", Keys())
	i := slices.IndexFunc(below, func(k Key) bool { return k.Path == "federation.members.priority" })
	if i < 0 {
		t.Fatalf("there is %v", below)
	}
	if got, want := below[i], (Key{"federation.members.priority", "number", "0", "0 is best; 101 and more get no jobs"}); got != want {
		t.Errorf("got %+v", got)
	}
}
