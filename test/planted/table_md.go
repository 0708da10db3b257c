package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// page is what stands above the table of README.md.
const page = `# Planted defects

` + "`go run ./test/planted`" + ` plants known defects, one after another, plays histories until one fails, and writes this
table: first the trials alone (` + "`go test ./test/history -run TestTrials`" + `), then seeds. ` + "`-only`" + ` takes a regular expression
of the names, ` + "`-seeds`, `-time` and `-from`" + ` bound each, ` + "`-open`" + ` leaves out what is caught. "Takes back" is the commit that
had mended a defect. A seed repeats what is asked and broken, not the order of goroutines: a defect may be caught by
another seed next time.

| Defect | Caught by | Seconds | Rule | Takes back |
|---|---|---|---|---|
`

const notPlayed = "not played"

// writeTable writes the result of one defect into the table; the other rows stay as they are.
func writeTable(path, name string, c catch) error {
	known := map[string]string{}
	if text, err := os.ReadFile(path); err == nil {
		known = results(string(text))
	}
	known[name] = row(c)
	return os.WriteFile(path, []byte(table(known)), fileMode)
}

// results are the columns of a table that tell what came of each defect.
func results(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, " | ")
		if len(cells) == columns && strings.HasPrefix(line, "| ") {
			out[strings.TrimPrefix(cells[0], "| ")] = strings.Join(cells[1:columns-1], " | ")
		}
	}
	return out
}

// wasCaught says whether the table has a seed for a defect.
func wasCaught(path, name string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	by, _, _ := strings.Cut(results(string(text))[name], " |")
	_, err = strconv.ParseUint(by, 10, 64)
	return by == trials || err == nil
}

// columns of the table.
const columns = 5

// table is the page with a row for each defect that there is.
func table(known map[string]string) string {
	var b strings.Builder
	b.WriteString(page)
	for _, d := range defects() {
		cells := known[d.name]
		if cells == "" {
			cells = notPlayed + " | - | -"
		}
		mended := "-"
		if d.mended != "" {
			mended = "`" + d.mended + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", d.name, cells, mended)
	}
	return b.String()
}

func row(c catch) string {
	if c.by == "" {
		return fmt.Sprintf("not in %d histories | %.0f | -", c.histories, c.took.Seconds())
	}
	return fmt.Sprintf("%s | %.0f | %s", c.by, c.took.Seconds(), c.said)
}
