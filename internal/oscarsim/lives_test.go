package oscarsim_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// A POST that takes effect late makes one life, which was asked for before it began; a service
// that somebody puts there is none.
func TestLives(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	if err := sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultLate, Count: 1, Delay: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	asked := sim.Next(oscarsim.OpCreate)
	if got := ask(t, url, http.MethodPost, "/system/services", bare("ours")); got.err == nil {
		t.Fatalf("the POST is answered %d", got.status)
	}
	<-asked
	if err := sim.PutService(bare("foreign")); err != nil {
		t.Fatal(err)
	}
	sim.Settle()
	lives := sim.Lives()
	if len(lives) != 1 || lives[0].Service != "ours" || lives[0].Token == "" || lives[0].Made.Sub(lives[0].Asked) < 20*time.Millisecond {
		t.Errorf("there are the lives %+v", lives)
	}
	if !sim.RemoveService("foreign") || sim.RemoveService("foreign") || len(sim.Services()) != 1 {
		t.Errorf("%v are left", sim.Services())
	}
}
