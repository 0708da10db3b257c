// Package docs_test holds these pages to the code: flags, commands, reasons, fail points,
// metrics, tests and links that they name exist, and those that exist are named.
package docs_test

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
)

func page(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// section is a page from one heading of the second level to the next.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("there is no section %q", heading)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

func named(text string, pattern *regexp.Regexp) map[string]bool {
	found := map[string]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

// same reports what is only in the code and what is only on the page.
func same(t *testing.T, what string, code, page map[string]bool) {
	t.Helper()
	if len(code) == 0 {
		t.Fatalf("no %s was found in the code", what)
	}
	for name := range code {
		if !page[name] {
			t.Errorf("%s %s is not documented", what, name)
		}
	}
	for name := range page {
		if !code[name] {
			t.Errorf("%s %s is documented and does not exist", what, name)
		}
	}
}

func TestEveryFlagIsDocumented(t *testing.T) {
	type program func(ctx context.Context, args []string, out *bytes.Buffer) int
	reference := page(t, "reference.md")
	for heading, run := range map[string]program{
		"oscar-controlplane": func(ctx context.Context, args []string, out *bytes.Buffer) int {
			return boot.ControlPlaneMain(ctx, args, out, out)
		},
		"oscar-controlplane etcd-gateway": func(ctx context.Context, args []string, out *bytes.Buffer) int {
			return boot.ControlPlaneMain(ctx, append([]string{"etcd-gateway"}, args...), out, out)
		},
		"oscar-syncer": func(ctx context.Context, args []string, out *bytes.Buffer) int {
			return boot.SyncerMain(ctx, args, nil, out, out)
		},
	} {
		var help bytes.Buffer
		if status := run(t.Context(), []string{"--help"}, &help); status != 0 {
			t.Fatalf("%s --help ended with %d: %s", heading, status, help.String())
		}
		code := named(help.String(), regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-z0-9-]+)`))
		same(t, "flag of "+heading, code, named(section(t, reference, heading), regexp.MustCompile("(?m)^- `--([a-z0-9-]+)`")))
	}
}

func TestEveryReasonIsDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../store/record/word.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Reason" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			code[value] = true
		}
		return true
	})
	reasons := section(t, page(t, "debugging.md"), "Reasons")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^- (`[^:]+):").FindAllStringSubmatch(reasons, -1) {
		for reason := range named(m[1], regexp.MustCompile("`([A-Za-z]+)`")) {
			documented[reason] = true
		}
	}
	same(t, "reason", code, documented)
}

func TestEveryFailPointIsDocumented(t *testing.T) {
	code := map[string]bool{}
	for _, point := range slices.Concat(controlplane.FailPoints(), controlplane.JobFailPoints(), syncer.FailPoints(), syncer.JobFailPoints()) {
		code[point] = true
	}
	// A line says who dies; the items below it name steps, each with a point before and one
	// after it, or one of these: `after_accept`.
	documented, owner := map[string]bool{}, ""
	dies, item := regexp.MustCompile("^Steps of `([a-z]+)`"), regexp.MustCompile("^- (`[^:]+):")
	for line := range strings.Lines(section(t, page(t, "architecture.md"), "What happens when something dies")) {
		if m := dies.FindStringSubmatch(line); m != nil {
			owner = m[1] + "."
		}
		m := item.FindStringSubmatch(line)
		if m == nil || owner == "" {
			continue
		}
		for step := range named(m[1], regexp.MustCompile("`([a-z_]+)`")) {
			if strings.HasPrefix(step, "before_") || strings.HasPrefix(step, "after_") {
				documented[owner+step] = true
				continue
			}
			documented[owner+"before_"+step], documented[owner+"after_"+step] = true, true
		}
	}
	same(t, "fail point", code, documented)
}

func TestEveryMetricIsDocumented(t *testing.T) {
	code := map[string]bool{}
	sources(t, ".go", func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") {
			for name := range named(text, regexp.MustCompile(`Name:\s+"(oscarfed_[a-z_]+)"`)) {
				code[name] = true
			}
		}
	})
	same(t, "metric", code, named(section(t, page(t, "reference.md"), "Metrics"), regexp.MustCompile("(?m)^- `(oscarfed_[a-z_]+)`")))
}

// TestEveryFolderHasARow: the list of folders names each package of product code, and
// no folder that does not exist.
func TestEveryFolderHasARow(t *testing.T) {
	table := map[string]bool{}
	for folders := range named(section(t, page(t, "architecture.md"), "What each folder owns"), regexp.MustCompile("(?m)^- (`[^:]+):")) {
		for folder := range named(folders, regexp.MustCompile("`([a-z0-9/]+)/`")) {
			table[folder] = true
			if info, err := os.Stat(filepath.Join("..", folder)); err != nil || !info.IsDir() {
				t.Errorf("%s/ is listed and does not exist", folder)
			}
		}
	}
	// One item speaks of all packages below these.
	whole := []string{"cmd", "deploy", "internal/oscarsim", "store/internal", "test", "tools"}
	packages := map[string]bool{}
	sources(t, ".go", func(path, _ string) {
		folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, ".."+string(filepath.Separator))))
		if !strings.HasSuffix(path, "_test.go") && !slices.ContainsFunc(whole, func(top string) bool {
			return folder == top || strings.HasPrefix(folder, top+"/")
		}) {
			packages[folder] = true
		}
	})
	if len(packages) < 20 {
		t.Fatalf("only %d packages were found", len(packages))
	}
	for folder := range packages {
		if !table[folder] {
			t.Errorf("%s/ is not in the list of folders", folder)
		}
	}
}

// TestEveryKindOfKeyIsListed: the list of keys names a key of each kind, and none that no
// record has.
func TestEveryKindOfKeyIsListed(t *testing.T) {
	text, err := os.ReadFile("../store/record/key.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := named(string(text), regexp.MustCompile(`(?m)^\tKind\w+ +(?:Kind +)?= "(\w+)"`))
	listed := map[string]bool{}
	placeholder, choice := regexp.MustCompile(`<[a-z0-9 ]+>`), regexp.MustCompile(`\{(\w+),(\w+)\}`)
	samples := strings.NewReplacer("<generation>", "1", "<gen>", "1", "<attempt>", "1", "<random>", strings.Repeat("a", 64))
	for keys := range named(section(t, page(t, "architecture.md"), "Who writes which key"), regexp.MustCompile("(?m)^- (`[^:]+):")) {
		for key := range named(keys, regexp.MustCompile("`([^`]+)`")) {
			either := []string{key}
			if choice.MatchString(key) {
				either = []string{choice.ReplaceAllString(key, "$1"), choice.ReplaceAllString(key, "$2")}
			}
			for _, one := range either {
				one = placeholder.ReplaceAllString(samples.Replace(one), record.NewUID())
				kind := record.ParseKey(record.Root + one).Kind
				if kind == record.KindUnknown {
					t.Errorf("no record has a key like %s", key)
				}
				listed[string(kind)] = true
			}
		}
	}
	same(t, "kind of key", kinds, listed)
}

// TestPackagesImportWhatThePictureHasBelow: packages.svg draws the packages of the control
// plane and the syncer in rows, and each imports only what is drawn below it.
func TestPackagesImportWhatThePictureHasBelow(t *testing.T) {
	const module = "github.com/oscarfed/oscarfed/"
	row := map[string]int{}
	box := regexp.MustCompile(`<text class="name" data-package="([a-z0-9/]+)" x="\d+" y="(\d+)"`)
	for _, m := range box.FindAllStringSubmatch(page(t, "packages.svg"), -1) {
		y, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		row[m[1]] = y
	}
	sources(t, ".go", func(path, text string) {
		folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, ".."+string(filepath.Separator))))
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		if _, drawn := row[folder]; !drawn {
			if top, _, _ := strings.Cut(folder, "/"); top == "controlplane" || top == "syncer" {
				t.Errorf("packages.svg does not draw %s", folder)
			}
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if y, ok := row[imported]; ours && ok && y <= row[folder] {
				t.Errorf("%s imports %s, which packages.svg does not draw below it", folder, imported)
			}
		}
	})
	if len(row) < 20 {
		t.Errorf("packages.svg draws only %d packages", len(row))
	}
}

// TestNamedFilesExist: a page that names a file or folder of the repository names one
// that there is.
func TestNamedFilesExist(t *testing.T) {
	files, path := 0, regexp.MustCompile("`((?:api|cmd|controlplane|deploy|docs|examples|internal|store|syncer|test|tools)/[\\w./-]*)`")
	for _, folder := range []string{".", ".."} {
		pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range pages {
			if filepath.Base(file) == "CHANGELOG.md" {
				continue // of former versions, too
			}
			for name := range named(page(t, file), path) {
				files++
				if _, err := os.Stat(filepath.Join("..", name)); err != nil {
					t.Errorf("%s names %s: %v", file, name, err)
				}
			}
		}
	}
	if files == 0 {
		t.Error("no page names a file: nothing was checked")
	}
}

// TestTypesOfTheGlossaryExist: a term that names a Go type names one that there is.
func TestTypesOfTheGlossaryExist(t *testing.T) {
	types := map[string]bool{}
	clause, declared := regexp.MustCompile(`(?m)^package (\w+)$`), regexp.MustCompile(`(?m)^type ([A-Z]\w*)\b`)
	sources(t, ".go", func(path, text string) {
		if m := clause.FindStringSubmatch(text); m != nil && !strings.HasSuffix(path, "_test.go") {
			for name := range named(text, declared) {
				types[m[1]+"."+name] = true
			}
		}
	})
	terms := named(page(t, "glossary.md"), regexp.MustCompile("`([a-z0-9]+\\.[A-Z]\\w*)`"))
	if len(terms) < 20 {
		t.Fatalf("only %d types were found in the glossary", len(terms))
	}
	for name := range terms {
		if !types[name] {
			t.Errorf("the glossary names the type %s, which does not exist", name)
		}
	}
}

func TestNamedTestsExist(t *testing.T) {
	code := map[string]bool{}
	sources(t, "_test.go", func(_, text string) {
		for name := range named(text, regexp.MustCompile(`(?m)^func (Test\w+)\(`)) {
			code[name] = true
		}
	})
	for suffix, name := range map[string]*regexp.Regexp{
		".md":     regexp.MustCompile("`(Test[A-Z]\\w+)`"),
		"test.sh": regexp.MustCompile(`(?m)(?:^| )(Test[A-Z]\w+)`),
	} {
		found := 0
		sources(t, suffix, func(path, text string) {
			for name := range named(text, name) {
				found++
				if !code[name] {
					t.Errorf("%s names %s, which does not exist", path, name)
				}
			}
		})
		if found == 0 {
			t.Errorf("no %s names a test: nothing was checked", suffix)
		}
	}
}

// TestEveryClaimNamesItsTest: a claim of security.md, a list item that begins with an asterisk or
// a row of a table whose last column is Test, names a test: else nothing shows it.
func TestEveryClaimNamesItsTest(t *testing.T) {
	claims, isTest := 0, regexp.MustCompile("`Test[A-Z]\\w+`")
	claim := func(text string) {
		claims++
		if !isTest.MatchString(text) {
			t.Errorf("no test is named for: %s", text)
		}
	}
	text := page(t, "security.md")
	for _, m := range regexp.MustCompile(`(?m)^\* .*(?:\n  .*)*`).FindAllString(text, -1) {
		claim(m)
	}
	table := false
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case !strings.HasPrefix(line, "|"):
			table = false
		case last == "Test":
			table = true
		case table && !strings.HasPrefix(last, "---"):
			claim(last)
		}
	}
	if claims < 50 {
		t.Errorf("only %d claims were found", claims)
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	links, link := 0, regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings := map[string]map[string]bool{} // of each page that was linked into
	sources(t, ".md", func(path, text string) {
		for _, m := range link.FindAllStringSubmatch(prose(text), -1) {
			target, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %q is no link: %v", path, m[1], err)
				continue
			}
			if target.IsAbs() {
				continue
			}
			links++
			file := path
			if target.Path != "" {
				file = filepath.Join(filepath.Dir(path), target.Path)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
				continue
			}
			if target.Fragment == "" {
				continue
			}
			if headings[file] == nil {
				headings[file] = anchors(page(t, file))
			}
			if !headings[file][target.Fragment] {
				t.Errorf("%s links to %s, where there is no such heading", path, m[1])
			}
		}
	})
	if links == 0 {
		t.Error("no link was checked")
	}
}

// anchors are what the headings of a page are called in links to them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	unsaid := regexp.MustCompile(`[^\p{L}\p{N}_-]`)
	for heading := range named(prose(text), regexp.MustCompile(`(?m)^#+ (.+)$`)) {
		found[unsaid.ReplaceAllString(strings.ReplaceAll(strings.ToLower(heading), " ", "-"), "")] = true
	}
	return found
}

// prose is a page without its blocks of code.
func prose(text string) string {
	var out strings.Builder
	for i, part := range strings.Split(text, "```") {
		if i%2 == 0 {
			out.WriteString(part)
		}
	}
	return out.String()
}

// sources calls fn with each file of the repository whose name ends so.
func sources(t *testing.T, suffix string, fn func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "bin", "build", "dist":
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, suffix) {
			fn(path, page(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
