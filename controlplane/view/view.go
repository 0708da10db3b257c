package view

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// View is the store at one revision. It is given to functions that read the state, and
// is good for as long as they run. Its records are shared: a reader changes none.
type View struct {
	Revision    int64
	Meta        *record.Meta
	Fence       int64
	Clusters    map[string]Versioned[record.Cluster]
	Federations map[string]Versioned[record.Federation]
	Names       map[string]string
	Nodes       map[string]*Node
	// named lists, for a service name, the federations with a member of that name,
	// also one that leaves.
	Named map[string]map[string]bool
	// registrations counts the changes of what clusters are registered or were.
	Registrations int
	// onCluster lists, for a cluster, the federations with a member on it, one that
	// is being added or one that leaves.
	OnCluster map[string]map[string]bool
	Deleted   map[string]Versioned[record.Deleted]
	// deletedOf lists, for cluster/service, the uids of earlier lives.
	DeletedOf map[string]map[string]bool
	// marked has, for the mark of a service's token, the place of that service.
	Marked map[string]Location
	// custody is of the tokens of each federation that has any.
	Tokens map[string]*TokenState
	// jobs is of the jobs.
	Jobs jobIndex
	// news is what the present refresh has changed.
	news *Changes
}

// Versioned is a record with its mod revision.
type Versioned[T any] struct {
	Rec *T
	Rev int64
}

// Node is what stands below c/<cluster>/.
type Node struct {
	Session     Versioned[record.Session]
	Desired     map[string]Versioned[record.Desired]
	Observed    map[string]Versioned[record.Observed]
	Asks        map[string]Versioned[record.Ask]
	Shown       map[string]Versioned[record.Shown]
	Self        Versioned[record.ObservedCluster]
	DesiredSelf Versioned[record.DesiredCluster]
	Capacity    Versioned[record.Capacity]
	Assignments map[AttemptID]Versioned[record.Assignment]
	Reports     map[AttemptID]Versioned[record.JobReport]
	Offers      map[string]Versioned[record.Offer]
	Answers     map[string]Versioned[record.OfferAnswer]
}

// Epoch is the present one as records name it.
func (v *View) Epoch() string {
	if v.Meta == nil {
		return ""
	}
	return v.Meta.Word()
}

// Alive says whether the cluster's syncer holds a session.
func (v *View) Alive(cluster string) bool {
	n := v.Nodes[cluster]
	return n != nil && n.Session.Rec != nil
}

// Desired is what is asked of a service on a cluster.
func (v *View) Desired(cluster, service string) Versioned[record.Desired] {
	if n := v.Nodes[cluster]; n != nil {
		return n.Desired[service]
	}
	return Versioned[record.Desired]{}
}

// Observed is what the syncer of a cluster reports of a service.
func (v *View) Observed(cluster, service string) Versioned[record.Observed] {
	if n := v.Nodes[cluster]; n != nil {
		return n.Observed[service]
	}
	return Versioned[record.Observed]{}
}
