package originstorage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"sync"

	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/keyserver"
	"github.com/oscarfed/oscarfed/syncer/origin"
)

// OriginKeys implements keyserver.Site. A token is that of a life of a service that is to
// stand here and uses the storage of its origin, or an access token that a job of such a
// service is being posted with.
func (o *Keys) OriginKeys(ctx context.Context, token string) (origin.Keys, error) {
	view := o.cluster.Mirror.Snapshot()
	c, err := o.cluster.Serves(view.KV(record.DesiredClusterKey(o.cluster.ID)))
	if err != nil {
		return origin.Keys{}, err // also before etcd was read
	}
	service, uid := speaksFor(view, o.cluster.ID, token, o.inUse)
	if service == "" {
		return origin.Keys{}, keyserver.ErrUnknown
	}
	if c.State == record.ClusterRevoked {
		return origin.Keys{}, keyserver.ErrUnknown
	}
	kv, ok := view.KV(record.DesiredServiceKey(o.cluster.ID, service))
	if !ok {
		return origin.Keys{}, keyserver.ErrUnknown
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		return origin.Keys{}, err
	}
	if d.UID != uid || d.Intent != record.IntentApply {
		return origin.Keys{}, keyserver.ErrUnknown
	}
	def, err := o.definitions.Open(ctx, service, d)
	if err != nil {
		return origin.Keys{}, err
	}
	if def == nil || def.Storage == nil {
		return origin.Keys{}, keyserver.ErrUnknown
	}
	give, err := o.asking.Take(ctx, share.Tenant{Account: d.Owner, Federation: d.Federation}, 0)
	if err != nil {
		return origin.Keys{}, fmt.Errorf("too many jobs of %s wait for keys: %w", d.Owner, err)
	}
	defer give()
	return o.ownersKeys(ctx, d, def.Storage)
}

// maxAsking is how many of OSCAR's questions are answered at a time: fewer than a keyserver.Server takes, so that
// those of one user that wait for an origin leave room for others.
const maxAsking = keyserver.DefaultConcurrent * 3 / 4

// speaksFor is the service that a token speaks for, and its life; empty for none. Hashes
// are compared, so that the time which that takes tells nothing of any token.
func speaksFor(view *store.MirrorView, cluster, token string, inUse *tokensInUse) (service, uid string) {
	mark := record.Mark(token)
	for kv := range view.Prefix(record.DesiredServicesPrefix(cluster)) {
		// Most are not even decoded.
		if !bytes.Contains(kv.Value, []byte(mark)) {
			continue
		}
		d, err := store.Decode[record.Desired](kv)
		if err == nil && subtle.ConstantTimeCompare([]byte(d.Mark), []byte(mark)) == 1 {
			service, uid = record.ParseKey(kv.Key).Name, d.UID
		}
	}
	if service != "" {
		return service, uid
	}
	return inUse.whose(sha256.Sum256([]byte(token)))
}

// tokensInUse are the access tokens that jobs are being posted with, by their hash. It is safe
// for concurrent use.
type tokensInUse struct {
	mu sync.Mutex
	of map[[sha256.Size]byte]*tokenInUse
}

// tokenInUse is one token, in use by count POSTs at once.
type tokenInUse struct {
	service, uid string
	keys         KeysOf
	count        int
}

func newTokensInUse() *tokensInUse { return &tokensInUse{of: map[[sha256.Size]byte]*tokenInUse{}} }

// begin notes that a token is used for a POST, until end is called. It is false when the
// token is in use for a service with other keys: its bearer could then be either service.
func (l *tokensInUse) begin(token, service, uid string, keys KeysOf) (end func(), ok bool) {
	sum := sha256.Sum256([]byte(token))
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.of[sum]
	if in == nil {
		in = &tokenInUse{service: service, uid: uid, keys: keys}
		l.of[sum] = in
	}
	if in.keys != keys {
		return nil, false
	}
	// The last one counts: the one before may be gone by now, and the keys are the same.
	in.service, in.uid = service, uid
	in.count++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if in.count--; in.count == 0 {
			delete(l.of, sum)
		}
	}), true
}

func (l *tokensInUse) whose(sum [sha256.Size]byte) (service, uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for known, in := range l.of {
		if subtle.ConstantTimeCompare(sum[:], known[:]) == 1 {
			service, uid = in.service, in.uid
		}
	}
	return service, uid
}
