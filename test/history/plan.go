package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/linear"
)

// Plan is all that a history is made of.
type Plan struct {
	Seed  uint64
	Shape Shape
	// Steps are in the order of their times.
	Steps []Step
	// Trials come when all is quiet: see AllTrials.
	Trials []Trial `json:"trials,omitempty"`
}

// Shape is how large a federation is, and what its OSCARs are like.
type Shape struct {
	Clusters, ControlPlanes int
	// Names is how many services the clients meet at whose operations must have an order.
	Names int
	// Latency is how long an OSCAR takes for each create and delete.
	Latency time.Duration
	// Ugly OSCARs throttle reads and break concurrent writes, as real ones do.
	Ugly bool
	// Slots is how many jobs run at the same time on each cluster.
	Slots int
	// Delay is how long bytes take from one host to another.
	Delay time.Duration
	// Guests is how many clusters there are besides, which leave and come again: none or one.
	Guests int `json:"guests,omitempty"`
	// People is how many users of an OpenID issuer there are.
	People int `json:"people,omitempty"`
	// Delegation is the policy of the service for jobs; empty is load-based.
	Delegation string `json:"delegation,omitempty"`
	// Origin says that jobs use the MinIO of their coordinator's cluster.
	Origin bool `json:"origin,omitempty"`
	// Limited says that clusters may write little.
	Limited bool `json:"limited,omitempty"`
	// Forgets says that control planes keep for less than an hour what they keep for days: see forgets.
	Forgets bool `json:"forgets,omitempty"`
	// Month says that weeks pass between two steps: more than control planes keep most things.
	Month bool `json:"month,omitempty"`
	// Kubernetes says that syncers see the Secrets of their clusters.
	Kubernetes bool `json:"kubernetes,omitempty"`
	// Revives says that a MinIO that restarts makes buckets again that are deleted meanwhile.
	Revives bool `json:"revives,omitempty"`
}

// Step is one thing that happens: what a client asks for, or a fault.
type Step struct {
	// At is when, since the beginning.
	At time.Duration
	// Client is who does it. The steps of one client follow each other.
	Client int `json:"client,omitempty"`
	// One of these is set.
	Ask    *linear.Ask `json:"ask,omitempty"`
	Free   *Free       `json:"free,omitempty"`
	Job    *Job        `json:"job,omitempty"`
	Member *Member     `json:"member,omitempty"`
	Deed   *Deed       `json:"deed,omitempty"`
	Local  *Local      `json:"local,omitempty"`
	Fault  *Fault      `json:"fault,omitempty"`
}

// String is one line.
func (s Step) String() string {
	what := ""
	switch {
	case s.Ask != nil:
		what = fmt.Sprintf("client %d: %s service %d places %s", s.Client, s.Ask.Kind, s.Ask.Service, s.Ask.Places)
	case s.Free != nil:
		what = fmt.Sprintf("client %d: %s", s.Client, s.Free)
	case s.Job != nil:
		what = fmt.Sprintf("client %d: %s", s.Client, s.Job)
	case s.Member != nil:
		what = fmt.Sprintf("client %d: %s", s.Client, s.Member)
	case s.Deed != nil:
		what = s.Deed.String()
	case s.Local != nil:
		what = s.Local.String()
	case s.Fault != nil:
		what = s.Fault.String()
	}
	return fmt.Sprintf("%12v  %s", s.At.Round(time.Millisecond), what)
}

// String tells the plan, a line for each step.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %+v\n", p.Seed, p.Shape)
	for _, s := range p.Steps {
		fmt.Fprintln(&b, s)
	}
	for _, trial := range p.Trials {
		fmt.Fprintf(&b, "      trial  %+v\n", trial)
	}
	return b.String()
}

// Free is an operation on a service that only one client works on.
type Free struct {
	Op string
	// Service is its number, Topology and Members what is wanted: a bit for each cluster.
	Service  int
	Topology string `json:"topology,omitempty"`
	Members  uint8  `json:"members,omitempty"`
}

// String names the operation.
func (f Free) String() string {
	return fmt.Sprintf("%s free service %d %s %04b", f.Op, f.Service, f.Topology, f.Members)
}

// Operations on services that are free.
const (
	freeCreate   = "create"
	freeChange   = "change"
	freeAdd      = "add members"
	freeRemove   = "remove members"
	freeDelete   = "delete"
	freeRollback = "roll back"
	freePause    = "pause"
	freeResume   = "resume"
	freePlan     = "plan"
	freeRotate   = "rotate the token"
)

func freeOps() []string {
	return []string{
		freeCreate, freeCreate, freeCreate, freeChange, freeChange, freeAdd, freeAdd, freeRemove, freeRemove, freeDelete, freeDelete,
		freeRollback, freePause, freeResume, freeResume, freePlan, freeRotate,
	}
}

// Job is an operation on jobs.
type Job struct {
	Op string
	// Event is the number of the event that is submitted, or whose job it is about.
	Event int
}

// String names the operation.
func (j Job) String() string { return fmt.Sprintf("%s event %d", j.Op, j.Event) }

// Operations on jobs.
const (
	jobSubmit = "submit"
	jobCancel = "cancel the job of"
	jobReplay = "replay the job of"
)

// Clients by what they do. The first ones are those of test/linear.
const (
	askers     = 3
	freeClient = askers + iota
	jobClient
	operatorClient
	guestClient
	burstClient
	personClient
	exposedClient = personClient + mostPeople
	batchClient   = exposedClient + 1
	crowdClient   = batchClient + 1
	clients       = crowdClient + crowdClients
)

const freeServices = 3

// Streams of random numbers, each for a part of the drawing: what is added to one part changes no
// other.
const (
	streamScene   = 2
	streamEtcd    = 101
	streamGuest   = 102
	streamPeople  = 103
	streamBurst   = 104
	streamRestore = 105
	streamRun     = 106
	streamBatch   = 107
	streamCrowd   = 108
	streamForget  = 109
	streamMonth   = 110
	streamSecrets = 111
	streamRevives = 112
)

// Draw makes the plan of a seed.
func Draw(seed uint64) Plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := Plan{Seed: seed, Shape: Shape{
		Clusters: 2 + rng.IntN(3), ControlPlanes: 1 + rng.IntN(2), Names: 1 + rng.IntN(2),
		Latency: pick(rng, 0, 0, 300*time.Millisecond, oscarsim.RealLatency), Ugly: rng.IntN(3) == 0,
		Slots: 1 + rng.IntN(4), Delay: pick(rng, 200*time.Microsecond, 2*time.Millisecond, 30*time.Millisecond),
	}}
	d := drawer{rng: rng, plan: &p, length: time.Minute + time.Duration(rng.Int64N(int64(6*time.Minute)))}
	for client := range askers {
		d.client(client, 6+rng.IntN(10), func() Step {
			ask := linear.Draw(rng, p.Shape.Names, p.Shape.Clusters)
			return Step{Ask: &ask}
		})
	}
	d.client(freeClient, rng.IntN(14), func() Step {
		return Step{Free: &Free{
			Op: pick(rng, freeOps()...), Service: rng.IntN(freeServices),
			Topology: pick(rng, "none", "star", "tree", "mesh"), Members: uint8(rng.UintN(1 << p.Shape.Clusters)),
		}}
	})
	events := 0
	d.client(jobClient, 4+rng.IntN(24), func() Step {
		j := &Job{Op: jobSubmit, Event: events}
		if r := rng.IntN(20); r < 2 && events > 0 {
			*j = Job{Op: pick(rng, jobCancel, jobReplay), Event: rng.IntN(events)}
		} else if r == 2 && events > 0 {
			j.Event = rng.IntN(events) // once more
		} else {
			events++
		}
		return Step{Job: j}
	})
	d.faults(2 + rng.IntN(10))
	d.drawEtcd(rand.New(rand.NewPCG(seed, streamEtcd)))
	d.drawGuest(rand.New(rand.NewPCG(seed, streamGuest)))
	d.drawPeople(rand.New(rand.NewPCG(seed, streamPeople)))
	d.drawBurst(rand.New(rand.NewPCG(seed, streamBurst)))
	d.drawRestore(rand.New(rand.NewPCG(seed, streamRestore)))
	d.drawRunState(rand.New(rand.NewPCG(seed, streamRun)))
	d.drawBatch(rand.New(rand.NewPCG(seed, streamBatch)))
	d.drawCrowd(rand.New(rand.NewPCG(seed, streamCrowd)))
	d.drawSecrets(rand.New(rand.NewPCG(seed, streamSecrets)))
	d.drawRevives(rand.New(rand.NewPCG(seed, streamRevives)))
	p.Shape.Forgets = rand.New(rand.NewPCG(seed, streamForget)).IntN(2) == 0
	if rng.IntN(5) == 0 {
		d.pause(rng, time.Hour, 10*time.Hour)
	}
	d.drawMonth(rand.New(rand.NewPCG(seed, streamMonth)))
	d.scenes()
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return p
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// drawer draws the steps of a plan.
type drawer struct {
	rng    *rand.Rand
	plan   *Plan
	length time.Duration
}

// client draws n steps at times of the history, in bursts now and then.
func (d *drawer) client(client, n int, draw func() Step) {
	at := time.Duration(0)
	for range n {
		pause := time.Duration(d.rng.Int64N(int64(2*d.length) / int64(n)))
		if d.rng.IntN(3) == 0 {
			pause = time.Duration(d.rng.Int64N(int64(400 * time.Millisecond)))
		}
		at += pause
		s := draw()
		s.At, s.Client = at, client
		d.plan.Steps = append(d.plan.Steps, s)
	}
}

// faults draws n faults.
func (d *drawer) faults(n int) {
	for range n {
		f := drawFault(d.rng, d.plan.Shape)
		d.plan.Steps = append(d.plan.Steps, Step{At: time.Duration(d.rng.Int64N(int64(d.length))), Fault: &f})
	}
}

// drawMonth draws weeks for a few of the plans. A day of a cluster costs some ten seconds of CPU time.
func (d *drawer) drawMonth(rng *rand.Rand) {
	if rng.IntN(500) > 0 {
		return
	}
	d.plan.Shape.Month = true
	d.pause(rng, 5*24*time.Hour, 35*24*time.Hour)
}

// pause puts a time between two steps, in which a fault may last: a night, or a month.
func (d *drawer) pause(rng *rand.Rand, least, most time.Duration) {
	from, length := time.Duration(rng.Int64N(int64(d.length))), least+time.Duration(rng.Int64N(int64(most-least)))
	for i := range d.plan.Steps {
		if s := &d.plan.Steps[i]; s.At > from {
			s.At += length
		} else if s.Fault != nil && s.At+s.Fault.For > from && s.Fault.lasts() {
			s.Fault.For += length
		}
	}
}
