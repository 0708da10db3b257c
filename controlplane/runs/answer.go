package runs

import (
	"encoding/json"
	"fmt"
)

const (
	// maxListValues bounds the values of a list of an OSCAR: one of 4 MiB has fewer.
	maxListValues = 200_000
	// maxJobValues bounds those of a page of Jobs: 70 Jobs have some 400.
	maxJobValues = 20_000
)

// decodeAnswer reads an answer of a cluster that has so many values at most. An empty object has three bytes, and
// takes fifty times as many once it is read.
func decodeAnswer(answer []byte, most int, into any) error {
	if n := countValues(answer); n > most {
		return fmt.Errorf("it has %d values, and %d are read", n, most)
	}
	return json.Unmarshal(answer, into)
}

// countValues counts the values of a JSON text: what opens an object or a list, and what follows a comma.
func countValues(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == ',', c == '{', c == '[':
			n++
		}
	}
	return n
}
