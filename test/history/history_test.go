package history_test

import (
	"flag"
	"testing"
	"testing/synctest"

	"github.com/anishathalye/porcupine"

	"github.com/oscarfed/oscarfed/test/history"
)

// drawings is where operations are drawn that have no order.
const drawings = "../../build/histories"

var seed = flag.Uint64("seed", 0, "play the history of one seed")

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

func play(t *testing.T, plan history.Plan) {
	t.Helper()
	var result history.Result
	synctest.Test(t, func(t *testing.T) { result = history.Play(t, plan) })
	verdicts, err := result.Operations.Check(drawings)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Result != porcupine.Ok {
			t.Errorf("%s: %s, see %s", v.Name, v.Result, v.Drawing)
		}
	}
	t.Logf("seed %d: %d revisions, %d jobs, %v", plan.Seed, result.Revisions, result.Jobs, result.Virtual)
}
