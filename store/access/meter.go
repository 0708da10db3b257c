package access

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Limits of what one cluster may write. Zero is no limit.
type Limits struct {
	// Keys that it may have at the same time, and Bytes of them all, names included.
	Keys  int
	Bytes int64
	// Rate of writes, and of their bytes, per second in the long run. After a pause
	// as much is allowed at once as in paceWindow: a cluster that comes back reports
	// on everything that it has.
	Rate, ByteRate float64
}

// DefaultLimits are far from what a syncer with 20,000 services does, which reports
// on each of them with about a kilobyte when it begins anew, and from one whose cluster
// runs 100 jobs a second, with five reports of half a kilobyte on each.
func DefaultLimits() Limits {
	return Limits{Keys: 100_000, Bytes: 256 << 20, Rate: 1000, ByteRate: 1 << 20}
}

// paceWindow is for how long a cluster may have been silent and make up for it. With
// the default rates that is as much at once as it may have.
const paceWindow = 250 * time.Second

// Meter counts what each cluster writes below observed/ and at its session. It is
// told of every change of the store, in order, and is safe for concurrent use.
type Meter struct {
	limits Limits
	now    func() time.Time
	// over is told once that a cluster has passed a limit. It must not block.
	over func(cluster string)

	mu       sync.Mutex
	clusters map[string]*usage
}

// usage is of one cluster.
type usage struct {
	sizes         map[string]int
	bytes         int64
	writes, paced *rate.Limiter
	// passed says which limit, in words; empty for none.
	passed string
}

// NewMeter makes a meter that has counted nothing.
func NewMeter(limits Limits, now func() time.Time, over func(cluster string)) *Meter {
	return &Meter{limits: limits, now: now, over: over, clusters: map[string]*usage{}}
}

// Listed begins anew with what stands. It says nothing of how fast that was written.
func (m *Meter) Listed(kvs []store.KV) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.clusters {
		u.sizes, u.bytes = map[string]int{}, 0
	}
	for _, kv := range kvs {
		if cluster, ok := writerOf(kv.Key); ok {
			m.usage(cluster).put(kv)
		}
	}
	for cluster := range m.clusters {
		m.judge(cluster, "")
	}
}

// Changed counts one change.
func (m *Meter) Changed(kv store.KV, deleted bool) {
	cluster, ok := writerOf(kv.Key)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage(cluster)
	if deleted {
		u.drop(kv.Key)
		return
	}
	u.put(kv)
	now, paced := m.now(), ""
	switch {
	case !u.writes.AllowN(now, 1):
		paced = fmt.Sprintf("it writes more than %g times a second for a long time", m.limits.Rate)
	case !u.paced.AllowN(now, size(kv)):
		paced = fmt.Sprintf("it writes more than %g bytes a second for a long time", m.limits.ByteRate)
	}
	m.judge(cluster, paced)
}

// Passed says which limit a cluster has passed, in words; empty for none.
func (m *Meter) Passed(cluster string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.clusters[cluster]; u != nil {
		return u.passed
	}
	return ""
}

// Forgive forgets what a cluster has written until now, but for what stands.
func (m *Meter) Forgive(cluster string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.clusters[cluster]; u != nil {
		u.writes, u.paced, u.passed = m.pace(m.limits.Rate), m.pace(m.limits.ByteRate), ""
		m.judge(cluster, "")
	}
}

// judge says whether a limit is passed now. It needs mu.
func (m *Meter) judge(cluster, paced string) {
	u := m.clusters[cluster]
	if u.passed != "" {
		return
	}
	switch {
	case m.limits.Keys > 0 && len(u.sizes) > m.limits.Keys:
		u.passed = fmt.Sprintf("it has %d keys, and %d are allowed", len(u.sizes), m.limits.Keys)
	case m.limits.Bytes > 0 && u.bytes > m.limits.Bytes:
		u.passed = fmt.Sprintf("what it has written holds %d bytes, and %d are allowed", u.bytes, m.limits.Bytes)
	default:
		u.passed = paced
	}
	if u.passed != "" {
		m.over(cluster)
	}
}

func (m *Meter) usage(cluster string) *usage {
	u := m.clusters[cluster]
	if u == nil {
		u = &usage{sizes: map[string]int{}, writes: m.pace(m.limits.Rate), paced: m.pace(m.limits.ByteRate)}
		m.clusters[cluster] = u
	}
	return u
}

// pace allows so much a second, and as much at once as in a paceWindow.
func (m *Meter) pace(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond*paceWindow.Seconds())))
}

func (u *usage) put(kv store.KV) {
	u.bytes += int64(size(kv) - u.sizes[kv.Key])
	u.sizes[kv.Key] = size(kv)
}

func (u *usage) drop(key string) {
	u.bytes -= int64(u.sizes[key])
	delete(u.sizes, key)
}

func size(kv store.KV) int { return len(kv.Key) + len(kv.Value) }

// writerOf is the cluster whose syncer writes a key, whatever the key is called.
func writerOf(key string) (cluster string, ok bool) {
	tree, ok := strings.CutPrefix(key, record.ClusterTreePrefix)
	if !ok {
		return "", false
	}
	cluster, rest, _ := strings.Cut(tree, "/")
	return cluster, rest == "session" || strings.HasPrefix(rest, "observed/")
}
