package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// maxEdits is how many letters may differ.
const maxEdits = 2

// Words is "; did you mean X?" for the nearest of the known words, or nothing when none is near.
func Words(given string, known []string) string {
	if word, ok := nearest(given, known); ok {
		return fmt.Sprintf("; did you mean %q?", word)
	}
	return ""
}

// nearest is the known word that differs in the fewest letters from the one given. One that begins
// with what was given is near, too. A word of n letters may differ in less than half of them.
func nearest(given string, known []string) (string, bool) {
	best, word := maxEdits+1, ""
	for _, k := range known {
		d := edits(strings.ToLower(given), strings.ToLower(k))
		if d < best && 2*d < max(len(k), len(given)) {
			best, word = d, k
		}
	}
	if word != "" {
		return word, true
	}
	i := slices.IndexFunc(known, func(k string) bool { return len(given) > 1 && strings.HasPrefix(k, given) })
	if i < 0 {
		return "", false
	}
	return known[i], true
}

// edits is how many letters are to be put in, taken out, replaced, or exchanged with the next one
// (the optimal string alignment distance).
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before, last []int
	for i := range len(x) + 1 {
		row := make([]int, len(y)+1)
		for j := range row {
			switch {
			case i == 0 || j == 0:
				row[j] = i + j
				continue
			case x[i-1] == y[j-1]:
				row[j] = last[j-1]
			default:
				row[j] = 1 + min(last[j-1], last[j], row[j-1])
			}
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}
