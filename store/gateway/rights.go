package gateway

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"

	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// unknownUser is the name of a user that etcd does not know.
	unknownUser = "oscarfed-etcd-gateway"
	// looksAtOnce are the users whose rights are asked for at the same time.
	looksAtOnce = 16
	// lookTimeout bounds one question.
	lookTimeout = 5 * time.Second
)

// look asks etcd, as each connected user, whether that user may still read its own keys, and ends
// the connections of users that may not: etcd itself checks the rights of a watch when it is
// opened, and never again.
func (g *Gateway) look(ctx context.Context) {
	tick := time.NewTicker(g.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			g.gate.CutStalled(now)
			g.lookOnce(ctx)
		}
	}
}

func (g *Gateway) lookOnce(ctx context.Context) {
	users := g.gate.Users()
	g.pool.drop(func(user string) bool { return users[user] > 0 || user == unknownUser || user == access.ControlPlane })
	if !g.check(ctx, users) {
		return // connections go on: their requests are answered that etcd is away
	}
	if !g.safe.Load() {
		for user := range users {
			g.gate.Cut(user)
		}
		return
	}
	group := errgroup.Group{}
	group.SetLimit(looksAtOnce)
	for user := range users {
		group.Go(func() error {
			if denied, err := g.deniedOwn(ctx, user); err == nil && denied {
				n := g.gate.Cut(user)
				g.pool.drop(func(other string) bool { return other != user })
				g.cfg.Logger.Info("connections were ended: etcd denies their user what is his", "user", user, "connections", n)
			}
			return nil
		})
	}
	_ = group.Wait() // none has an error
}

// check finds out whether etcd's authentication is on: it is when etcd denies a key that no
// cluster may read. It is asked as a connected user, since etcd logs each request of a user that
// it does not know; only at the start it is asked as one of these. ok is false when etcd cannot be
// asked.
func (g *Gateway) check(ctx context.Context, users map[string]int) (ok bool) {
	probe := unknownUser
	for user := range users {
		probe = user
		break
	}
	if probe == unknownUser && g.safe.Load() {
		return true // no cluster is connected
	}
	denied, err := g.denied(ctx, probe, record.MetaKey)
	if ctx.Err() != nil {
		return false
	}
	g.reached.Store(err == nil)
	switch {
	case err != nil:
		g.cfg.Logger.Warn("etcd cannot be asked", "error", err)
		return false
	case !denied:
		g.safe.Store(false)
		g.cfg.Logger.Error("etcd asks nobody who is calling, so every cluster could do everything: run oscarfed etcd setup first")
	case !g.safe.Swap(true):
		g.cfg.Logger.Info("etcd asks who is calling: clusters are let in")
	}
	return true
}

// deniedOwn says whether a user may not read what is his cluster's.
func (g *Gateway) deniedOwn(ctx context.Context, user string) (bool, error) {
	life, ok := access.LifeOf(user)
	if !ok {
		return true, nil
	}
	return g.denied(ctx, user, record.ClusterPrefix(life.Cluster), clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
}

// denied asks etcd as a user for a key, and says whether it was refused. An error is that
// of an etcd that cannot be asked.
func (g *Gateway) denied(ctx context.Context, user, key string, options ...clientv3.OpOption) (bool, error) {
	client, err := g.pool.as(user)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, err = client.Get(ctx, key, options...)
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok && (e.Code() == codes.PermissionDenied || e.Code() == codes.Unauthenticated ||
		errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrAuthFailed)) {
		return true, nil
	}
	return false, err
}

// Known implements guard.Etcd.
func (g *Gateway) Known(ctx context.Context, user string) bool {
	denied, err := g.deniedOwn(ctx, user)
	return err == nil && !denied
}

// LeaseKeys implements guard.Etcd. etcd tells them only to a user that may read them all.
func (g *Gateway) LeaseKeys(ctx context.Context, user string, id int64) ([]string, error) {
	client, err := g.pool.as(user)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	resp, err := client.TimeToLive(ctx, clientv3.LeaseID(id), clientv3.WithAttachedKeys())
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(resp.Keys))
	for i, key := range resp.Keys {
		keys[i] = string(key)
	}
	return keys, nil
}

// Part implements guard.Etcd: the control plane's user may read it.
func (g *Gateway) Part(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	client, err := g.pool.as(access.ControlPlane)
	if err != nil {
		return nil, unavailable()
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	resp, err := pb.NewKVClient(client.ActiveConnection()).Range(ctx, r)
	return resp, told(err)
}
