package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
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
		start, wrongStart := readPlace(fields[0])
		end, wrongEnd := readPlace(fields[1])
		count, wrongCount := strconv.Atoi(fields[3])
		if err := errors.Join(wrongStart, wrongEnd, wrongCount); err != nil {
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

// branch is a block as a reader finds it: its function, and the line that it begins with.
type branch struct{ file, function, text string }

// sources are the files that decide, as they were when the histories were built.
type sources struct {
	root  string
	files map[string]*source
}

// source is a file by lines, with the name of the function that each line belongs to.
type source struct{ lines, functions []string }

func newSources(root string) sources { return sources{root: root, files: map[string]*source{}} }

// branch is where a block is.
func (s sources) branch(b block) (branch, error) {
	src := s.files[b.file]
	if src == nil {
		var err error
		if src, err = readSource(filepath.Join(s.root, b.file)); err != nil {
			return branch{}, err
		}
		s.files[b.file] = src
	}
	return branch{b.file, src.functions[b.start.line-1], b.text(src.lines)}, nil
}

func readSource(path string) (*source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	src := &source{lines: strings.Split(string(text), "\n")}
	src.functions = make([]string, len(src.lines))
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			for line := set.Position(f.Pos()).Line; line <= set.Position(f.End()).Line; line++ {
				src.functions[line-1] = f.Name.Name
			}
		}
	}
	return src, nil
}

// text is the line that the block begins with: that of its condition when it begins behind one, and the
// first line of it, or the remark in an empty one.
func (b block) text(lines []string) string {
	first := strings.TrimSpace(lines[b.start.line-1])
	if !strings.HasSuffix(first, "{") && !strings.HasSuffix(first, ":") || b.start.line == len(lines) {
		return first
	}
	if second := strings.TrimSpace(lines[b.start.line]); b.end.line > b.start.line || strings.HasSuffix(first, ":") && strings.HasPrefix(second, "//") {
		first += " " + second
	}
	return first
}

// tellBlocks lists the branches that were not taken, with their text, and gives the excuses that are
// not true: those of a branch that was taken, or that there is not.
func tellBlocks(out io.Writer, all blocks, from sources, excuses []excuse, tellExcused bool) (untrue []string, err error) {
	used := make([]bool, len(excuses))
	run, excused := 0, 0
	for _, b := range all.sorted() {
		at, err := from.branch(b)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(excuses, func(e excuse) bool { return e.of(at) })
		for n, e := range excuses {
			used[n] = used[n] || e.of(at)
		}
		switch {
		case all[b] > 0 && i >= 0:
			run++
			untrue = append(untrue, fmt.Sprintf("%s:%d: %s: %s is taken, and is excused (%s)", b.file, b.start.line, at.function, at.text, excuses[i].why))
		case all[b] > 0:
			run++
		case i < 0:
			fmt.Fprintf(out, "%s:%d: %s: %s\n", b.file, b.start.line, at.function, at.text)
		default:
			excused++
			if tellExcused {
				fmt.Fprintf(out, "%s:%d: %s: %s (%s)\n", b.file, b.start.line, at.function, at.text, excuses[i].why)
			}
		}
	}
	for i, e := range excuses {
		if !used[i] {
			untrue = append(untrue, fmt.Sprintf("%s: %s has no branch %q, which is excused (%s)", e.file, e.function, e.text, e.why))
		}
	}
	fmt.Fprintf(out, "\n%d of %d branches were taken, %d cannot be, %d are open\n", run, len(all), excused, len(all)-run-excused)
	return untrue, nil
}
