package syncer_test

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestTheSessionOfAKilledSyncer is ended by the next one that holds its lock, and waited out by another one.
func TestTheSessionOfAKilledSyncer(t *testing.T) {
	const session = 30 * time.Second
	locked := func(name string) func(*syncer.Config) {
		return func(c *syncer.Config) { c.Lock, c.SessionTTL = name, session }
	}
	for name, c := range map[string]struct {
		before, after string
		waits         bool
	}{
		"it holds the lock": {"one", "one", false}, "it holds another": {"one", "two", true}, "it holds none": {"one", "", true},
		"neither held one": {"", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				kill := r.startOn("first", &world.Disk{}, locked(c.before))
				r.eventually("it is connected", r.hasSession)
				before := r.sessionRevision()
				disk := kill()
				began := time.Now()
				r.startOn("second", disk, locked(c.after))
				r.eventually("the second is connected", func() bool { return r.hasSession() && r.sessionRevision() > before })
				if took := time.Since(began); (took > session/2) != c.waits {
					t.Errorf("it is connected after %s", took)
				}
				r.makeReady(newReplica("grayify"))
			})
		})
	}
}
