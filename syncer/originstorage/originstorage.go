package originstorage

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// Keys are the owners' keys of other clusters' MinIOs, as long as the process lives:
// OSCAR's users start jobs also while etcd is away.
type Keys struct {
	cluster     *session.Cluster
	client      Client
	definitions *definition.Cache
	tokens      *ownertoken.Process
	keys        *keyring
	// inUse are the access tokens by which OSCAR may ask for keys now.
	inUse *tokensInUse
	// asking are the questions of OSCAR that are being answered.
	asking *share.Slots
}

// NewKeys asks client for keys; nil where jobs use the storage of their own cluster.
func NewKeys(cluster *session.Cluster, client Client, definitions *definition.Cache, tokens *ownertoken.Process) *Keys {
	return &Keys{cluster: cluster, client: client, definitions: definitions, tokens: tokens, keys: newKeyring(cluster.Now), inUse: newTokensInUse(),
		asking: share.New(maxAsking, 0)}
}

// Open lets calls begin, until ctx ends.
func (o *Keys) Open(ctx context.Context) { o.keys.open(ctx) }

// Close waits for the calls under way; what bounds them must have ended.
func (o *Keys) Close() { o.keys.close() }

// Watch looks from time to time whether the storage of origins can be used, for one
// session, and reports what it finds.
type Watch struct {
	session *session.Session
	process *Keys
	// period is how often it looks, and busy says whether jobs run at a service: then it
	// looks more often.
	period time.Duration
	busy   func(service string) bool
	looks  *looks
	alive  *minios
}

// NewWatch starts nothing. Calls that are shared end with run.
func NewWatch(run context.Context, now *session.Session, process *Keys, period time.Duration, busy func(service string) bool) *Watch {
	t := &Watch{session: now, process: process, period: period, busy: busy, looks: newLooks()}
	t.looks.queue = worker.New(worker.Config[string]{
		Handle: t.look, Goroutines: lookers, MinBackoff: lookRest, MaxBackoff: lookRest,
		OnError: func(service string, err error) {
			now.Log.Warn("the storage of the origin is looked at again", "service", service, "error", err)
		},
	})
	if t.enabled() {
		t.alive = newMinios(run, now.Now, process.client.Alive)
	}
	return t
}

// enabled says whether the storage of origins is used at all.
func (t *Watch) enabled() bool { return t.process.client != nil }

// Run looks until ctx ends.
func (t *Watch) Run(ctx context.Context) {
	if !t.enabled() {
		return
	}
	t.looks.queue.Run(ctx)
	t.alive.wait()
}

// BeginUse notes that an access token is used for a POST, until end is called: OSCAR may ask for
// keys with it meanwhile. It is false when the token is in use for a service with other keys.
func (o *Keys) BeginUse(token, service, uid string, keys KeysOf) (end func(), ok bool) {
	return o.inUse.begin(token, service, uid, keys)
}
