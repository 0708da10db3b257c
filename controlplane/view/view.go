package view

import (
	"strings"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// View is the store at one revision. Functions that read the state receive it, and it is valid
// only while they run. Its records are shared: a reader changes none.
type View struct {
	Revision    int64
	Meta        *record.Meta
	Fence       int64
	Clusters    Table[string, Versioned[record.Cluster]]
	Federations Table[string, Versioned[record.Federation]]
	Names       Table[string, string]
	Nodes       Nodes
	// Instances are those of the control plane that run.
	Instances Table[string, Versioned[record.Instance]]
	// Named lists, for a service name, the federations with a member of that name, also one
	// that leaves.
	Named Index[string, string]
	// Registrations counts the changes to the set of registered clusters.
	Registrations int
	// OnCluster lists, for a cluster, the federations with a member on it, also one that is
	// being added or that leaves.
	OnCluster Index[string, string]
	// oscars lists, for the id of an OSCAR, the clusters that it is registered as, and told, for a
	// cluster, those that were told to have the same.
	oscars, told Index[string, string]
	// heirs maps a federation that ended by an adoption to the one that its replica went to.
	heirs map[string]string
	// InBatch lists, for the first federation of a batch, all of its federations.
	InBatch Index[string, string]
	Deleted Table[string, Versioned[record.Deleted]]
	// DeletedOf lists, for cluster/service, the uids of earlier lives.
	DeletedOf Index[string, string]
	// Marked has, for the mark of a service's token, the location of that service.
	Marked Table[string, Location]
	// Tokens has the token state of each federation that has any.
	Tokens TokenStates
	Jobs   jobIndex
	orders orders
	// news collects the changes of the present refresh.
	news *Changes
}

func newView() View {
	return View{
		Instances: tableOf(map[string]Versioned[record.Instance]{}),
		Clusters:  tableOf(map[string]Versioned[record.Cluster]{}), Federations: tableOf(map[string]Versioned[record.Federation]{}),
		Names: tableOf(map[string]string{}), Marked: tableOf(map[string]Location{}), Nodes: Nodes{map[string]*Node{}},
		Named: newIndex[string, string](), OnCluster: newIndex[string, string](), InBatch: newIndex[string, string](),
		oscars: newIndex[string, string](), told: newIndex[string, string](), heirs: map[string]string{},
		Deleted: tableOf(map[string]Versioned[record.Deleted]{}), DeletedOf: newIndex[string, string](),
		Tokens: TokenStates{map[string]*TokenState{}}, Jobs: newJobIndex(), orders: newOrders(), news: newChanges(),
	}
}

// Of makes a View of records. Tests of pure functions use it.
func Of(records ...store.KV) *View {
	v := newView()
	for _, kv := range records {
		v.Revision = max(v.Revision, kv.ModRevision)
		if id, ok := strings.CutPrefix(kv.Key, record.JobsPrefix); ok {
			if q, ok := record.PackJob(id, kv.Value); ok {
				v.applyQueued(id, &q, kv.ModRevision)
				continue
			}
		}
		v.apply(kv.Key, kv, true)
	}
	return &v
}

// Versioned is a record with its mod revision.
type Versioned[T any] struct {
	Rec *T
	Rev int64
}

// Location is a service on a cluster.
type Location struct{ Cluster, Service string }

// Node has the records below c/<cluster>/.
type Node struct {
	Session     Versioned[record.Session]
	Desired     Table[string, Versioned[record.Desired]]
	Observed    Table[string, Versioned[record.Observed]]
	Asks        Table[string, Versioned[record.Ask]]
	Shown       Table[string, Versioned[record.Shown]]
	Self        Versioned[record.ObservedCluster]
	DesiredSelf Versioned[record.DesiredCluster]
	Capacity    Versioned[record.Capacity]
	Assignments Table[AttemptID, Versioned[record.Assignment]]
	Reports     Table[AttemptID, Versioned[record.JobReport]]
	Offers      Table[string, Versioned[record.Offer]]
	Answers     Table[string, Versioned[record.OfferAnswer]]
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
	n := v.Nodes.m[cluster]
	return n != nil && n.Session.Rec != nil
}

// MayWrite says whether a form of records may be written that only instances read: the store asks all of
// them to read it.
func (v *View) MayWrite(form int) bool { return v.Meta != nil && v.Meta.MinReader >= form }

// ReadsParts says whether the syncer of a cluster is connected and reads parts.
func (v *View) ReadsParts(cluster string) bool {
	return v.Alive(cluster) && v.Nodes.m[cluster].Session.Rec.Parts
}

// Heir is the federation that the only replica of one that is gone went to; nil for none.
func (v *View) Heir(uid string) *record.Federation { return v.Federations.m[v.heirs[uid]].Rec }

// setsRunStates says whether the syncer of a cluster is connected and stops and starts exposed services.
func (v *View) setsRunStates(cluster string) bool {
	return v.Alive(cluster) && v.Nodes.m[cluster].Session.Rec.RunStates
}

// Desired is the desired record of a service on a cluster.
func (v *View) Desired(cluster, service string) Versioned[record.Desired] {
	if n := v.Nodes.m[cluster]; n != nil {
		return n.Desired.m[service]
	}
	return Versioned[record.Desired]{}
}

// Observed is the report of a cluster's syncer about a service.
func (v *View) Observed(cluster, service string) Versioned[record.Observed] {
	if n := v.Nodes.m[cluster]; n != nil {
		return n.Observed.m[service]
	}
	return Versioned[record.Observed]{}
}
