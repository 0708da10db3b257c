package history_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/oscarfed/oscarfed/test/history"
)

var (
	seed     = flag.Uint64("seed", 0, "play the history of one seed")
	planFile = flag.String("plan", "", "play the plan of a file (a path from the root of the repository, or an absolute one)")
	trial    = flag.String("trial", "", "make only the trials whose names match a regular expression")
	results  = flag.String("results", "", "play the plans that are read from the standard input, and write an outcome for each into this file")
	drawings = flag.String("drawings", "../../build/histories", "where operations are drawn that have no order")
)

// One history, which `make test` also plays with the race detector.
func TestAHistory(t *testing.T) { play(t, history.Draw(1)) }

// The histories of some seeds, whose failures were mended; or those that flags name.
func TestHistories(t *testing.T) {
	switch {
	case *results != "":
		playPlans(t)
	case *planFile != "":
		play(t, readPlan(t, *planFile))
	case *seed != 0:
		play(t, history.Draw(*seed))
	default:
		for s := uint64(2); s <= 10; s++ {
			play(t, history.Draw(s))
		}
	}
}

// Every trial, when nothing else has happened; or those that a flag names.
func TestTrials(t *testing.T) {
	named := regexp.MustCompile(*trial)
	for _, plan := range history.AllTrials() {
		plan.Trials = slices.DeleteFunc(plan.Trials, func(t history.Trial) bool { return !named.MatchString(t.What) })
		if len(plan.Trials) > 0 {
			play(t, plan)
		}
	}
}

func readPlan(t *testing.T, path string) history.Plan {
	t.Helper()
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
	return plan
}

// playPlans is the child of a campaign: it plays what test/campaign gives it.
func playPlans(t *testing.T) {
	t.Helper()
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
		outcome := history.Outcome{Seed: plan.Seed, Clusters: plan.Shape.All()}
		began := time.Now()
		passed := t.Run(fmt.Sprint("seed-", plan.Seed), func(t *testing.T) {
			result := play(t, plan)
			outcome.Revisions, outcome.Jobs, outcome.Virtual = result.Revisions, result.Jobs, result.Virtual
			outcome.Transitions = result.Transitions
		})
		outcome.Broken, outcome.Real = !passed, time.Since(began)
		if err := json.NewEncoder(out).Encode(outcome); err != nil {
			t.Fatal(err)
		}
	}
}

func play(t *testing.T, plan history.Plan) history.Result {
	t.Helper()
	t.Logf("seed %d", plan.Seed)
	defer func() {
		if t.Failed() {
			t.Log(plan) // it is long: what is wrong comes first
		}
	}()
	var result history.Result
	synctest.Test(t, func(t *testing.T) { result = history.Play(t, plan) })
	for _, operations := range result.Operations {
		verdicts, err := operations.Check(*drawings)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.Result != porcupine.Ok {
				t.Errorf("%s: %s, see %s", v.Name, v.Result, v.Drawing)
			}
		}
	}
	t.Logf("seed %d: %d revisions, %d jobs, %v", plan.Seed, result.Revisions, result.Jobs, result.Virtual)
	return result
}
