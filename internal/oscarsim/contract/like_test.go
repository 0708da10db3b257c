package contract

import "testing"

func TestLike(t *testing.T) {
	for _, c := range []struct {
		pattern, got string
		want         bool
	}{
		{"", "", true},
		{"", "x", false},
		{"Ok", "Ok", true},
		{"Ok", "Ok ", false},
		{"Ok", "O", false},
		{"..", "", true},
		{"..", "anything", true},
		{"a..", "abc", true},
		{"a..", "bc", false},
		{"..c", "abc", true},
		{"..c", "ab", false},
		{"a..b..c", "a1b2c", true},
		{"a..b..c", "abc", true},
		{"a..b..c", "a1c", false},
		{"a..b..b", "a1b", false},
		{"a..a", "a", false},
	} {
		if got := like(c.pattern, c.got); got != c.want {
			t.Errorf("like(%q, %q) = %t", c.pattern, c.got, got)
		}
	}
}
