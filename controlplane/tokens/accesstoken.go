package tokens

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// A user's service is made with his access token, so that he owns it on each OSCAR. The token
// of his request travels to the clusters that need it: it is sealed to each of them alone, in a
// record of its own that is written before the transaction that needs it. It is useful until it
// expires.

// Margin is how long a token must remain valid after the votes, so that its service can be
// made.
const Margin = 15 * time.Second

// AccessToken is the access token of a caller for a federation that he owns; nil for the
// administrator, whose services belong to the clusters themselves.
type AccessToken struct {
	token   string
	expires time.Time
}

// AccessTokenOf returns the caller's token if owner is the caller.
func AccessTokenOf(caller identity.Caller, owner string) *AccessToken {
	token, expires := caller.Token()
	if caller.Administrator || token == "" || caller.Subject != owner {
		return nil
	}
	return &AccessToken{token: token, expires: expires}
}

// CheckLife refuses a token that will have expired before it is used; otherwise each cluster
// would refuse it later.
func (b *AccessToken) CheckLife(now time.Time, need time.Duration) error {
	if b == nil {
		return nil
	}
	if left := b.expires.Sub(now); left < need {
		return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf(
			"the access token expires in %s, and the clusters need it for %s to make the service; get a fresh one and send the request again",
			max(left, 0).Round(time.Second), need)}
	}
	return nil
}

// Usable says whether the token lives long enough to be sent.
func (b *AccessToken) Usable(now time.Time) bool { return b != nil && b.expires.Sub(now) > Margin }

// SealAccess seals a token for each of the clusters whose key is known.
func (c *Controller) SealAccess(b *AccessToken, f *record.Federation, clusters []string) ([]gate.Staged, error) {
	clusters = slices.Compact(slices.Sorted(slices.Values(clusters)))
	recipients := make([]seal.Recipient, len(clusters))
	c.state.Read(func(v *view.View) {
		for i, id := range clusters {
			recipients[i] = v.SealsTo(id)
		}
	})
	life := int64(b.expires.Sub(c.cfg.Now()) / time.Second)
	out := make([]gate.Staged, len(clusters))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, id := range clusters {
		if recipients[i].Key == "" {
			continue
		}
		g.Go(func() error {
			sealed, err := c.sealer.Seal(seal.Header{
				Purpose: seal.PurposeAccessToken, Cluster: id, UID: f.UID, Generation: f.Generation, Expires: b.expires,
			}, []byte(b.token), recipients[i])
			out[i] = gate.Staged{Key: record.TokensKey(id, f.UID), Rec: record.Tokens{
				V: record.Version, Generation: f.Generation, Expires: record.At(b.expires), LifeS: life, Access: sealed,
			}}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(out, func(s gate.Staged) bool { return s.Key == "" }), nil
}

// ClustersOf lists the clusters of those members that are replicas.
func ClustersOf(members []record.Member) []string {
	var out []string
	for _, m := range members {
		if m.Replica() {
			out = append(out, m.ClusterID)
		}
	}
	return out
}

// ClustersWanting lists the clusters with a replica that is not ready: they may have a service
// to make, or wait for a token to make one.
func ClustersWanting(s view.Situation) []string {
	var out []string
	for _, r := range s.Replicas {
		if r.Desired != nil && !r.Desired.Tombstone() && !r.Reported(record.PhaseReady) {
			out = append(out, r.At.ClusterID)
		}
	}
	return out
}

// ClustersEnding lists the clusters of the tombstones among desired records: what an OSCAR keeps of a user's service, his
// buckets and volume or a Secret in his namespace, goes with his token.
func ClustersEnding(put []gate.Placed) []string {
	var out []string
	for _, p := range put {
		if p.Rec.Tombstone() {
			out = append(out, p.Cluster)
		}
	}
	return out
}

// Drop deletes the access tokens of a federation that has nothing more to make, but of the clusters that need one yet.
// The administrator's federations have none.
func Drop(f *record.Federation, tx *store.Txn, needed func(cluster string) bool) {
	if f.Owner == identity.Admin {
		return
	}
	for _, id := range ClustersOf(view.MembersOf(f)) {
		if needed == nil || !needed(id) {
			tx.Delete(record.TokensKey(id, f.UID))
		}
	}
}

// accessTokenExpired says whether an access token has expired. Its expiry is by its issuer's
// clock. The instance that received it compared that with its own clock and wrote the remaining
// life.
func (c *Controller) accessTokenExpired(t *record.Tokens, revision int64) bool {
	if t.LifeS <= 0 {
		return c.cfg.Now().After(t.Expires.Time) // an older instance did not say
	}
	return c.gate.Age(revision) > time.Duration(t.LifeS)*time.Second
}

// Sweep deletes the expired access tokens below a prefix.
func (c *Controller) Sweep(ctx context.Context, prefix string) error {
	items, _, err := c.store.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, kv := range items {
		if record.ParseKey(kv.Key).Kind != record.KindTokens {
			continue
		}
		t, err := store.Decode[record.Tokens](kv)
		if err != nil {
			c.cfg.Logger.Error("a record cannot be read", "error", err)
		} else if !c.accessTokenExpired(t, kv.ModRevision) {
			continue
		}
		if err := c.gate.DeleteAsRead(ctx, kv); err != nil {
			return err
		}
	}
	return nil
}
