package manager

import (
	"strings"
	"testing"
)

func TestScrub(t *testing.T) {
	const secret = `line one
"line" two`
	for _, tc := range []struct {
		text, want string
		secrets    []string
	}{
		{"nothing in it", "nothing in it", []string{"hush-hush"}},
		{"it is hush-hush, hush-hush", "it is ***, ***", []string{"hush-hush"}},
		{"a hush-hush-hush", "a ***", []string{"hush-hush", "hush-hush-hush"}},
		{`body {"k":"line one\n\"line\" two"}`, `body {"k":"***"}`, []string{secret}},
		{"body " + secret + " end", "body *** end", []string{secret}},
		{"cut in the middle: hush-hu", "cut in the middle: ***", []string{"hush-hush"}},
		{`status 1 with "1"`, "status 1 with ***", []string{"1"}},
		{"no secrets", "no secrets", []string{""}},
	} {
		if got := Scrub(tc.text, tc.secrets...); got != tc.want {
			t.Errorf("scrub(%q) = %q, want %q", tc.text, got, tc.want)
		}
	}
	// A secret across the place where the text is cut is taken out before.
	long := strings.Repeat("x", MaxMessage-3) + "hush-hush" + strings.Repeat("y", 100)
	if got := Scrub(long, "hush-hush"); strings.Contains(got, "hus") || len(got) > MaxMessage {
		t.Errorf("a part of the secret is left: %q", got[MaxMessage-10:])
	}
}
