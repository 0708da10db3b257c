package clusters

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// A syncer that opens a stream proves to be that of its cluster by opening an
// envelope: the challenge is sealed to the very key that the cluster's secrets are sealed
// to. So only a syncer that can read these secrets gets the stream. That holds for clusters
// that joined with a token, for those that were given a certificate, and without users in etcd.

// relayProofLife is how long a proof can be used, and how far the clocks of two
// instances may be apart.
const relayProofLife = time.Minute

// streamsInterval is the time between two checks of which streams may stay.
const streamsInterval = 10 * time.Second

// StreamChallenge is what a syncer has to open.
type StreamChallenge struct {
	// Instance of the control plane that asks.
	Instance string
	// Sealed is empty for a syncer that has a stream to this instance already.
	Sealed  string
	Expires time.Time
	// Instances is how many of the control plane run.
	Instances int
}

// ChallengeStream begins a stream of a cluster: see TakeStream. connected are the
// instances that its syncer has streams to.
func (c *Controller) ChallengeStream(ctx context.Context, cluster, uid string, connected []string) (StreamChallenge, error) {
	out := StreamChallenge{Instance: c.instance}
	c.state.Read(func(v *view.View) { out.Instances = v.Instances.Len() })
	if c.connected(cluster, uid, connected) {
		return out, nil
	}
	if err := checkPeer(cluster, uid); err != nil {
		return out, err
	}
	if err := c.gate.Fresh(ctx); err != nil {
		return out, err
	}
	var recipient string
	var err error
	c.state.Read(func(v *view.View) { recipient, err = mayStream(v, cluster, uid) })
	if err != nil {
		return out, err
	}
	now := c.cfg.Now()
	proof, err := c.streamProof(cluster, uid, now)
	if err != nil {
		return out, err
	}
	out.Expires = now.Add(relayProofLife)
	// The envelope itself has no end: the cluster's clock may be another one than ours.
	out.Sealed, err = seal.Seal(seal.Header{Purpose: seal.PurposeRelay, Cluster: cluster, UID: uid}, []byte(proof), recipient)
	if err != nil {
		return out, fmt.Errorf("seal a challenge: %w", err)
	}
	return out, nil
}

// connected says whether both the syncer and this instance know a stream between them. When only one
// of them does, the stream is ending.
func (c *Controller) connected(cluster, uid string, connected []string) bool {
	return c.streamOf(cluster, uid) && slices.Contains(connected, c.instance)
}

// OpenStream is what a syncer says to open a stream.
type OpenStream struct {
	Cluster string
	UID     string
	// Proof is what a challenge holds.
	Proof string
	// Connected are the instances that the syncer has streams to.
	Connected []string
}

// TakeStream checks the proof of a syncer that opens a stream. The returned function uses the
// connection until it or ctx ends, and closes it. A load balancer may have led the syncer to an
// instance that it has a stream to: then the error is a conflict, and the proof stays valid at
// another instance.
func (c *Controller) TakeStream(ctx context.Context, open OpenStream) (serve func(context.Context, net.Conn) error, err error) {
	cluster, uid := open.Cluster, open.UID
	if err := checkPeer(cluster, uid); err != nil {
		return nil, err
	}
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	now := c.cfg.Now()
	proven := c.provesStream(cluster, uid, open.Proof, now)
	if proven && c.connected(cluster, uid, open.Connected) {
		return nil, &fault.Error{Code: fault.CodeConflict, Message: "this instance has a stream of this syncer"}
	}
	if !proven || !c.proofs.use(open.Proof, now) {
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: "the proof is not what the last challenge of this cluster holds; ask for another challenge"}
	}
	c.state.Read(func(v *view.View) { _, err = mayStream(v, cluster, uid) })
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, conn net.Conn) error {
		return c.hub.Serve(ctx, relay.Peer{Cluster: cluster, UID: uid, Since: now}, conn)
	}, nil
}

// Instance names this instance, as long as it runs.
func (c *Controller) Instance() string { return c.instance }

func checkPeer(cluster, uid string) error {
	var violations []oscar.Violation
	if !oscar.ValidClusterID(cluster) {
		violations = append(violations, oscar.Violation{Path: "cluster_id", Rule: oscar.RuleName,
			Message: "a cluster id has 1 to 63 letters, digits, dots, dashes and underscores"})
	}
	if uid == "" || !plainWord(uid) {
		violations = append(violations, oscar.Violation{Path: "cluster_uid", Rule: oscar.RuleType, Message: "it is the uid of the cluster's registration"})
	}
	if len(violations) > 0 {
		return fault.Invalid(violations...)
	}
	return nil
}

// mayStream says whether a cluster under a registration may have a stream, and which key it
// proves itself by.
func mayStream(v *view.View, cluster, uid string) (recipient string, err error) {
	reg := v.Clusters.Get(cluster).Rec
	switch {
	case reg == nil || reg.UID != uid:
		return "", &fault.Error{Code: fault.CodeForbidden, Message: "no such cluster is registered"}
	case reg.Revoked != nil:
		return "", &fault.Error{Code: fault.CodeForbidden, Message: "the cluster has lost its rights"}
	}
	if recipient = v.Recipient(cluster); recipient == "" {
		return "", &fault.Error{Code: fault.CodeUnavailable, RetryAfter: time.Second, Message: "the cluster's syncer has not told its key yet"}
	}
	return recipient, nil
}

// streamProof is the time, random bytes, and an HMAC of both and of the registration that it
// is for. All instances have its key, so that another instance can check it.
func (c *Controller) streamProof(cluster, uid string, now time.Time) (string, error) {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, challengeBytes), uint64(now.Unix())) //nolint:gosec // after 1970
	nonce := make([]byte, challengeNonce)
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("make a challenge: %w", err)
	}
	b = append(b, nonce...)
	return base64.RawURLEncoding.EncodeToString(append(b, c.streamMAC(cluster, uid, b)...)), nil
}

func (c *Controller) provesStream(cluster, uid, proof string, now time.Time) bool {
	b, err := base64.RawURLEncoding.DecodeString(proof)
	if err != nil || len(b) != challengeBytes {
		return false
	}
	body, mac := b[:challengeStamp+challengeNonce], b[challengeStamp+challengeNonce:]
	if !hmac.Equal(mac, c.streamMAC(cluster, uid, body)) {
		return false
	}
	given := time.Unix(int64(binary.BigEndian.Uint64(body)), 0) //nolint:gosec // one of ours
	return now.Sub(given).Abs() <= relayProofLife
}

// streamMAC needs no separators but one byte: neither an id nor a uid holds it, and the
// rest has one length.
func (c *Controller) streamMAC(cluster, uid string, body []byte) []byte {
	mac := hmac.New(sha256.New, c.streamKey)
	mac.Write([]byte(cluster + "\x00" + uid + "\x00"))
	mac.Write(body)
	return mac.Sum(nil)[:challengeMAC]
}

// proofs remembers the proofs that were used at this instance for as long as they are
// good, so that none is used twice here.
type proofs struct {
	mu   sync.Mutex
	used map[string]time.Time
}

// use is true the first time.
func (p *proofs) use(proof string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.used, func(_ string, at time.Time) bool { return now.Sub(at).Abs() > 2*relayProofLife })
	if _, again := p.used[proof]; again {
		return false
	}
	if p.used == nil {
		p.used = map[string]time.Time{}
	}
	p.used[proof] = now
	return true
}

// RunStreams closes those of clusters that were removed or have lost their rights, until
// ctx ends; then all of them.
func (c *Controller) RunStreams(ctx context.Context) {
	defer c.hub.Close()
	tick := time.NewTicker(streamsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.hub.CloseUnless(func(p relay.Peer) bool {
			var reg *record.Cluster
			c.state.Read(func(v *view.View) { reg = v.Clusters.Get(p.Cluster).Rec })
			return reg != nil && reg.UID == p.UID && reg.Revoked == nil
		})
	}
}

// streamOf says whether the syncer of a registration has a stream to this instance.
func (c *Controller) streamOf(cluster, uid string) bool {
	p, there := c.hub.Peer(cluster)
	return there && p.UID == uid
}
