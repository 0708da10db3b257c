package e2e

import (
	"testing"

	"github.com/oscarfed/oscarfed/test/world"
)

// One stream of each syncer to each instance, through one address that leads to all.
func TestEveryInstanceGetsAStreamOfEveryCluster(t *testing.T) {
	w := world.New(t, world.Options{})
	w.AwaitStreams(w.CP)
	other := w.StartControlPlane()
	w.Serve(other)
	w.AwaitStreams(other)
	w.Restart()
	w.AwaitStreams(w.CP)
	w.AwaitStreams(other)
}
