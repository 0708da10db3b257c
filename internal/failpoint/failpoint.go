package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// EnvVar names the fail point at which the process shall die: <name> for the
// first hit, <name>:<n> for the n-th.
const EnvVar = "OSCARFED_FAILPOINT"

// Trigger waits for the n-th hit of one named fail point. A nil Trigger is off.
type Trigger struct {
	name string
	nth  int64
	hits atomic.Int64
	die  func()
}

// FromEnv reads EnvVar. Without it the answer is nil, which is off. known lists
// the fail points of the program: another name is an error, since a test that
// waits for a point which does not exist would prove nothing.
func FromEnv(known ...string) (*Trigger, error) {
	value, ok := os.LookupEnv(EnvVar)
	if !ok || value == "" {
		return nil, nil
	}
	return Parse(value, known...)
}

// Parse makes a Trigger of <name> or <name>:<n>, n at least 1.
func Parse(value string, known ...string) (*Trigger, error) {
	name, count, counted := strings.Cut(value, ":")
	t := &Trigger{name: name, nth: 1, die: kill}
	if counted {
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("fail point %q: %q is not a count of hits; use a number from 1", value, count)
		}
		t.nth = n
	}
	if !slices.Contains(known, name) {
		return nil, fmt.Errorf("fail point %q is unknown; known: %s", name, strings.Join(known, ", "))
	}
	return t, nil
}

// At makes a Trigger of a test that has several processes in its own: at the first hit, die
// ends one of them. Unlike a process that is really gone, the caller then goes on; what it
// does must have no effect any more.
func At(name string, die func()) *Trigger { return &Trigger{name: name, nth: 1, die: die} }

// Hit passes the fail point name. At the hit that was asked for it does not
// return: the process is gone.
func (t *Trigger) Hit(name string) {
	if t == nil || t.name != name {
		return
	}
	if t.hits.Add(1) == t.nth {
		t.die()
	}
}

// kill sends SIGKILL to this process and never returns: the signal may arrive a
// moment later, and not one statement of the caller may run in that moment.
func kill() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		os.Exit(137) // the status that a shell gives to SIGKILL
	}
	select {}
}
