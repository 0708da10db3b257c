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

// dialsOfAnHour counts how often a syncer dials while the instance with its stream answers, which
// says that so many run.
func dialsOfAnHour(t *testing.T, instances int) (dials int64) {
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r.Run(ctx, &fakeSite{})
		dials = asked.Load()
	})
	return dials
}

// Which instance answers is chance: an instance that is known to be missing is looked for until it
// answers, and the chance that it never does must be small within minutes.
func TestAnInstanceKnownToBeMissingIsLookedForMoreOften(t *testing.T) {
	none, one := dialsOfAnHour(t, 0), dialsOfAnHour(t, 1)
	if none < 50 || one < 6*none {
		t.Errorf("in an hour it dials %d times, and %d times when an instance is missing", none, one)
	}
}
