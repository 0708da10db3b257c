package history_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/oscarfed/oscarfed/test/history"
)

var (
	seed     = flag.Uint64("seed", 0, "play the history of one seed")
	planFile = flag.String("plan", "", "play the plan of a file (a path from the root of the repository, or an absolute one)")
	results  = flag.String("results", "", "play the plans that are read from the standard input, and write an outcome for each into this file")
	drawings = flag.String("drawings", "../../build/histories", "where operations are drawn that have no order")
)

// Histories whose seeds are known: what they found was mended.
func TestHistories(t *testing.T) {
	for s := range uint64(10) {
		play(t, history.Draw(s+1))
	}
}

func TestSeed(t *testing.T) {
	if *seed == 0 {
		t.Skip("give it by -seed")
	}
	plan := history.Draw(*seed)
	t.Log(plan)
	play(t, plan)
}

func TestPlan(t *testing.T) {
	if *planFile == "" {
		t.Skip("give it by -plan")
	}
	path := *planFile
	if !filepath.IsAbs(path) {
		path = filepath.Join("../..", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var plan history.Plan
	if err := json.Unmarshal(data, &plan); err != nil {
		t.Fatal(err)
	}
	t.Log(plan)
	play(t, plan)
}

// The child of a campaign: it plays what test/campaign gives it.
func TestPlans(t *testing.T) {
	if *results == "" {
		t.Skip("give it by -results")
	}
	out, err := os.OpenFile(*results, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	plans := json.NewDecoder(os.Stdin)
	for {
		var plan history.Plan
		if err := plans.Decode(&plan); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		outcome := history.Outcome{Seed: plan.Seed, Clusters: plan.Shape.Clusters}
		began := time.Now()
		passed := t.Run(fmt.Sprint("seed-", plan.Seed), func(t *testing.T) {
			result := play(t, plan)
			outcome.Revisions, outcome.Jobs, outcome.Virtual = result.Revisions, result.Jobs, result.Virtual
		})
		outcome.Broken, outcome.Real = !passed, time.Since(began)
		if err := json.NewEncoder(out).Encode(outcome); err != nil {
			t.Fatal(err)
		}
	}
}

func play(t *testing.T, plan history.Plan) history.Result {
	t.Helper()
	var result history.Result
	synctest.Test(t, func(t *testing.T) { result = history.Play(t, plan) })
	verdicts, err := result.Operations.Check(*drawings)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Result != porcupine.Ok {
			t.Errorf("%s: %s, see %s", v.Name, v.Result, v.Drawing)
		}
	}
	t.Logf("seed %d: %d revisions, %d jobs, %v", plan.Seed, result.Revisions, result.Jobs, result.Virtual)
	return result
}
