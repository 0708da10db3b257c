package delegation

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// MaxHops is how often a job may be handed over.
const MaxHops = 3

// NeverPriority and above: no job is handed to such a member.
const NeverPriority = 101

// Snapshot is everything that a choice is made from.
type Snapshot struct {
	// Policy is static, random, load-based or topsis; empty is static.
	Policy string `json:"policy,omitempty"`
	// Topology of the federation: none, star (or tree) or mesh.
	Topology string `json:"topology,omitempty"`
	// Weights are federation.weights: of places in random (by cluster, or by
	// cluster/service, which goes first), of the criteria in topsis.
	Weights map[string]float64 `json:"weights,omitempty"`
	// From is the place that the job is at, Candidate.Place of one of the candidates;
	// empty when that is no member any more.
	From string `json:"from,omitempty"`
	// Hops is how often the job was handed over before, if it is to be handed over.
	Hops int `json:"hops,omitempty"`
	// Seed of what is drawn; see SeedOf.
	Seed uint64 `json:"seed,string,omitempty"`
	// Request is what one pod of the job asks its node for.
	Request Request `json:"request"`
	// Candidates in the order of the federation's members, the coordinator first.
	// Places differ.
	Candidates []Candidate `json:"candidates"`
}

// SeedOf gives the attempts of jobs seeds that look independent and need no storage.
func SeedOf(job string, attempt int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s.%d", job, attempt))
	return binary.BigEndian.Uint64(sum[:8])
}

// Request is what one pod asks one node for, or what is free on one: millicores,
// bytes and whole GPUs. Nothing is negative.
type Request struct {
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
	GPU    int64 `json:"gpu,omitempty"`
}

// RequestOf is the request of one pod of a service. The error names the quantity
// that is none.
func RequestOf(s *oscar.Service) (Request, error) {
	r, err := s.Resources()
	return Request{CPU: r.MilliCPU, Memory: r.MemoryBytes, GPU: r.GPUs}, err
}

// Promise is capacity that was promised to Count jobs of one size that have not
// been seen running yet. It is of a cluster, not of a node.
type Promise struct {
	Request
	Count int64 `json:"count"`
}

// Candidate is one member of the federation, as it stands in the moment of choice.
type Candidate struct {
	// Cluster and Service of a replica, or URL of a member of type endpoint.
	Cluster string `json:"cluster,omitempty"`
	Service string `json:"service,omitempty"`
	URL     string `json:"url,omitempty"`
	// Coordinator of the federation.
	Coordinator bool `json:"coordinator,omitempty"`
	// Entry says that the job came in here: no edge is needed to run it here.
	Entry bool `json:"entry,omitempty"`
	// Visited says that the job is to be handed over and was here before, or that it was refused here.
	Visited bool `json:"visited,omitempty"`

	// Priority: 0 is best, NeverPriority and above never.
	Priority int `json:"priority,omitempty"`
	// Weight in random; nil is 1, 0 never.
	Weight *int `json:"weight,omitempty"`

	// Ready says that the service is in place on its cluster; not asked of an endpoint.
	Ready bool `json:"ready,omitempty"`
	// Alive says that the cluster's syncer has a session.
	Alive bool `json:"alive,omitempty"`
	// Fresh says that the capacity was written in that session.
	Fresh bool `json:"fresh,omitempty"`
	// State of the cluster; empty is active.
	State State `json:"state,omitempty"`
	// Inputs says whether the member can read the job's inputs; InputsWhy is a
	// sentence about it.
	Inputs    Inputs `json:"inputs,omitempty"`
	InputsWhy string `json:"inputs_why,omitempty"`

	Capacity Capacity  `json:"capacity,omitzero"`
	Promised []Promise `json:"promised,omitempty"`
	History  History   `json:"history,omitzero"`
}

// Capacity is what a cluster had free when it was last measured.
type Capacity struct {
	// Nodes that can take a pod, and what is free on each.
	Nodes []Request `json:"nodes,omitempty"`
	// More nodes that are not listed, and what they have free together. They count
	// in sums; no pod is promised room on them.
	More Sum `json:"more,omitzero"`
	// Taken is how many promised jobs are taken off already (Compact).
	Taken int64 `json:"taken,omitempty"`
}

// Sum is what several nodes have free together.
type Sum struct {
	Request
	Nodes int64 `json:"nodes"`
}

// History is what topsis knows of a member besides its capacity.
type History struct {
	// Latency in seconds of the cluster's last answer; 0 is unknown.
	Latency float64 `json:"latency,omitempty"`
	// Duration is the mean of its finished jobs in seconds; 0 is unknown.
	Duration float64 `json:"duration,omitempty"`
	// Pending jobs.
	Pending int64 `json:"pending,omitempty"`
}

// State of a cluster.
type State string

// States of a cluster. Only an active one takes jobs.
const (
	StateActive   State = "active"
	StateCordoned State = "cordoned"
	StatePaused   State = "paused"
	StateRemoving State = "removing"
	StateRevoked  State = "revoked"
)

// Inputs says whether a member can read the inputs of a job.
type Inputs string

// What is known of a job's inputs. Unknown ones bar every member but the one where
// the job came in.
const (
	InputsUnknown    Inputs = ""
	InputsReadable   Inputs = "readable"
	InputsUnreadable Inputs = "unreadable"
)

// Place names the candidate: cluster/service, or the url of an endpoint.
func (c *Candidate) Place() string {
	if c.URL != "" {
		return c.URL
	}
	return c.Cluster + "/" + c.Service
}

func (c *Candidate) endpoint() bool { return c.URL != "" }
