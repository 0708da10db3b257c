package oscar

import (
	"testing"

	"pgregory.net/rapid"
)

// Two versions of the project, or a text that was written by encoding/json, give the same bytes.
func TestAStringIsWrittenAsTheStandardLibraryDoes(t *testing.T) {
	check := func(t rapid.TB, s string) {
		if got, want := string(appendString([]byte("before"), s)), "before"+string(appendAnyString(nil, s)); got != want {
			t.Fatalf("%q: %s, want %s", s, got, want)
		}
	}
	for i := range 256 {
		check(t, "a"+string([]byte{byte(i)})+"b") // what is no UTF-8, too
	}
	check(t, "\u2028\u2029<&>é\U0001f600")
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.String().Draw(t, "text")) })
}
