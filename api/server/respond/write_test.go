package respond_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/api/server/respond"
)

// A text of the caller that is told again in an answer is cut between two characters.
func TestATextIsCutBetweenCharacters(t *testing.T) {
	for text, want := range map[string]string{"abc": "abc", "abcd": "abc...", "abé": "ab...", "é€": "é...", "€€": "€..."} {
		if got := respond.Cut(text, 3); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}
