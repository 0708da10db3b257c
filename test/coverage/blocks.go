package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/oscarfed/oscarfed/"

// block is a piece of code that is run as a whole.
type block struct {
	file       string
	start, end place
}

type place struct{ line, column int }

// blocks counts how often each was run.
type blocks map[block]int

// add adds the counts of a coverage profile.
func (b blocks) add(profile string) error {
	for line := range strings.Lines(profile) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "mode:") {
			continue
		}
		at, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(strings.NewReplacer(",", " ").Replace(rest))
		if len(fields) != 4 {
			return fmt.Errorf("%q is no line of a profile", line)
		}
		start, err := readPlace(fields[0])
		if err != nil {
			return err
		}
		end, err := readPlace(fields[1])
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(fields[3])
		if err != nil {
			return err
		}
		if file := strings.TrimPrefix(at, module); decides(file) {
			b[block{file, start, end}] += count
		}
	}
	return nil
}

func readPlace(text string) (p place, err error) {
	line, column, _ := strings.Cut(text, ".")
	if p.line, err = strconv.Atoi(line); err != nil {
		return p, err
	}
	p.column, err = strconv.Atoi(column)
	return p, err
}

// decides says whether the branches of a file are decisions.
func decides(file string) bool {
	return slices.ContainsFunc(decided(), func(pattern string) bool {
		ok, err := path.Match(pattern, file)
		return ok && err == nil
	})
}

// sorted are the blocks in the order of the text.
func (b blocks) sorted() []block {
	var out []block
	for k := range b {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.start.line, b.start.line), cmp.Compare(a.start.column, b.start.column))
	})
	return out
}

// tellBlocks lists the branches that were not taken, with their text.
func tellBlocks(out io.Writer, all blocks, tellExcused bool) error {
	texts := map[string][]string{}
	run, excused := 0, 0
	for _, b := range all.sorted() {
		if texts[b.file] == nil {
			text, err := os.ReadFile(b.file)
			if err != nil {
				return err
			}
			texts[b.file] = strings.Split(string(text), "\n")
		}
		if all[b] > 0 {
			run++
			continue
		}
		text := b.text(texts[b.file])
		why := excuse(b.file, text)
		if why != "" {
			excused++
			if !tellExcused {
				continue
			}
		}
		fmt.Fprintf(out, "%s:%d: %s%s\n", b.file, b.start.line, text, because(why))
	}
	fmt.Fprintf(out, "\n%d of %d branches were taken, %d cannot be\n", run, len(all), excused)
	return nil
}

// text is the line that the block begins with: that of its condition when it begins behind one.
func (b block) text(lines []string) string {
	first := strings.TrimSpace(lines[b.start.line-1])
	if strings.HasSuffix(first, "{") || strings.HasSuffix(first, ":") {
		if b.end.line > b.start.line {
			first += " " + strings.TrimSpace(lines[b.start.line])
		}
	}
	return first
}
