package federations

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/parts"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Renderer turns one definition into the records of each cluster.
type Renderer struct {
	cp      *Controller
	service *oscar.Service
	graph   *topology.Graph
	// fed is the federation at the generation to render.
	fed record.Federation
	// Name gives the specs their names.
	Name   func(service, uid string) string
	meta   record.Meta
	origin topology.Origin
	// storage is the part of the origin's MinIO that the workers use; nil for none.
	storage    *record.OriginStorage
	minio      map[string]string
	template   *topology.Template
	recipients map[string]seal.Recipient
	// alive are the clusters whose syncers are connected.
	alive map[string]bool
	// mayShare says that all instances read parts, and readsParts has the clusters whose syncers
	// do. known is what generations that are kept share.
	mayShare   bool
	readsParts map[string]bool
	known      []*shared
	// shared is what the replicas share; nil when each has all of its own. own are parts with
	// secrets of the submitted service that are sent to no replica.
	shared *shared
	own    []parts.Part
	// large says that no envelope holds the secrets of a replica.
	large bool
	// services lists, by cluster, the services that the federation has had there until now,
	// including deleted ones.
	services map[string][]string
}

// Renderer renders a federation of a definition and its graph.
func (c *Controller) Renderer(s *oscar.Service, g *topology.Graph, fed record.Federation) *Renderer {
	r := &Renderer{
		cp: c, service: s, graph: g, fed: fed, recipients: map[string]seal.Recipient{}, alive: map[string]bool{},
		minio: map[string]string{}, services: map[string][]string{}, readsParts: map[string]bool{},
	}
	r.Name = func(service, uid string) string { return record.SpecName(service, uid, fed.Generation) }
	r.origin.ClusterID = g.Nodes[0].Member.ClusterID
	c.state.Read(func(v *view.View) {
		r.meta, r.mayShare = *v.Meta, v.MayWrite(record.FormParts)
		for _, n := range g.Nodes {
			r.recipients[n.Member.ClusterID] = v.SealsTo(n.Member.ClusterID)
			r.alive[n.Member.ClusterID] = v.Alive(n.Member.ClusterID)
			if v.ReadsParts(n.Member.ClusterID) {
				r.readsParts[n.Member.ClusterID] = true
			}
			r.minio[n.Member.ClusterID] = v.MinioOf(n.Member.ClusterID).MinioEndpoint
		}
		if reg, ok := v.Clusters.Lookup(r.origin.ClusterID); ok {
			r.origin.Endpoint, r.origin.SSLVerify = reg.Rec.Endpoint, reg.Rec.SSLVerify
		}
		if fed.Owner != identity.Admin && topology.SharesStorage(s) {
			r.storage = v.OriginStorage(r.origin)
		}
		if f, ok := v.Federations.Lookup(fed.UID); ok {
			for _, m := range slices.Concat(f.Rec.Members, f.Rec.Leaving) {
				r.services[m.ClusterID] = append(r.services[m.ClusterID], m.ServiceName)
			}
			for _, d := range v.Deleted.All() {
				if d.Rec.Federation == fed.UID {
					r.services[d.Rec.ClusterID] = append(r.services[d.Rec.ClusterID], d.Rec.ServiceName)
				}
			}
		}
	})
	r.template = topology.NewTemplate(s, g, r.origin)
	_, secrets := r.template.Common()
	r.large = len(secrets) > maxSecrets
	return r
}

// reachable says whether the cluster has reported the key that its secrets are sealed to.
func (r *Renderer) reachable(cluster string) bool { return r.recipients[cluster].Key != "" }

// Rendered is the service that one replica's OSCAR is to be sent.
type Rendered struct {
	At record.Member
	// Public is the service without secrets, and patch the secrets as a merge patch.
	Public *oscar.Service
	Patch  json.RawMessage
	// left names the buckets of earlier lives that it may attach to.
	Left []string
	// leftBy names the services that may have made those; nil without any.
	leftBy []string
	// secretLeft says that an earlier life has left the Secret of its name.
	secretLeft bool
	// Origin is the storage of the origin that it uses; nil for its own cluster's.
	Origin *record.OriginStorage
	Sees   []string
}

// Question is what its cluster can be asked beforehand: all that a vote looks at.
func (r Rendered) Question(owner string) (v1.RelayQuestion, error) {
	service := *r.Public
	service.Script = ""
	body, err := json.Marshal(service)
	if err != nil {
		return v1.RelayQuestion{}, fmt.Errorf("service %q: %w", service.Name, err)
	}
	return v1.RelayQuestion{Owner: owner, Service: body, Left: r.Left, LeftBy: r.leftBy, SecretLeft: r.secretLeft}, nil
}

// Made is one rendered replica: its desired record, the spec that it names, and their source.
type Made struct {
	Desired gate.Placed
	Spec    gate.Staged
	what    Rendered
}

// Replicas renders the members that are replicas, in their order. Sealing takes most of the
// time, so it runs on all processors.
func (r *Renderer) Replicas(members []record.Member) ([]Made, error) {
	if err := r.share(); err != nil {
		return nil, err
	}
	all := make([]Made, len(members))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, m := range members {
		if m.Replica() {
			g.Go(func() (err error) {
				all[i], err = r.replica(i, m)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(one Made) bool { return one.Desired.Rec == nil }), nil
}

// replica renders node i for the replica m: its desired record with intent
// prepare, and the spec that the record names. Its secrets are sealed to the
// cluster that gets it and to the control plane.
func (r *Renderer) replica(i int, m record.Member) (Made, error) {
	token := r.cp.tokens.ServiceToken(m.UID)
	mark := topology.Mark{
		UID: m.UID, Generation: r.fed.Generation, Federation: r.fed.UID, Epoch: r.fed.Epoch, ControlPlane: r.meta.ControlPlane, Token: token,
	}
	public, patch, err := r.template.Render(i, mark)
	if err != nil {
		return Made{}, fmt.Errorf("render %s/%s: %w", m.ClusterID, m.ServiceName, err)
	}
	name := r.Name(m.ServiceName, m.UID)
	if r.shared != nil && !r.getsParts(m.ClusterID) {
		name = record.WholeSpecName(name)
	}
	what := Rendered{At: m, Public: public, Patch: patch, Sees: view.Sees(r.graph, i), Origin: r.originOf(i)}
	what.Left, what.leftBy = r.left(m, public)
	what.secretLeft = r.secretLeft(m)
	spec := record.Spec{V: record.Version, Owner: r.fed.Owner, Left: what.Left, LeftBy: what.leftBy, Origin: what.Origin, VolumeGoes: topology.VolumeGoes(r.service)}
	if err := r.fill(&spec, i, mark, what); err != nil {
		return Made{}, fmt.Errorf("write %s/%s: %w", m.ClusterID, m.ServiceName, err)
	}
	desired := &record.Desired{
		V: record.Version, Intent: record.IntentPrepare, Federation: r.fed.UID, GroupID: r.fed.GroupID, UID: m.UID,
		Generation: r.fed.Generation, RequestID: r.fed.RequestID, Owner: r.fed.Owner, Drift: r.fed.Drift,
		Paused: r.fed.Halted(), RunState: r.fed.RunState, ReschedulerThreshold: r.fed.ReschedulerThreshold, Spec: name, Sees: what.Sees, Mark: record.Mark(token), Deadline: r.fed.Deadline,
		Epoch: r.fed.Epoch, SecretLeft: what.secretLeft,
	}
	return Made{
		Desired: gate.Placed{Cluster: m.ClusterID, Service: m.ServiceName, Rec: desired},
		Spec:    gate.Staged{Key: record.SpecKey(m.ClusterID, name), Rec: spec},
		what:    what,
	}, nil
}

// fill enters what a replica's OSCAR is sent: what differs from what the replicas share, where
// its syncer reads parts. Its secrets are sealed to the cluster that gets it and to the control
// plane.
func (r *Renderer) fill(spec *record.Spec, i int, mark topology.Mark, what Rendered) (err error) {
	h := seal.Header{Purpose: seal.PurposeSpec, Cluster: what.At.ClusterID, UID: mark.UID, Generation: mark.Generation}
	to := []seal.Recipient{r.cp.sealer.Own(), r.recipients[what.At.ClusterID]}
	if !r.getsParts(what.At.ClusterID) {
		if spec.Service, err = what.Public.MarshalJSON(); err != nil {
			return err
		}
		spec.Sealed, err = r.cp.sealer.Seal(h, what.Patch, to...)
		return err
	}
	changes, secrets, err := r.template.Changes(i, mark)
	if err != nil {
		return err
	}
	h.Purpose = seal.PurposeSpecChanges
	spec.Parts, spec.Changes = r.shared.names(), changes
	spec.Sealed, err = r.seal(h, r.shared.key, secrets, to...)
	return err
}

// DefinitionRecords are the records that the control plane itself keeps of a definition: the
// public part without secrets, and the secrets sealed to the control plane alone.
// Parts are to be asked for after it.
func (r *Renderer) DefinitionRecords() ([]gate.Staged, error) {
	public, patch := oscar.SplitSecrets(r.service)
	raw, err := public.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write the submitted service: %w", err)
	}
	history := record.History{V: record.Version, Owner: r.fed.Owner, RequestID: r.fed.RequestID, By: r.fed.By, ChangedAt: r.fed.ChangedAt}
	if err := r.history(&history, raw); err != nil {
		return nil, fmt.Errorf("write the submitted service: %w", err)
	}
	secrets, err := r.secrets(patch)
	if err != nil {
		return nil, fmt.Errorf("seal the submitted secrets: %w", err)
	}
	return []gate.Staged{
		{Key: record.HistoryKey(r.fed.UID, r.fed.Generation), Rec: history},
		{Key: record.SecretsKey(r.fed.UID, r.fed.Generation), Rec: secrets},
	}, nil
}

// left names the buckets of earlier lives that it may attach to.
func (r *Renderer) left(m record.Member, s *oscar.Service) (out, by []string) {
	names := oscar.Buckets(s)
	by = append(slices.Clone(r.services[m.ClusterID]), m.ServiceName)
	slices.Sort(by)
	by = slices.Compact(by)
	state := r.cp.state
	state.Read(func(v *view.View) {
		for _, service := range by {
			for uid := range v.DeletedOf.Of(m.ClusterID + "/" + service) {
				d := v.Deleted.Get(uid).Rec
				if d != nil && d.Owner == r.fed.Owner && (d.ClusterUID == "" || d.ClusterUID == v.ClusterUID(m.ClusterID)) {
					out = append(out, d.BucketsLeft...)
				}
			}
			desired, observed := v.Desired(m.ClusterID, service).Rec, v.Observed(m.ClusterID, service).Rec
			if service != m.ServiceName && desired != nil && observed != nil && desired.Federation == r.fed.UID && observed.UID == desired.UID {
				out = append(out, observed.BucketsMade...)
			}
		}
	})
	out = slices.DeleteFunc(out, func(bucket string) bool {
		_, named := slices.BinarySearch(names, bucket)
		return !named // a syncer may have reported any number of others
	})
	if len(out) == 0 {
		return nil, nil
	}
	slices.Sort(out)
	return slices.Compact(out), by
}

// secretLeft says that the last life of the same owner at a place has left its Secret there.
func (r *Renderer) secretLeft(m record.Member) bool {
	var last view.Versioned[record.Deleted]
	r.cp.state.Read(func(v *view.View) {
		for uid := range v.DeletedOf.Of(m.ClusterID + "/" + m.ServiceName) {
			d := v.Deleted.Get(uid)
			if d.Rec != nil && d.Rec.Owner == r.fed.Owner && d.Rev > last.Rev && (d.Rec.ClusterUID == "" || d.Rec.ClusterUID == v.ClusterUID(m.ClusterID)) {
				last = d
			}
		}
	})
	return last.Rec != nil && last.Rec.SecretLeft
}

// Stage writes records that nothing refers to yet, in as few transactions as
// their sizes allow.
func (c *Controller) Stage(ctx context.Context, records []gate.Staged) error {
	for some := range gate.Runs(records) {
		err := gate.InParts(some, func(some []gate.Staged) error {
			_, err := c.store.Update(ctx, store.Update{Build: func(_ store.View, tx *store.Txn) error {
				for _, r := range some {
					tx.Put(r.Key, r.Rec)
				}
				return nil
			}})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Member is a member of a federation as its record has it.
func Member(n topology.Node) record.Member {
	m := n.Member
	return record.Member{
		Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Priority: m.Priority,
		URL: m.URL, SSLVerify: m.SSLVerify, Weight: m.Weight, Coordinator: n.Coordinator,
	}
}

// originOf is the origin's storage that node i uses; nil for its own cluster's. When both
// MinIOs have the same endpoint it keeps its own: OSCAR cannot tell them apart, and within
// Kubernetes one name means another server on each cluster.
func (r *Renderer) originOf(i int) *record.OriginStorage {
	node := r.graph.Nodes[i]
	if r.storage == nil || node.Coordinator || r.minio[node.Member.ClusterID] == r.storage.MinioEndpoint {
		return nil
	}
	return r.storage
}
