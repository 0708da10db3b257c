package controlplane

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// The service of a user is made with his access token, so that it is his on each
// OSCAR. The token that he calls us with travels to the clusters that need it: sealed
// to each of them alone, in a record of its own that is written before the
// transaction which needs it. It is of use until it expires.

// purposeAccess is the purpose of the envelope around an access token.
const purposeAccess = "access_token"

// tokenMargin is how long a token must outlive the votes, in which its service is to
// be made.
const tokenMargin = 15 * time.Second

// bearing is the access token that somebody brought for a federation of his own; nil
// for the administrator, whose services are the clusters' own.
type bearing struct {
	token   string
	expires time.Time
}

// bears gives the token of a caller for what he owns.
func bears(caller identity.Caller, owner string) *bearing {
	token, expires := caller.Token()
	if caller.Administrator || token == "" || caller.Subject != owner {
		return nil
	}
	return &bearing{token: token, expires: expires}
}

// lasts refuses a token that will have expired before it is used: the caller would be
// told so by every cluster, later.
func (b *bearing) lasts(now time.Time, need time.Duration) error {
	if b == nil {
		return nil
	}
	if left := b.expires.Sub(now); left < need {
		return &Error{Code: CodeFailedPrecondition, Message: fmt.Sprintf(
			"the access token expires in %s, and the clusters need it for %s to make the service; get a fresh one and send the request again",
			max(left, 0).Round(time.Second), need)}
	}
	return nil
}

// useful says whether it is worth sending.
func (b *bearing) useful(now time.Time) bool { return b != nil && b.expires.Sub(now) > tokenMargin }

// sealAccess seals a token for each of the clusters that have said to which key.
func (c *ControlPlane) sealAccess(b *bearing, f *record.Federation, clusters []string) ([]staged, error) {
	clusters = slices.Compact(slices.Sorted(slices.Values(clusters)))
	recipients := make([]seal.Recipient, len(clusters))
	c.state.read(func(v *View) {
		for i, id := range clusters {
			recipients[i] = v.sealsTo(id)
		}
	})
	life := int64(b.expires.Sub(c.cfg.Now()) / time.Second)
	out := make([]staged, len(clusters))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, id := range clusters {
		if recipients[i].Key == "" {
			continue
		}
		g.Go(func() error {
			sealed, err := c.sealer.Seal(seal.Header{
				Purpose: purposeAccess, Cluster: id, UID: f.UID, Generation: f.Generation, Expires: b.expires,
			}, []byte(b.token), recipients[i])
			out[i] = staged{record.TokensKey(id, f.UID), record.Tokens{
				V: record.Version, Generation: f.Generation, Expires: record.At(b.expires), LifeS: life, Access: sealed,
			}}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(out, func(s staged) bool { return s.key == "" }), nil
}

// clustersOf lists the clusters of those members that are replicas.
func clustersOf(members []record.Member) []string {
	var out []string
	for _, m := range members {
		if m.Replica() {
			out = append(out, m.ClusterID)
		}
	}
	return out
}

// wanting lists the clusters on which something is not in place: they may have a
// service to make, or wait for a token to do so.
func wanting(s situation) []string {
	var out []string
	for _, r := range s.replicas {
		if r.desired != nil && !r.desired.Tombstone() && !r.reported(record.PhaseReady) {
			out = append(out, r.at.ClusterID)
		}
	}
	return out
}

// dropTokens takes the tokens of a federation away that makes nothing any more. The
// administrator's has none.
func dropTokens(f *record.Federation, tx *store.Txn) {
	if f.Owner == identity.Admin {
		return
	}
	for _, id := range clustersOf(membersOf(f)) {
		tx.Delete(record.TokensKey(id, f.UID))
	}
}

// over says whether an access token has expired. Its end is by its issuer's clock: the
// instance that took it has held it against its own, and wrote how long it still had.
func (c *ControlPlane) over(t *record.Tokens, revision int64) bool {
	if t.LifeS <= 0 {
		return c.cfg.Now().After(t.Expires.Time) // an older instance did not say
	}
	return c.age(revision) > time.Duration(t.LifeS)*time.Second
}

// sweepTokens takes the access tokens below a prefix away that have expired.
func (c *ControlPlane) sweepTokens(ctx context.Context, prefix string) error {
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
		} else if !c.over(t, kv.ModRevision) {
			continue
		}
		if err := c.deleteAsRead(ctx, kv); err != nil {
			return err
		}
	}
	return nil
}
