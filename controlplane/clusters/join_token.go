package clusters

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A join token is joinPrefix and 256 bits by chance in hexadecimal.
const (
	joinPrefix = "ofj_"
	joinBytes  = 32
	// joinLife is how long a join token may be used.
	joinLife = 15 * time.Minute
)

// IssueJoin makes a join token for a registered cluster. Only the administrator may.
// With replaceKey the syncer that uses it takes the cluster's place although the
// cluster has joined with another key, or from another Kubernetes.
func (c *Controller) IssueJoin(ctx context.Context, caller identity.Caller, cluster string, replaceKey bool) (*v1.JoinToken, error) {
	if !caller.Administrator {
		return nil, fault.AdminOnly("change clusters")
	}
	if c.cfg.Access == nil {
		return nil, errNoAccess()
	}
	token, err := newJoinToken()
	if err != nil {
		return nil, err
	}
	// The lease is begun before it is known whether it is needed: it ends by itself.
	lease, err := c.store.Grant(ctx, joinLife)
	if err != nil {
		return nil, fault.Crossing(err)
	}
	now := c.cfg.Now()
	join := record.Join{
		V: record.Version, ClusterID: cluster, ReplaceKey: replaceKey, By: caller.Subject,
		IssuedAt: record.At(now), ExpiresAt: record.At(now.Add(joinLife)),
	}
	key, registration := record.JoinKey(record.JoinHash(token)), record.ClusterKey(cluster)
	_, err = c.store.Update(ctx, store.Update{
		Keys: []string{key, registration},
		Build: func(v store.View, tx *store.Txn) error {
			if _, written := v.KV(key); written {
				return nil // our own first try
			}
			kv, ok := v.KV(registration)
			if !ok {
				return fault.NotFound(fmt.Sprintf("cluster %q is not registered", cluster))
			}
			reg, err := store.Decode[record.Cluster](kv)
			if err != nil {
				return err
			}
			if reg.Removal != nil {
				return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("cluster %q is being removed; that cannot be taken back", cluster)}
			}
			join.ClusterUID = reg.UID
			tx.Expect(registration)
			tx.Expect(key)
			tx.PutUntil(key, join, lease)
			issued := record.Audit{By: caller.Subject, Action: record.ActionIssueJoin, Outcome: record.OutcomeDone, ClusterID: cluster}
			if replaceKey {
				issued.Detail = "it may replace the key that the cluster has joined with"
			}
			request.Note(tx, now, issued)
			return nil
		},
	})
	if err != nil {
		return nil, fault.Crossing(err)
	}
	c.cfg.Logger.Info("a join token was made", "cluster", cluster, "by", caller.Subject, "replace_key", replaceKey)
	return &v1.JoinToken{ClusterID: cluster, ClusterUID: join.ClusterUID, Token: token, ExpiresAt: v1.Time(join.ExpiresAt)}, nil
}

func newJoinToken() (string, error) {
	secret := make([]byte, joinBytes)
	if _, err := rand.Read(secret); err != nil {
		return "", fmt.Errorf("make a join token: %w", err)
	}
	return joinPrefix + hex.EncodeToString(secret), nil
}

// plausibleJoinToken says whether text has the form of a join token.
func plausibleJoinToken(text string) bool {
	rest, ok := strings.CutPrefix(text, joinPrefix)
	secret, err := hex.DecodeString(rest)
	return ok && err == nil && len(secret) == joinBytes
}

// errNoAccess is the answer to a join when etcd has no users.
func errNoAccess() error {
	return &fault.Error{Code: fault.CodeFailedPrecondition, Message: "nobody joins here: the etcd of this control plane has no users that it could give out; start the syncer with --etcd-endpoints"}
}
