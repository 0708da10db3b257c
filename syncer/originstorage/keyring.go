package originstorage

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/origin"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
)

// Client are asked for owners' keys and whether a MinIO answers; *origin.Client is one.
// Every call has a deadline of its own.
type Client interface {
	Keys(ctx context.Context, a origin.Ask) (origin.Keys, error)
	Alive(ctx context.Context, endpoint string, verify bool) error
}

// fetchTimeout ends one try to get keys, the wait for a token included.
const fetchTimeout = 40 * time.Second

// KeysOf says whose keys, and of what. All that the definition says of the place counts: keys are
// given with the region, and one address of the origin's OSCAR may be dead while another answers.
type KeysOf struct {
	owner string
	at    record.OriginStorage
}

// keyring keeps the owners' keys of other clusters' MinIOs, in memory alone. They outlive
// a session: they are good while etcd is away. It is safe for concurrent use.
type keyring struct {
	now func() time.Time

	mu sync.Mutex
	of map[KeysOf]*keptKeys
	// run bounds the calls, which outlive the callers that wait for them; nil before Run.
	run   context.Context
	calls sync.WaitGroup
}

// keptKeys are one owner's; got is zero without.
type keptKeys struct {
	keys       origin.Keys
	got, tried time.Time
	// err is how the last try failed; nil when it did not.
	err     error
	doubted bool
	// flight is the try under way, or nil.
	flight *keysFlight
}

// keysFlight is one try.
type keysFlight struct {
	done chan struct{}
	keys origin.Keys
	err  error
}

func newKeyring(now func() time.Time) *keyring {
	return &keyring{now: now, of: map[KeysOf]*keptKeys{}}
}

// open lets calls begin, until ctx ends.
func (k *keyring) open(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.run = ctx
}

// close waits for the calls under way; what bounds them must have ended.
func (k *keyring) close() {
	k.mu.Lock()
	k.run = nil
	k.mu.Unlock()
	k.calls.Wait()
}

// get gives an owner's keys: those that are kept, or what fetch gets. Of many that want
// the same one asks.
func (k *keyring) get(ctx context.Context, of KeysOf, fetch func(context.Context) (origin.Keys, error)) (origin.Keys, error) {
	k.mu.Lock()
	kept := k.of[of]
	if kept == nil {
		kept = &keptKeys{}
		k.of[of] = kept
	}
	use := useKeys(kept.got, kept.tried, kept.doubted, k.now())
	keys, err, flight := kept.keys, kept.err, kept.flight
	if flight == nil && (use == keysStale || use == keysMissing) {
		flight = k.begin(kept, fetch)
	}
	k.mu.Unlock()
	switch {
	case use == keysGood || use == keysStale:
		return keys, nil
	case flight == nil && err == nil:
		return origin.Keys{}, ownertoken.ErrNoSession
	case flight == nil:
		return origin.Keys{}, err
	}
	select {
	case <-flight.done:
		return flight.keys, flight.err
	case <-ctx.Done():
		return origin.Keys{}, context.Cause(ctx)
	}
}

// begin needs mu; nil when no call may begin.
func (k *keyring) begin(kept *keptKeys, fetch func(context.Context) (origin.Keys, error)) *keysFlight {
	if k.run == nil || k.run.Err() != nil {
		return nil
	}
	f, run := &keysFlight{done: make(chan struct{})}, k.run
	kept.flight = f
	k.calls.Go(func() {
		ctx, cancel := context.WithTimeout(run, fetchTimeout)
		defer cancel()
		f.keys, f.err = fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		kept.flight, kept.tried, kept.err = nil, k.now(), f.err
		if f.err != nil {
			f.keys = origin.Keys{}
		} else {
			kept.keys, kept.got, kept.doubted = f.keys, kept.tried, false
		}
		close(f.done)
	})
	return f
}

// doubt has keys got anew at their next use that are at least as old as age.
func (k *keyring) doubt(of KeysOf, age time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kept := k.of[of]; kept != nil && k.now().Sub(kept.got) >= age {
		kept.doubted = true
	}
}

// keep forgets the keys that no service uses.
func (k *keyring) keep(used map[KeysOf]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.of, func(of KeysOf, kept *keptKeys) bool { return !used[of] && kept.flight == nil })
}

// KeysFor says which keys the jobs of a service need.
func KeysFor(d *record.Desired, at *definition.Storage) KeysOf {
	return KeysOf{owner: d.Owner, at: at.OriginStorage}
}

// ownersKeys are those of a service's owner at the storage that its jobs use. An error is a
// *NoTokenError, an *origin.Error, or says nothing about either.
func (o *Keys) ownersKeys(ctx context.Context, d *record.Desired, at *definition.Storage) (origin.Keys, error) {
	if !definition.UsersService(d) {
		// It would be answered MinIO's root keys.
		return origin.Keys{}, &origin.Error{Kind: origin.Refused, Message: "the administrator's keys of a MinIO never leave its cluster"}
	}
	return o.keys.get(ctx, KeysFor(d, at), func(ctx context.Context) (origin.Keys, error) { return o.fetchKeys(ctx, d, at) })
}

func (o *Keys) fetchKeys(ctx context.Context, d *record.Desired, at *definition.Storage) (origin.Keys, error) {
	token, err := o.tokens.Await(ctx, d)
	if err != nil {
		return origin.Keys{}, err
	}
	keys, err := o.client.Keys(ctx, origin.Ask{
		Owner: d.Owner, Token: string(token.Value), Cluster: at.ClusterID, Endpoint: at.Endpoint, SSLVerify: at.SSLVerify, MinIO: at.MinioEndpoint,
	})
	if err != nil {
		o.cluster.Log.Warn("the owner's keys of the origin's MinIO were not got", "origin", at.ClusterID, "federation", d.Federation, "error", err)
		return origin.Keys{}, err
	}
	if keys.AccessKey != d.Owner { // another MinIO may have answered
		return origin.Keys{}, &origin.Error{Kind: origin.Wrong, Message: "keys were given that are not the owner's; they are not used"}
	}
	// The certificate is that of the service's definition to judge, not the answer's.
	keys.Endpoint, keys.Region, keys.Verify = at.MinioEndpoint, at.MinioRegion, at.MinioVerify
	return keys, nil
}
