package linear_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/linear"
	"github.com/oscarfed/oscarfed/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// The form of a proof. Without a time it is two small histories.
const (
	timeVar = "PROOFTIME" // such as 20m
	seedVar = "PROOFSEED" // of the first history
	dirVar  = "PROOFDIR"  // where failed histories are drawn
)

// tooBad is after how many histories with a violation a proof gives up.
const tooBad = 3

// TestTheAPIIsLinearizable lets clients call two control planes over three members
// of etcd while all of these, and the syncers, are killed, frozen and cut off, and
// demands an order in which a federation could have answered so; and every promise
// at every revision.
func TestTheAPIIsLinearizable(t *testing.T) {
	var lasts time.Duration
	least, size := 2, linear.Size{Services: 2, Clients: 4, Operations: 8}
	if s := os.Getenv(timeVar); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatalf("%s: %v", timeVar, err)
		}
		least, size = 1, linear.Size{Services: 2, Clients: 6, Operations: 12, Long: true}
	}
	seed := uint64(time.Now().UnixMilli())
	if s := os.Getenv(seedVar); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVar, err)
		}
	}
	dir := os.Getenv(dirVar)
	if dir == "" {
		dir = filepath.Join("..", "..", "build", "proof")
	}

	w := linear.New(t, dir, "oscar-cluster-a", "oscar-cluster-b", "oscar-cluster-c")
	p := proof{t: t, world: w, dir: dir, tally: linear.NewTally(), answers: map[linear.Answer]int{}, began: time.Now()}
	for i := 0; (i < least || time.Since(p.began) < lasts) && p.violated < tooBad && !p.broken; i++ {
		p.one(seed+uint64(i), size)
	}
	p.end()
}

// proof counts what was seen.
type proof struct {
	t     *testing.T
	world *linear.World
	dir   string
	tally *linear.Tally
	began time.Time

	histories           int
	answers             map[linear.Answer]int
	violated, undecided int
	// broken says that the federation did not recover from a history.
	broken bool
}

func (p *proof) one(seed uint64, size linear.Size) {
	p.t.Helper()
	h, err := p.world.History(p.t.Context(), seed, size, p.tally)
	if err != nil {
		p.broken = true
		p.t.Errorf("history with seed %d: %v", seed, err)
	}
	verdicts, err := h.Check(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	p.histories++
	for answer, n := range h.Answers() {
		p.answers[answer] += n
	}
	for _, v := range verdicts {
		switch v.Result {
		case porcupine.Illegal:
			p.violated++
			p.t.Errorf("not linearizable: service %s of the history with seed %d; it is drawn in %s", v.Name, seed, v.Drawing)
		case porcupine.Unknown:
			p.undecided++
			p.t.Logf("undecided: service %s of the history with seed %d; it is drawn in %s", v.Name, seed, v.Drawing)
		}
	}
}

func (p *proof) end() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), await.Limit)
	defer cancel()
	report, err := p.world.Report(ctx)
	if err != nil {
		p.t.Fatal(errors.Join(errors.New("the promises could not be checked"), err))
	}
	report.Tell(p.t)
	if p.undecided == 2*p.histories {
		p.t.Error("no history was decided")
	}
	counts := p.tally.Counts()
	var faults []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		faults = append(faults, fmt.Sprintf("%s %d", kind, counts[kind]))
	}
	operations := 0
	var answers []string
	for _, a := range slices.Sorted(maps.Keys(p.answers)) {
		operations += p.answers[a]
		answers = append(answers, fmt.Sprintf("%s %d", a, p.answers[a]))
	}
	p.t.Logf("answers: %s", strings.Join(answers, ", "))
	line := fmt.Sprintf("proof: %d histories, %d operations (%d of unknown outcome), in %s; faults: %s; %d revisions checked; violations: %d of the order, %d of the promises; %d undecided\n",
		p.histories, operations, p.answers[linear.Unknown], time.Since(p.began).Round(time.Second), strings.Join(faults, ", "), report.Revisions,
		p.violated, len(report.Violations), p.undecided)
	p.t.Log(line)
	if err := errors.Join(os.MkdirAll(p.dir, 0o755), os.WriteFile(filepath.Join(p.dir, "summary.txt"), []byte(line), 0o644)); err != nil {
		p.t.Error(err)
	}
}
