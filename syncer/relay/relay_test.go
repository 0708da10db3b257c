package relay

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/test/wire"
)

// dialsWithin counts how often a syncer dials while the instance with its stream answers, which
// says that so many run.
func dialsWithin(t *testing.T, length time.Duration, instances int) (dials int64) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		net := wire.ForTest(t)
		url := net.Host("api").Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			fmt.Fprintf(w, `{"instance":"a","instances":%d}`, instances)
		}))
		r, err := New(Config{ControlPlane: url, Dial: net.Host("syncer").DialContext})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		r.Run(ctx, &fakeSite{})
		dials = asked.Load()
	})
	return dials
}

// Which instance answers is chance: an instance that is known to be missing is looked for until it
// answers, and the chance that it never does must be small within minutes. A proxy that leads to one
// instance for ever makes that no flood.
func TestAnInstanceKnownToBeMissingIsLookedForMoreOften(t *testing.T) {
	if none, one := dialsWithin(t, 2*time.Minute, 0), dialsWithin(t, 2*time.Minute, 1); one < 14 || one < 2*none {
		t.Errorf("in two minutes it dials %d times, and %d times when an instance is missing", none, one)
	}
	// The pauses are random: the bounds leave room for that.
	if none, one := dialsWithin(t, time.Hour, 0), dialsWithin(t, time.Hour, 1); none < 40 || one > none+2*mostInVain {
		t.Errorf("in an hour it dials %d times, and %d times when an instance is missing", none, one)
	}
}
