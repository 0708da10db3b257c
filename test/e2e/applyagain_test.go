package e2e_test

import (
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// TestASecondApplyWaitsForTheFirst: an apply that was given up, and the same again, are one
// creation, of one service or of a file of several; after a deletion it is a new one.
func TestASecondApplyWaitsForTheFirst(t *testing.T) {
	for name, several := range map[string]bool{"a service": false, "a file as a unit": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, onLoopback)
			s := newShell(t, w)
			if !several {
				s.edit("fdl.yaml", fdl[len(fdl)-len(lonely):], "")
			}
			sim := w.Cluster(b).Sim
			if err := sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultHang}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, errs := s.run(8, "apply", "-f", s.path("fdl.yaml"), "--timeout", "1s")
				wants(t, errs, `^the same again waits for the same outcome: oscarfed apply -f `)
			}
			sim.ClearFaults()
			s.run(0, "apply", "-f", s.path("fdl.yaml"), "--timeout", "5m")
			federation := func() *v1.Replicas {
				t.Helper()
				view, err := w.Client.Replicas(t.Context(), "grayifyr0", "")
				if err != nil {
					t.Fatal(err)
				}
				return view
			}
			first := federation()
			if first.Generation != 1 {
				t.Errorf("generation %d", first.Generation)
			}
			_, errs := s.run(0, "apply", "-f", s.path("fdl.yaml"))
			wants(t, errs, `^grayifyr0: unchanged, generation 1`)
			s.run(0, "delete", "grayifyr0", "--timeout", "5m")
			s.run(0, "apply", "-f", s.path("fdl.yaml"), "--timeout", "5m")
			if again := federation(); again.UID == first.UID {
				t.Error("what was deleted was not created again")
			}
		})
	}
}

// lonely is the second service of fdl.
const lonely = `    - oscar-cluster-c:
        name: lonely
        image: ghcr.io/grycap/imagemagick
        script: script.sh
`
