package runbook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/docs"
)

// place is where a block stands: the how many-th below a heading of a page.
type place struct {
	page, heading string
	n             int
}

const (
	operations = "operations.md"
	quickstart = "quickstart.md"
	debugging  = "debugging.md"
	forUsers   = "for-oscar-users.md"
	settings   = "configuration.md"

	byHand       = "On OSCARs of your own"
	kubernetes   = "Kubernetes"
	join         = "Clusters join"
	backup       = "Backup"
	restore      = "Restore"
	afterRestore = "After a restore"
	external     = "An external etcd"
	replaced     = "A member is replaced"
	gateway      = "The etcd gateway"

	deletion    = "A deletion that does not end"
	full        = "etcd is full"
	traces      = "Traces"
	readingEtcd = "Reading etcd"
	provoking   = "Provoking failures"

	same    = "What is the same"
	differs = "What differs, and why"
)

// notRun is of blocks that nothing runs yet.
const notRun = ""

// runBy says what runs a block: a test of this package, or of another folder of test/, or a part of `make e2e-kube`.
func runBy() map[place]string {
	const (
		embedded  = "TestTheProceduresOfAnEmbeddedEtcd"
		members   = "TestTheProceduresOfAnExternalEtcd"
		firstSite = "e2e/TestTheQuickstartRuns"
		asUser    = "e2e/TestThePageForUsersOfAnOSCARRuns"
		contexts  = "e2e/TestTheConfigurationFileOfThePageIsRead"
		onANode   = "e2ekube/embedded.sh"
		clusters  = "e2ekube/federation.sh"
	)
	return map[place]string{
		{quickstart, "Quickstart", 0}: firstSite,
		{quickstart, "Quickstart", 1}: firstSite,
		{quickstart, "Quickstart", 2}: firstSite,
		{quickstart, "Quickstart", 3}: firstSite,
		{quickstart, "Quickstart", 4}: firstSite,
		{quickstart, byHand, 0}:       embedded,
		{quickstart, byHand, 1}:       embedded,

		{operations, kubernetes, 0}:   onANode,
		{operations, kubernetes, 1}:   clusters,
		{operations, join, 0}:         embedded,
		{operations, backup, 0}:       embedded,
		{operations, backup, 1}:       embedded,
		{operations, backup, 2}:       members,
		{operations, restore, 0}:      embedded,
		{operations, restore, 1}:      onANode,
		{operations, restore, 2}:      members,
		{operations, restore, 3}:      notRun,
		{operations, restore, 4}:      members,
		{operations, afterRestore, 0}: embedded,
		{operations, external, 0}:     members,
		{operations, external, 1}:     members,
		{operations, external, 2}:     members,
		{operations, replaced, 0}:     members,
		{operations, gateway, 0}:      members,

		{debugging, deletion, 0}:    embedded,
		{debugging, full, 0}:        members,
		{debugging, traces, 0}:      embedded,
		{debugging, readingEtcd, 0}: embedded,
		{debugging, readingEtcd, 1}: embedded,
		{debugging, provoking, 0}:   embedded,

		{forUsers, same, 0}:       asUser,
		{forUsers, same, 1}:       asUser,
		{forUsers, differs, 0}:    asUser,
		{forUsers, differs, 1}:    asUser,
		{forUsers, differs, 2}:    asUser,
		{settings, "oscarfed", 1}: contexts,

		{"changing.md", "Plan", 0}:              notRun,
		{"fdl.md", "Tokens", 0}:                 notRun,
		{"invoking-async.md", "Sending one", 0}: notRun,
		{"jobs.md", "When a person decides", 0}: notRun,
		{"testing.md", "Histories", 0}:          notRun,
	}
}

// toBeRun says whether blocks of a language are for a reader to run.
func toBeRun(language string) bool { return language == "sh" || language == "console" }

// runbook gives the blocks to a test, which has to take all of its own.
type runbook struct {
	t     *testing.T
	taken map[place]bool
}

func open(t *testing.T) *runbook {
	t.Helper()
	r := &runbook{t: t, taken: map[place]bool{}}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		for at, by := range runBy() {
			if by == t.Name() && !r.taken[at] {
				t.Errorf("%s, %q: block %d was not run", at.page, at.heading, at.n)
			}
		}
	})
	return r
}

// block is the text of a block that the test is to run.
func (r *runbook) block(page, heading string, n int) string {
	r.t.Helper()
	at := place{page, heading, n}
	if by := runBy()[at]; by != r.t.Name() {
		r.t.Fatalf("the table has %q for %+v", by, at)
	}
	blocks, err := docs.Blocks(page, heading)
	if err != nil {
		r.t.Fatal(err)
	}
	if n >= len(blocks) {
		r.t.Fatalf("%s, %q has %d blocks", page, heading, len(blocks))
	}
	r.taken[at] = true
	return blocks[n].Text
}

// TestEachBlockIsInTheTable: a new block of a page has to be run, or it is said that it is not.
func TestEachBlockIsInTheTable(t *testing.T) {
	table := runBy()
	missing := map[place]bool{}
	for at := range table {
		missing[at] = true
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		page := filepath.Base(path)
		blocks, err := docs.Blocks(page, "")
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, b := range blocks {
			at := place{page, b.Heading, count[b.Heading]}
			count[b.Heading]++
			delete(missing, at)
			if _, ok := table[at]; !ok && toBeRun(b.Language) {
				t.Errorf("%s, %q: block %d is not in the table:\n%s", page, b.Heading, at.n, b.Text)
			}
		}
	}
	for at := range missing {
		t.Errorf("there is no block %+v", at)
	}
	for at, by := range table {
		folder, test := filepath.Split(by)
		if by == notRun {
			continue
		}
		pattern := "*_test.go"
		if folder == "e2ekube/" {
			partRuns(t, test, at)
			continue
		}
		if folder != "" {
			pattern = filepath.Join("..", folder, pattern)
		}
		if !strings.Contains(source(t, pattern), "\nfunc "+test+"(t *testing.T)") {
			t.Errorf("%+v: there is no test %s", at, strconv.Quote(by))
		}
	}
}

// partRuns demands that a part of `make e2e-kube` is one of those that it runs, and runs the block.
func partRuns(t *testing.T, part string, at place) {
	t.Helper()
	const folder = "../e2ekube"
	_, parts, _ := strings.Cut(source(t, folder+"/run.sh"), "${E2E_KUBE_PARTS:-")
	parts, _, _ = strings.Cut(parts, "}")
	if !slices.Contains(strings.Fields(parts), strings.TrimSuffix(part, ".sh")) {
		t.Errorf("%+v: make e2e-kube has no part %s: %s", at, part, parts)
		return
	}
	call := regexp.MustCompile(fmt.Sprintf(`(?m)^ *page %s %q %d( |$)`, regexp.QuoteMeta(at.page), at.heading, at.n))
	if !call.MatchString(source(t, folder+"/"+part)) {
		t.Errorf("%+v: %s does not run it: there is no line %s", at, part, call)
	}
}

// source is the text of all files of a pattern.
func source(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	var out strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
	}
	return out.String()
}
