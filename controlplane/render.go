package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Purposes of the envelopes that the control plane seals.
const (
	purposeSpec         = "spec"
	purposeSubmitted    = "submitted"
	purposeRefreshToken = "refresh_token"
)

// staged is one record at its key.
type staged struct {
	key string
	rec any
}

// renderer turns one submitted service into what each cluster gets.
type renderer struct {
	cp      *ControlPlane
	service *oscar.Service
	graph   *topology.Graph
	// fed is the federation at the generation that is rendered.
	fed record.Federation
	// name gives the specs their names.
	name   func(service, uid string) string
	meta   record.Meta
	origin topology.Origin
	// storage is what the workers are to use of the origin's MinIO; nil for nothing.
	// minio are the MinIOs of all, as their syncers report them, by cluster.
	storage    *record.OriginStorage
	minio      map[string]string
	template   *topology.Template
	recipients map[string]seal.Recipient
	// alive are the clusters whose syncers are connected.
	alive map[string]bool
	// services lists, by cluster, those that the federation had there until now,
	// also the ones that are deleted.
	services map[string][]string
}

func (c *ControlPlane) renderer(s *oscar.Service, g *topology.Graph, fed record.Federation) *renderer {
	r := &renderer{
		cp: c, service: s, graph: g, fed: fed, recipients: map[string]seal.Recipient{}, alive: map[string]bool{},
		minio: map[string]string{}, services: map[string][]string{},
	}
	r.name = func(service, uid string) string { return record.SpecName(service, uid, fed.Generation) }
	r.origin.ClusterID = g.Nodes[0].Member.ClusterID
	c.state.read(func(v *View) {
		r.meta = *v.meta
		for _, n := range g.Nodes {
			r.recipients[n.Member.ClusterID] = v.sealsTo(n.Member.ClusterID)
			r.alive[n.Member.ClusterID] = v.alive(n.Member.ClusterID)
			r.minio[n.Member.ClusterID] = v.minioOf(n.Member.ClusterID).MinioEndpoint
		}
		if reg, ok := v.clusters[r.origin.ClusterID]; ok {
			r.origin.Endpoint, r.origin.SSLVerify = reg.rec.Endpoint, reg.rec.SSLVerify
		}
		if fed.Owner != identity.Admin && topology.SharesStorage(s) {
			r.storage = v.originStorage(r.origin)
		}
		if f, ok := v.federations[fed.UID]; ok {
			for _, m := range slices.Concat(f.rec.Members, f.rec.Leaving) {
				r.services[m.ClusterID] = append(r.services[m.ClusterID], m.ServiceName)
			}
			for _, d := range v.deleted {
				if d.rec.Federation == fed.UID {
					r.services[d.rec.ClusterID] = append(r.services[d.rec.ClusterID], d.rec.ServiceName)
				}
			}
		}
	})
	r.template = topology.NewTemplate(s, g, r.origin)
	return r
}

// reachable says whether the cluster has said to which key its secrets are to be sealed.
func (r *renderer) reachable(cluster string) bool { return r.recipients[cluster].Key != "" }

// rendered is what one replica's OSCAR is to be sent.
type rendered struct {
	at record.Member
	// public is the service without secrets, and patch the secrets as a merge patch.
	public *oscar.Service
	patch  json.RawMessage
	// left names the buckets that it has not made and may attach to.
	left []string
	// leftBy names the services that may have made those; nil without any.
	leftBy []string
	// origin is the storage of the origin that it uses; nil for its own cluster's.
	origin *record.OriginStorage
	sees   []string
}

// made is one replica ready to be written: its desired record, the spec that it
// names, and what both were made from.
type made struct {
	desired placed
	spec    staged
	what    rendered
}

// replicas renders those of the members that are replicas, in their order. The
// time goes into sealing, so every processor takes its share.
func (r *renderer) replicas(members []record.Member) ([]made, error) {
	all := make([]made, len(members))
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
	return slices.DeleteFunc(all, func(one made) bool { return one.desired.rec == nil }), nil
}

// replica renders node i for the replica m: its desired record with intent
// prepare, and the spec that the record names. Its secrets are sealed to the
// cluster that gets it and to the control plane.
func (r *renderer) replica(i int, m record.Member) (made, error) {
	token := r.cp.serviceToken(m.UID)
	public, patch, err := r.template.Render(i, topology.Mark{
		UID: m.UID, Generation: r.fed.Generation, Federation: r.fed.UID, Epoch: r.fed.Epoch, ControlPlane: r.meta.ControlPlane, Token: token,
	})
	if err != nil {
		return made{}, fmt.Errorf("render %s/%s: %w", m.ClusterID, m.ServiceName, err)
	}
	raw, err := json.Marshal(public)
	if err != nil {
		return made{}, fmt.Errorf("write %s/%s: %w", m.ClusterID, m.ServiceName, err)
	}
	sealed, err := r.cp.sealer.Seal(seal.Header{
		Purpose: purposeSpec, Cluster: m.ClusterID, UID: m.UID, Generation: r.fed.Generation,
	}, patch, r.cp.sealer.Own(), r.recipients[m.ClusterID])
	if err != nil {
		return made{}, fmt.Errorf("seal %s/%s: %w", m.ClusterID, m.ServiceName, err)
	}
	name := r.name(m.ServiceName, m.UID)
	what := rendered{at: m, public: public, patch: patch, sees: sees(r.graph, i), origin: r.originOf(i)}
	what.left, what.leftBy = r.left(m, public)
	spec := record.Spec{V: record.Version, Owner: r.fed.Owner, Service: raw, Sealed: sealed, Left: what.left, LeftBy: what.leftBy, Origin: what.origin, VolumeGoes: topology.VolumeGoes(r.service)}
	desired := &record.Desired{
		V: record.Version, Intent: record.IntentPrepare, Federation: r.fed.UID, GroupID: r.fed.GroupID, UID: m.UID,
		Generation: r.fed.Generation, RequestID: r.fed.RequestID, Owner: r.fed.Owner, Drift: r.fed.Drift,
		Paused: r.fed.Paused, ReschedulerThreshold: r.fed.ReschedulerThreshold, Spec: name, Sees: what.sees, Mark: record.Mark(token), Deadline: r.fed.Deadline,
		Epoch: r.fed.Epoch,
	}
	return made{
		desired: placed{cluster: m.ClusterID, service: m.ServiceName, rec: desired},
		spec:    staged{record.SpecKey(m.ClusterID, name), spec},
		what:    what,
	}, nil
}

// submitted is what the control plane itself keeps of the service: its words
// without secrets, and its secrets sealed to the control plane alone.
func (r *renderer) submitted() ([]staged, error) {
	public, patch := oscar.SplitSecrets(r.service)
	raw, err := json.Marshal(public)
	if err != nil {
		return nil, fmt.Errorf("write the submitted service: %w", err)
	}
	sealed, err := r.cp.sealer.Seal(seal.Header{
		Purpose: purposeSubmitted, UID: r.fed.UID, Generation: r.fed.Generation,
	}, patch, r.cp.sealer.Own())
	if err != nil {
		return nil, fmt.Errorf("seal the submitted secrets: %w", err)
	}
	return []staged{
		{record.HistoryKey(r.fed.UID, r.fed.Generation), record.History{
			V: record.Version, Owner: r.fed.Owner, RequestID: r.fed.RequestID, By: r.fed.By, ChangedAt: r.fed.ChangedAt, Service: raw,
		}},
		{record.SecretsKey(r.fed.UID, r.fed.Generation), record.Secrets{
			V: record.Version, Owner: r.fed.Owner, Generation: r.fed.Generation, Sealed: sealed,
		}},
	}, nil
}

// left names those buckets of a service that the replica m may attach to, though it has not made
// them: those that earlier lives of the same owner's service left behind on this
// cluster, and not on another machine that had its name; and, since one service of a
// federation may take the place of another there, those that the federation's other
// services left, or made and report now. What is not reported yet nobody vouches for. by names
// those services: a bucket that another one made since is not among what they left.
func (r *renderer) left(m record.Member, s *oscar.Service) (out, by []string) {
	names := oscar.Buckets(s)
	by = append(slices.Clone(r.services[m.ClusterID]), m.ServiceName)
	slices.Sort(by)
	by = slices.Compact(by)
	state := r.cp.state
	state.read(func(v *View) {
		for _, service := range by {
			for uid := range v.deletedOf[m.ClusterID+"/"+service] {
				d := v.deleted[uid].rec
				if d != nil && d.Owner == r.fed.Owner && (d.ClusterUID == "" || d.ClusterUID == v.clusterUID(m.ClusterID)) {
					out = append(out, d.BucketsLeft...)
				}
			}
			desired, observed := v.desired(m.ClusterID, service).rec, v.observed(m.ClusterID, service).rec
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

// stage writes records that nothing refers to yet, in as few transactions as
// their sizes allow.
func (c *ControlPlane) stage(ctx context.Context, records []staged) error {
	for some := range slices.Chunk(records, stageAtOnce) {
		err := inParts(some, func(some []staged) error {
			_, err := c.store.Update(ctx, store.Update{Build: func(_ store.View, tx *store.Txn) error {
				for _, r := range some {
					tx.Put(r.key, r.rec)
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

// stageAtOnce is how many specs are first tried in one transaction.
const stageAtOnce = 100

func member(n topology.Node) record.Member {
	m := n.Member
	return record.Member{
		Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Priority: m.Priority,
		URL: m.URL, SSLVerify: m.SSLVerify, Weight: m.Weight, Coordinator: n.Coordinator,
	}
}

// sees lists cluster/service of the replicas that replica i lists.
func sees(g *topology.Graph, i int) []string {
	var out []string
	for _, j := range g.Sees(i) {
		if n := g.Nodes[j]; n.Replica() {
			out = append(out, n.Member.ClusterID+"/"+n.Member.ServiceName)
		}
	}
	return out
}
