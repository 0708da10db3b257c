package runbook_test

import (
	"os"
	"path/filepath"
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

	byHand       = "On OSCARs of your own"
	kubernetes   = "Kubernetes"
	join         = "Clusters join"
	backup       = "Backup"
	restore      = "Restore"
	afterRestore = "After a restore"
	external     = "An external etcd"
	replaced     = "A member is replaced"
	gateway      = "The etcd gateway"
)

// notRun is of blocks that nothing runs yet.
const notRun = ""

// runBy says which test of this package runs a block.
func runBy() map[place]string {
	const (
		embedded = "TestTheProceduresOfAnEmbeddedEtcd"
		members  = "TestTheProceduresOfAnExternalEtcd"
	)
	return map[place]string{
		{quickstart, byHand, 0}: embedded,
		{quickstart, byHand, 1}: embedded,

		{operations, kubernetes, 0}:   notRun,
		{operations, kubernetes, 1}:   notRun,
		{operations, join, 0}:         embedded,
		{operations, backup, 0}:       embedded,
		{operations, backup, 1}:       embedded,
		{operations, backup, 2}:       members,
		{operations, restore, 0}:      embedded,
		{operations, restore, 1}:      notRun,
		{operations, restore, 2}:      members,
		{operations, afterRestore, 0}: embedded,
		{operations, external, 0}:     members,
		{operations, external, 1}:     members,
		{operations, external, 2}:     members,
		{operations, replaced, 0}:     members,
		{operations, gateway, 0}:      members,
	}
}

// toBeRun says whether blocks of a language are for a reader to run; console blocks of the quickstart are run by
// test/e2e.
func toBeRun(language string) bool { return language != "console" }

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
	all, err := docs.Blocks(page, heading)
	if err != nil {
		r.t.Fatal(err)
	}
	var blocks []docs.Block
	for _, b := range all {
		if toBeRun(b.Language) {
			blocks = append(blocks, b)
		}
	}
	if n >= len(blocks) {
		r.t.Fatalf("%s, %q has %d blocks", page, heading, len(blocks))
	}
	r.taken[at] = true
	return blocks[n].Text
}

// TestEachBlockIsInTheTable: a new block of the page has to be run, or it is said that it is not.
func TestEachBlockIsInTheTable(t *testing.T) {
	table := runBy()
	missing := map[place]bool{}
	for at := range table {
		missing[at] = true
	}
	for _, page := range []string{operations, quickstart} {
		blocks, err := docs.Blocks(page, "")
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, b := range blocks {
			if !toBeRun(b.Language) {
				continue
			}
			at := place{page, b.Heading, count[b.Heading]}
			count[b.Heading]++
			delete(missing, at)
			if _, ok := table[at]; !ok {
				t.Errorf("%s, %q: block %d is not in the table:\n%s", page, b.Heading, at.n, b.Text)
			}
		}
	}
	for at := range missing {
		t.Errorf("the page has no block %+v", at)
	}
	tests := source(t, "*_test.go")
	for at, by := range table {
		if by != notRun && !strings.Contains(tests, "\nfunc "+by+"(t *testing.T)") {
			t.Errorf("%+v: there is no test %s", at, strconv.Quote(by))
		}
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
