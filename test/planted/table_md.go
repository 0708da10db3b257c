package main

import (
	"fmt"
	"os"
	"strings"
)

// page is what stands above the list of README.md.
const page = `# Planted defects

` + "`go run ./test/planted`" + ` plants known defects, one after another, plays histories until one fails, and writes this
list: first the trials alone (` + "`go test ./test/history -run TestTrials`" + `), then seeds. ` + "`-only`" + ` takes a regular expression
of the names; ` + "`-seeds`, `-time` and `-from`" + ` bound each, in time of the processors; ` + "`-open`" + ` leaves out what is caught. A
commit in brackets had mended the defect, which takes that back. A seed repeats what is asked and broken, not the order
of goroutines: a defect may be caught by another seed next time.

`

// What became of a defect begins with one of these.
const (
	notPlayed = "not played"
	notCaught = "not in"
	caughtBy  = "by "
)

// widest is the longest line of the page.
const widest = 120

// writeResult writes what became of one defect into the page; the others stay as they are.
func writeResult(path, name string, c catch) error {
	known := map[string]string{}
	if text, err := os.ReadFile(path); err == nil {
		known = results(string(text))
	}
	known[name] = result(c)
	return os.WriteFile(path, []byte(list(known)), fileMode)
}

// results are what a page tells of each defect.
func results(text string) map[string]string {
	out := map[string]string{}
	name := ""
	for line := range strings.Lines(text) {
		if first, ok := strings.CutPrefix(line, "- **"); ok {
			name, _, _ = strings.Cut(first, "**")
		} else if name != "" {
			out[name], name = strings.TrimSpace(line), ""
		}
	}
	return out
}

// wasCaught says whether the page tells that a defect was caught.
func wasCaught(path, name string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.HasPrefix(results(string(text))[name], caughtBy)
}

// list is the page with each defect that there is.
func list(known map[string]string) string {
	var b strings.Builder
	b.WriteString(page)
	for _, d := range defects() {
		came := known[d.name]
		if came == "" {
			came = notPlayed
		}
		mended := ""
		if d.mended != "" {
			mended = " (`" + d.mended + "`)"
		}
		fmt.Fprintf(&b, "- **%s**%s\n  %s\n", d.name, mended, came)
	}
	return b.String()
}

func result(c catch) string {
	switch c.by {
	case "":
		return fmt.Sprintf("%s %d histories, %.0f s", notCaught, c.histories, c.took.Seconds())
	case trials:
		return line("%s%s, %.0f s: %s", caughtBy, c.by, c.took.Seconds(), c.said)
	}
	return line("%sseed %s, %.0f s: %s", caughtBy, c.by, c.took.Seconds(), c.said)
}

// line is a line of the page; what is too long is cut off.
func line(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	return text[:min(len(text), widest-len("  "))]
}
