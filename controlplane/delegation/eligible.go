package delegation

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// entrant is a candidate while the choice is made.
type entrant struct {
	*Candidate
	place string
	why   Why
	// message goes with a why that bars the candidate.
	message string
	room    room
	score   *float64
	// last puts it behind all others: it is preferred not to be used, and the job came
	// in there.
	last bool
}

// judge says for one candidate whether the job may go there, and whether it has room.
func (s *Snapshot) judge(c *Candidate, from *Candidate) *entrant {
	e := &entrant{Candidate: c, place: c.Place()}
	if e.why, e.message = s.barred(c, from); e.why != "" {
		return e
	}
	if why, message := s.disliked(c); why != "" {
		if !c.Entry {
			e.why, e.message = why, message
			return e
		}
		e.last = true
	}
	if c.endpoint() {
		return e
	}
	e.room = measure(c.Capacity, c.Promised, s.Request)
	if e.room.fits {
		return e
	}
	e.why = WhyNoRoom
	if s.Request.GPU > 0 && e.room.sum.GPU == 0 {
		e.why = WhyNoGPU
	}
	e.message = noRoom(s.Request, e.room)
	return e
}

// barred says why a job must not go to a candidate, or nothing.
func (s *Snapshot) barred(c, from *Candidate) (Why, string) {
	here := from != nil && from.Place() == c.Place()
	if !c.Entry && !here && !s.edge(from) {
		return WhyNoEdge, s.noEdge(from)
	}
	if c.Visited {
		return WhyVisited, "the job was there before"
	}
	if !here && s.Hops >= MaxHops {
		return WhyTooManyHops, fmt.Sprintf("the job was handed over %d times, and %d is the limit", s.Hops, MaxHops)
	}
	if c.endpoint() {
		return "", ""
	}
	switch c.State {
	case StateActive, "":
	case StateRevoked:
		return WhyRevoked, "the cluster has no rights any more"
	case StateRemoving:
		return WhyRemoving, "the cluster is being removed"
	case StatePaused:
		return WhyPaused, "the cluster is paused"
	default:
		return WhyCordoned, fmt.Sprintf("the cluster is %s", c.State)
	}
	switch {
	case !c.Alive:
		return WhyNotAlive, "no syncer has a session for the cluster"
	case !c.Ready:
		return WhyNotReady, "the service is not in place there"
	case !c.Fresh:
		return WhyNoCapacity, "the cluster has not said in its present session what it has free"
	}
	switch {
	case c.Inputs == InputsReadable, c.Inputs == InputsUnknown && c.Entry:
		return "", ""
	case c.Inputs == InputsUnknown:
		return WhyInputsUnknown, cmp.Or(c.InputsWhy, "whether it can read the job's inputs is not known")
	}
	return WhyInputsUnreadable, cmp.Or(c.InputsWhy, "it cannot read the job's inputs")
}

// disliked says why the policy keeps jobs from being handed to a candidate, or nothing.
func (s *Snapshot) disliked(c *Candidate) (Why, string) {
	if c.Priority >= NeverPriority {
		return WhyNeverUsed, fmt.Sprintf("its priority is %d, and %d and more are never used", c.Priority, NeverPriority)
	}
	if s.policy() == oscar.DelegationRandom && s.weight(c) <= 0 {
		return WhyZeroWeight, "its weight is 0"
	}
	return "", ""
}

// edge says whether the topology lets a job go from where it is to another member. A job that is at no
// member, as one whose member has left, may go to each one of a mesh.
func (s *Snapshot) edge(from *Candidate) bool {
	if from != nil && from.endpoint() {
		return false
	}
	switch s.Topology {
	case oscar.TopologyMesh:
		return true
	case oscar.TopologyStar, oscar.TopologyTree:
		return from != nil && from.Coordinator
	}
	return false
}

func (s *Snapshot) noEdge(from *Candidate) string {
	switch {
	case from == nil:
		return "the job is at no member of the federation"
	case s.Topology == oscar.TopologyStar, s.Topology == oscar.TopologyTree:
		return fmt.Sprintf("in a star only the coordinator hands jobs on, and the job is at %s", from.Place())
	}
	return fmt.Sprintf("topology %s lets no job move", cmp.Or(s.Topology, oscar.TopologyNone))
}

func noRoom(request Request, r room) string {
	var b strings.Builder
	fmt.Fprintf(&b, "no node has %s free", request)
	if r.taken > 0 {
		fmt.Fprintf(&b, " beside %d promised %s", r.taken, plural(r.taken, "job"))
	}
	fmt.Fprintf(&b, "; %d %s together have %s", r.sum.Nodes, plural(r.sum.Nodes, "node"), r.sum.Request)
	return b.String()
}

// String is how an amount is told to people.
func (r Request) String() string {
	text := fmt.Sprintf("cpu %dm and memory %dMi", r.CPU, r.Memory>>20)
	if r.GPU > 0 {
		text += fmt.Sprintf(" and %d %s", r.GPU, plural(r.GPU, "GPU"))
	}
	return text
}

func plural(n int64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
