package request

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// use is the kind of data that bytes of an account hold.
type use uint8

const (
	useFederations use = iota
	useParts
	useDesired
	useHistory
	useDeleted
	useJobs
	useRequests
	useAudit
	uses
)

// budgeted are the uses that count against an account's budget: the audit has bounds of its own.
const budgeted = useAudit

// ofDefinitions says whether a use is by definitions, which etcd keeps for a while after they are
// deleted.
func (w use) ofDefinitions() bool { return w < useJobs }

// definitions are the bytes of definitions and their history.
func (a *account) definitions() (sum int64) {
	for w := range useJobs {
		sum += a.live[w]
	}
	return sum
}

// usage counts the bytes of the store that each account has. It receives every change, in
// order, and keeps a number for each key and account, so the count is the same on every
// instance and after a restart.
type usage struct {
	mu       sync.Mutex
	seed     maphash.Seed
	now      func() time.Time
	history  time.Duration
	keys     map[uint64]counted
	accounts map[string]*account
	// bySubject has the accounts whose subject is known: it spares the hash of the subject.
	bySubject map[string]*account
}

// counted is one key.
type counted struct {
	of    *account
	bytes uint32
	use   use
}

// account is one user, identified by the digits at the beginning of his requests' hashes.
type account struct {
	// subject is empty as long as only requests of the account are known.
	subject string
	live    [uses]int64
	// freed has the bytes of definitions that were deleted or overwritten: etcd keeps them
	// until its history is compacted. It has only those that this process has seen.
	freed []freedBytes
	// pending counts the bytes of writes under way.
	pending int64
}

type freedBytes struct {
	until time.Time
	bytes int64
}

func newUsage(now func() time.Time, history time.Duration) *usage {
	if history <= 0 {
		history = defaultHistory
	}
	return &usage{seed: maphash.MakeSeed(), now: now, history: history, keys: map[uint64]counted{}, accounts: map[string]*account{}, bySubject: map[string]*account{}}
}

// defaultHistory is how long deleted bytes count when etcd's retention is not configured.
const defaultHistory = 30 * time.Minute

// Listed implements store.Tap.
func (u *usage) Listed(kvs []store.KV) {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.keys)
	for _, a := range u.accounts {
		a.live = [uses]int64{}
	}
	for _, jobs := range []bool{true, false} { // what belongs to a job is known by the job
		for _, kv := range kvs {
			if ref := record.ParseKey(kv.Key); (ref.Kind == record.KindJob) == jobs {
				u.count(ref, kv)
			}
		}
	}
}

// Changed implements store.Tap.
func (u *usage) Changed(kv store.KV, deleted bool) {
	ref := record.ParseKey(kv.Key)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(kv.Key)
	if !deleted {
		u.count(ref, kv)
	}
}

// drop needs mu.
func (u *usage) drop(key string) {
	id := maphash.String(u.seed, key)
	c, ok := u.keys[id]
	if !ok {
		return
	}
	delete(u.keys, id)
	c.of.live[c.use] -= int64(c.bytes)
	if c.use.ofDefinitions() {
		c.of.free(int64(c.bytes), u.now().Add(u.history))
	}
}

// count needs mu.
func (u *usage) count(ref record.Ref, kv store.KV) {
	var of *account
	what, owned := ownedUse(ref.Kind)
	switch ref.Kind {
	case record.KindRequest:
		if digits, ok := requestOwner(kv.Key); ok {
			of, what = u.of(digits), useRequests
		}
	case record.KindJob:
		if s, err := store.Decode[subjects](kv); err == nil {
			of, what = u.account(view.AccountOf(&record.Job{Owner: s.Owner, By: s.By})), useJobs
		}
	case record.KindEvent, record.KindAssignedEvent, record.KindDecision:
		if c, ok := u.keys[maphash.String(u.seed, record.JobKey(ref.Name))]; ok {
			of, what = c.of, useJobs
		}
	case record.KindAudit:
		if s, err := store.Decode[subjects](kv); err == nil {
			of, what = u.account(cmp.Or(s.By, identity.Admin)), useAudit
		}
	default:
		if owned {
			of = u.account(ownerIn(kv.Value))
		}
	}
	if of == nil {
		return
	}
	size := len(kv.Key) + len(kv.Value)
	of.live[what] += int64(size)
	u.keys[maphash.String(u.seed, kv.Key)] = counted{of: of, bytes: uint32(min(size, 1<<31)), use: what}
}

// subjects is the part of a job's or an audit entry's record that says whose it is. Only this part
// is decoded: count runs under the mirror's lock.
type subjects struct {
	Owner string `json:"owner"`
	By    string `json:"by"`
}

// ownedUse is what a record that names its owner is used for; false for any other record.
func ownedUse(kind record.Kind) (use, bool) {
	switch kind {
	case record.KindFederation:
		return useFederations, true
	case record.KindPart:
		return useParts, true
	case record.KindSpec, record.KindDesiredService:
		return useDesired, true
	case record.KindHistory, record.KindSecrets:
		return useHistory, true
	case record.KindDeleted:
		return useDeleted, true
	default:
		return 0, false
	}
}

func (u *usage) account(subject string) *account {
	if subject == "" {
		return nil
	}
	if a := u.bySubject[subject]; a != nil {
		return a
	}
	a := u.of(ownerOfRequest(subject))
	a.subject = strings.Clone(subject)
	u.bySubject[a.subject] = a
	return a
}

func (u *usage) of(digits string) *account {
	a := u.accounts[digits]
	if a == nil {
		a = &account{}
		u.accounts[string([]byte(digits))] = a
	}
	return a
}

// free records deleted bytes. Those of one minute are added up.
func (a *account) free(n int64, until time.Time) {
	if last := len(a.freed) - 1; last >= 0 && until.Sub(a.freed[last].until) < time.Minute {
		a.freed[last].bytes += n
		return
	}
	a.freed = append(a.freed, freedBytes{until, n})
}

// used are the bytes that count against the budget, besides those that were deleted.
func (a *account) used() int64 {
	sum := a.pending
	for w := range budgeted {
		sum += a.live[w]
	}
	return sum
}

func (a *account) stillFreed(now time.Time) int64 {
	for len(a.freed) > 0 && now.After(a.freed[0].until) {
		a.freed = a.freed[1:]
	}
	var sum int64
	for _, f := range a.freed {
		sum += f.bytes
	}
	return sum
}

// ownerIn reads the owner at the beginning of a record, which may be large.
func ownerIn(value []byte) string {
	const most = 64 // tokens
	dec, isOwner := json.NewDecoder(bytes.NewReader(value)), false
	for range most {
		token, err := dec.Token()
		if err != nil {
			return ""
		}
		word, _ := token.(string)
		if isOwner {
			return word
		}
		isOwner = word == "owner"
	}
	return ""
}

// budget is how many bytes an account may have.
func (c *Controller) budget() int64 {
	if c.cfg.BytesPerUser > 0 {
		return c.cfg.BytesPerUser
	}
	if quota := c.gate.Quota(); quota > 0 {
		return max(quota/8, minBudget)
	}
	return defaultBudget
}

const (
	minBudget     = 64 << 20
	defaultBudget = 512 << 20
)

// spend refuses a write that would exceed an account's budget. Otherwise the bytes count from
// now until release; after that the store's own count has them. The administrator has no
// budget.
func (c *Controller) spend(caller identity.Caller, subject string, size int64) (release func(), err error) {
	if caller.Administrator || subject == identity.Admin || subject == "" {
		return func() {}, nil
	}
	most, u := c.budget(), c.counters.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.account(subject)
	freed := a.stillFreed(u.now())
	used := a.used() + freed
	if used+size > most {
		return nil, &fault.Error{Code: fault.CodeExhausted, RetryAfter: retryBudget, Message: fmt.Sprintf(
			"nothing was changed: this needs %s in etcd, and of the %s that %s may have (--bytes-per-user) %s are used: "+
				"%s by definitions and their history, %s by jobs, %s by requests with an Idempotency-Key, %s by writes under way, "+
				"%s by what was deleted or replaced in the last %s; delete services or wait",
			gate.MiB(size), gate.MiB(most), subject, gate.MiB(used),
			gate.MiB(a.definitions()), gate.MiB(a.live[useJobs]), gate.MiB(a.live[useRequests]), gate.MiB(a.pending), gate.MiB(freed), u.history)}
	}
	a.pending += size
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		a.pending -= size
	}), nil
}

// retryBudget is the pause that is asked of an account that has used its bytes.
const retryBudget = time.Minute
