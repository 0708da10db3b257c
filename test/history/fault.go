package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/world"
)

// Fault is something that is broken for a while.
type Fault struct {
	Kind string
	// On is the host that it happens to, and To the other end of a connection.
	On string `json:"on,omitempty"`
	To string `json:"to,omitempty"`
	// For is how long it lasts.
	For time.Duration `json:"for,omitempty"`
	// Amount is a delay, by how much a clock is wrong, or how late an OSCAR does its work.
	Amount time.Duration `json:"amount,omitempty"`
	// Probability of what may happen to each write of a connection.
	Probability float64 `json:"probability,omitempty"`
	// Op and Count are of an OSCAR's fault: the operation, and how many requests it hits.
	Op    oscarsim.Op `json:"op,omitempty"`
	Count int         `json:"count,omitempty"`
	// What an OSCAR does instead of what it is asked for.
	What string `json:"what,omitempty"`
	// After, when set, is what the OSCAR of On's cluster is asked for when the fault begins: it waits
	// for that.
	After oscarsim.Op `json:"after,omitempty"`
	// Read says that the fault begins when the cluster's OSCAR is asked for a service after that, and
	// has been heard: what a syncer then reads is read, and what it writes is not written yet.
	Read bool `json:"read,omitempty"`
}

// String is one line.
func (f Fault) String() string {
	out := f.Kind + " " + f.On
	if f.To != "" {
		out += " -> " + f.To
	}
	switch {
	case f.What != "":
		out += fmt.Sprintf(" %s %s x%d", f.Op, f.What, f.Count)
	case f.Kind == faultFull:
		out += fmt.Sprintf(" by %d MiB", f.Count)
	}
	if f.After != "" {
		out += " at the next " + f.After
	}
	if f.Read {
		out += " that was read back"
	}
	if f.Amount != 0 {
		out += fmt.Sprintf(" by %v", f.Amount)
	}
	if f.Probability != 0 {
		out += fmt.Sprintf(" with %.2f", f.Probability)
	}
	if f.For != 0 {
		out += fmt.Sprintf(" for %v", f.For.Round(time.Millisecond))
	}
	return out
}

// Kinds of faults.
const (
	faultKill    = "kill"
	faultFreeze  = "freeze"
	faultCut     = "cut"
	faultDeaf    = "cut one way"
	faultDelay   = "delay"
	faultLag     = "lag"
	faultBreak   = "break"
	faultHang    = "hang"
	faultClock   = "wrong clock of"
	faultOSCAR   = "fault of"
	faultDrift   = "delete a service directly on"
	faultCompact = "compact etcd"
)

// lasts says whether the fault may go on for hours.
func (f Fault) lasts() bool {
	return !slices.Contains([]string{faultBreak, faultHang, faultLeaderless}, f.Kind)
}

func hostControlPlane(i int) string { return fmt.Sprintf("control-plane-%d", i) }
func hostSyncer(i int) string       { return world.HostSyncer(clusterID(i)) }
func hostOSCAR(i int) string        { return world.HostOSCAR(clusterID(i)) }
func clusterID(i int) string        { return fmt.Sprintf("oscar-cluster-%c", 'a'+i) }

func drawFault(rng *rand.Rand, shape Shape) Fault {
	cp, syncer, at := hostControlPlane(rng.IntN(shape.ControlPlanes)), hostSyncer(rng.IntN(shape.Clusters)), rng.IntN(shape.Clusters)
	f := Fault{For: 100*time.Millisecond + time.Duration(rng.ExpFloat64()*float64(8*time.Second))}
	switch r := rng.IntN(100); {
	case r < 26:
		f.Kind, f.On = faultKill, pick(rng, cp, cp, syncer, syncer, hostOSCAR(at), world.HostEtcd)
	case r < 36:
		f.Kind, f.On = faultFreeze, pick(rng, cp, syncer, syncer, hostOSCAR(at), world.HostEtcd)
	case r < 60:
		f.Kind = pick(rng, faultCut, faultDeaf, faultDelay, faultBreak, faultHang)
		ends := pick(rng, [2]string{cp, world.HostEtcd}, [2]string{cp, world.HostEtcd}, [2]string{syncer, world.HostEtcd}, [2]string{syncer, world.HostEtcd},
			[2]string{hostSyncer(at), hostOSCAR(at)}, [2]string{syncer, cp}, [2]string{world.HostUsers, cp})
		if rng.IntN(2) == 0 {
			ends[0], ends[1] = ends[1], ends[0]
		}
		f.On, f.To = ends[0], ends[1]
		switch f.Kind {
		case faultDelay:
			f.Amount = time.Duration(rng.Int64N(int64(4 * time.Second)))
		case faultBreak, faultHang:
			f.Probability = pick(rng, 0.02, 0.1, 0.5)
		}
	case r < 66:
		f.Kind, f.On = faultClock, pick(rng, cp, syncer)
		f.Amount = time.Duration((rng.Float64() - 0.5) * float64(6*time.Hour))
	case r < 90:
		f.Kind, f.On = faultOSCAR, hostOSCAR(at)
		f.Op, f.What, f.Count = drawOSCAR(rng)
	case r < 96:
		f.Kind, f.On, f.For = faultDrift, hostOSCAR(at), 0
	default:
		f.Kind, f.For = faultCompact, 0
	}
	return f
}

// drawOSCAR draws what an OSCAR does instead of what it is asked for.
func drawOSCAR(rng *rand.Rand) (op oscarsim.Op, what string, count int) {
	op = pick(rng, oscarsim.OpAny, oscarsim.OpCreate, oscarsim.OpCreate, oscarsim.OpDelete, oscarsim.OpDelete, oscarsim.OpUpdate, oscarsim.OpGet,
		oscarsim.OpList, oscarsim.OpJob, oscarsim.OpJob, oscarsim.OpBuckets, oscarsim.OpStatus)
	what = pick(rng, oscarsim.FaultHang, oscarsim.FaultRefuse, oscarsim.Fault500, oscarsim.Fault500After, oscarsim.FaultLate, oscarsim.FaultCrash)
	return op, what, 1 + rng.IntN(3)
}
