package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Purposes of the envelopes that the control plane seals.
const (
	purposeSpec         = "spec"
	purposeRefreshToken = "refresh_token"
)

// draft is a federation that is about to be created: everything that
// transaction A and the writes before it need.
type draft struct {
	fed     record.Federation
	desired []placed
	// before holds what is written before transaction A refers to it.
	before []staged
	tokens []staged
}

// places says whether the replica of this uid could be rendered.
func (d *draft) places(uid string) bool {
	return slices.ContainsFunc(d.desired, func(p placed) bool { return p.rec.UID == uid })
}

// staged is one record at its key.
type staged struct {
	key string
	rec any
}

// draft renders the service for every replica and seals its secrets to the
// cluster that gets it and to the control plane.
func (c *ControlPlane) draft(s *oscar.Service, g *topology.Graph, fed record.Federation, refreshToken string, now time.Time) (*draft, error) {
	d := &draft{fed: fed}
	var meta record.Meta
	recipients := map[string]string{}
	origin := topology.Origin{ClusterID: g.Nodes[0].Member.ClusterID}
	c.state.read(func() {
		meta = *c.state.meta
		for _, n := range g.Nodes {
			if self := c.state.nodes[n.Member.ClusterID]; self != nil && self.self.rec != nil {
				recipients[n.Member.ClusterID] = self.self.rec.Recipient
			}
		}
		if reg, ok := c.state.clusters[origin.ClusterID]; ok {
			origin.Endpoint, origin.SSLVerify = reg.rec.Endpoint, reg.rec.SSLVerify
		}
	})
	until := record.At(now.Add(c.cfg.PrepareDeadline))
	d.fed.Deadline = &until
	for i, n := range g.Nodes {
		m := member(n)
		if !n.Replica() {
			d.fed.Members = append(d.fed.Members, m)
			continue
		}
		m.UID = newUID()
		d.fed.Members = append(d.fed.Members, m)
		recipient := recipients[m.ClusterID]
		if recipient == "" {
			continue
		}
		token := c.serviceToken(m.UID)
		public, patch, err := topology.Render(s, g, i, topology.Mark{
			UID: m.UID, Generation: fed.Generation, ControlPlane: meta.ControlPlane, Token: token,
		}, origin)
		if err != nil {
			return nil, fmt.Errorf("render %s/%s: %w", m.ClusterID, m.ServiceName, err)
		}
		spec, err := c.seal(public, patch, seal.Header{
			Purpose: purposeSpec, Cluster: m.ClusterID, UID: m.UID, Generation: fed.Generation,
		}, recipient)
		if err != nil {
			return nil, fmt.Errorf("seal %s/%s: %w", m.ClusterID, m.ServiceName, err)
		}
		spec.Left = c.left(fed.Owner, m.ClusterID, m.ServiceName)
		name := record.SpecName(m.ServiceName, m.UID, fed.Generation)
		d.before = append(d.before, staged{record.SpecKey(m.ClusterID, name), spec})
		d.desired = append(d.desired, placed{cluster: m.ClusterID, service: m.ServiceName, rec: &record.Desired{
			V: record.Version, Intent: record.IntentPrepare, Federation: fed.UID, GroupID: fed.GroupID, UID: m.UID,
			Generation: fed.Generation, RequestID: fed.RequestID, Owner: fed.Owner, Drift: fed.Drift, Paused: fed.Paused,
			Spec: name, Sees: sees(g, i), Mark: record.Mark(token), Deadline: &until,
		}})
	}
	if refreshToken != "" && recipients[origin.ClusterID] != "" {
		sealed, err := seal.Seal(seal.Header{
			Purpose: purposeRefreshToken, Cluster: origin.ClusterID, UID: fed.UID, Generation: fed.Generation,
		}, []byte(refreshToken), recipients[origin.ClusterID])
		if err != nil {
			return nil, fmt.Errorf("seal the refresh token: %w", err)
		}
		d.tokens = append(d.tokens, staged{record.TokensKey(origin.ClusterID, fed.UID),
			record.Tokens{V: record.Version, Generation: fed.Generation, Refresh: sealed}})
	}
	submitted, _ := oscar.SplitSecrets(s)
	raw, err := json.Marshal(submitted)
	if err != nil {
		return nil, fmt.Errorf("write the submitted service: %w", err)
	}
	d.before = append(d.before, staged{record.HistoryKey(fed.UID, fed.Generation), record.History{V: record.Version, Service: raw}})
	return d, nil
}

func (c *ControlPlane) seal(public *oscar.Service, patch json.RawMessage, h seal.Header, recipient string) (record.Spec, error) {
	raw, err := json.Marshal(public)
	if err != nil {
		return record.Spec{}, err
	}
	sealed, err := seal.Seal(h, patch, recipient, c.identity.Recipient())
	if err != nil {
		return record.Spec{}, err
	}
	return record.Spec{V: record.Version, Service: raw, Sealed: sealed}, nil
}

// left names the buckets that earlier lives of the same owner's service left behind.
func (c *ControlPlane) left(owner, cluster, service string) []string {
	var out []string
	c.state.read(func() {
		for uid := range c.state.deletedOf[cluster+"/"+service] {
			if d := c.state.deleted[uid].rec; d != nil && d.Owner == owner {
				out = append(out, d.BucketsLeft...)
			}
		}
	})
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// stage writes records that nothing refers to yet, in as few transactions as
// their sizes allow.
func (c *ControlPlane) stage(ctx context.Context, records []staged) error {
	for len(records) > 0 {
		n := min(len(records), stageAtOnce)
		for {
			_, err := c.store.Update(ctx, store.Update{Build: func(_ store.View, tx *store.Txn) error {
				for _, r := range records[:n] {
					tx.Put(r.key, r.rec)
				}
				return nil
			}})
			if err == nil {
				break
			}
			if n == 1 || !errors.Is(err, store.ErrTooLarge) {
				return err
			}
			n = (n + 1) / 2
		}
		records = records[n:]
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
