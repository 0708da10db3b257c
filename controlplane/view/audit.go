package view

import (
	"unicode/utf8"
)

// Shorten shortens a text to at most n bytes, between two characters.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
