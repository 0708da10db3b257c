package guard

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/oscarfed/oscarfed/store/record"
)

// etcd gives leases to every client that can connect, as many as it asks for and without checking
// rights, and lets every client end those that have no keys. Each costs memory, and disk, until it
// ends. These are the limits of one user; a syncer holds one lease, of 30 s.
const (
	maxLeases = 100
	// maxLeaseTTL in seconds.
	maxLeaseTTL = 3600
	// leaseRate per second, and how many at once after a pause.
	leaseRate, leaseBurst = 1, 60
	// leaseGrace is how long after its time a lease is still counted: etcd begins the
	// time anew at an election.
	leaseGrace = 30 * time.Second
	// leaseTries is how many numbers are tried for one lease.
	leaseTries = 3
)

// leases are those of one user. What was given before a restart, or at another instance,
// is not counted; it ends within maxLeaseTTL unless it is kept alive.
type leases struct {
	pace *rate.Limiter
	// ends tells when each is not counted any more.
	ends map[int64]time.Time
	// asked counts requests that are not answered yet.
	asked int
}

func newLeases() leases {
	return leases{pace: rate.NewLimiter(leaseRate, leaseBurst), ends: map[int64]time.Time{}}
}

// leaseOf makes the number of a lease: 31 random bits, and a mark of 32 bits that tells its user
// to processes with the key.
func (g *Guard) leaseOf(user string) int64 {
	var random [4]byte
	_, _ = rand.Read(random[:]) // it never fails
	random[0] &= 0x7f           // numbers of leases are positive
	return g.mark(user, int64(binary.BigEndian.Uint32(random[:])))
}

// mark is the number of a lease of a user with given random bits.
func (g *Guard) mark(user string, random int64) int64 {
	mac := hmac.New(sha256.New, g.cfg.LeaseKey)
	fmt.Fprintf(mac, "%08x %s", random, user)
	return random<<32 | int64(binary.BigEndian.Uint32(mac.Sum(nil)))
}

// marked says whether the number of a lease was made for a user.
func (g *Guard) marked(user string, id int64) bool { return id > 0 && g.mark(user, id>>32) == id }

// owns refuses everything that is done to another user's lease, with the words of a lease that
// does not exist. One that carries no mark, since it was given before there were any, is told by
// its key: the session of the user's own cluster.
func (c *call) owns(ctx context.Context, id int64) error {
	if c.marked(c.user.name, id) {
		return nil
	}
	cluster := c.user.name
	if i := strings.LastIndexByte(cluster, '.'); i > 0 {
		cluster = cluster[:i]
	}
	release, err := c.build(ctx, keysOfLease)
	if err != nil {
		return err
	}
	defer release()
	keys, err := c.cfg.Etcd.LeaseKeys(ctx, c.user.name, id)
	if err != nil || len(keys) != 1 || keys[0] != record.SessionKey(cluster) {
		c.cfg.OnRefusal(c.user.name, "lease")
		return rpctypes.ErrGRPCLeaseNotFound
	}
	return nil
}

// grant asks etcd for a lease whose number tells whose it is. The number that its client
// wished for is not taken: clients read it from the answer.
func (c *call) grant(ctx context.Context, r *pb.LeaseGrantRequest) (any, error) {
	if err := c.takeLease(ctx, r.TTL); err != nil {
		c.cfg.OnLease(c.user.name, false)
		return nil, err
	}
	var resp any
	var err error
	for range leaseTries {
		own := proto.CloneOf(r)
		own.ID = c.leaseOf(c.user.name)
		resp, err = c.next(ctx, own)
		if !errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist) {
			break
		}
	}
	given, _ := resp.(*pb.LeaseGrantResponse)
	c.user.mu.Lock()
	c.user.leases.asked--
	c.user.mu.Unlock()
	if err == nil && given != nil {
		c.user.renewed(given.ID, given.TTL)
	}
	c.cfg.OnLease(c.user.name, err == nil)
	return resp, err
}

// takeLease takes a place for one more lease.
func (c *call) takeLease(ctx context.Context, ttl int64) error {
	if ttl > maxLeaseTTL {
		return rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	if !c.cfg.Etcd.Known(ctx, c.user.name) {
		return rpctypes.ErrGRPCPermissionDenied
	}
	u := c.user
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for id, end := range u.leases.ends {
		if now.After(end) {
			delete(u.leases.ends, id)
		}
	}
	if !u.leases.pace.Allow() || len(u.leases.ends)+u.leases.asked >= maxLeases {
		return c.tooMany("leases")
	}
	u.leases.asked++
	return nil
}

// renewed counts a lease for its time from now.
func (u *user) renewed(id, ttl int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.leases.ends[id] = time.Now().Add(time.Duration(ttl)*time.Second + leaseGrace)
}

func (c *call) revoke(ctx context.Context, r *pb.LeaseRevokeRequest) (any, error) {
	if err := c.owns(ctx, r.ID); err != nil {
		return nil, err
	}
	resp, err := c.next(ctx, r)
	if err == nil {
		c.user.mu.Lock()
		delete(c.user.leases.ends, r.ID)
		c.user.mu.Unlock()
	}
	return resp, err
}
