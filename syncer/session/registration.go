package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A cluster that was removed and registered again is another one, with a new uid. The syncer
// remembers the uid of the first registration that it served, and serves no other. So a machine
// that returns after its id was given to another cluster changes nothing, and does not replace
// the syncer of that cluster.

// ErrNotRegistered says that there is no registration of this cluster: nothing is
// reported, and no session is held.
var ErrNotRegistered = errors.New("the cluster is not registered; it is waited for")

// ErrOtherCluster says that the cluster's id belongs to another registration than
// the one that this syncer is for.
var ErrOtherCluster = errors.New("the cluster's id belongs to another registration now")

// registered is desired/cluster as a view has it; nil when it is absent.
func (c *Cluster) registered(kv store.KV, ok bool) (*record.DesiredCluster, error) {
	if !ok {
		return nil, ErrNotRegistered
	}
	reg, err := store.Decode[record.DesiredCluster](kv)
	if err == nil && !keepable(reg.UID) {
		// It is no registration: neither the first registration that is met, nor another one.
		return nil, fmt.Errorf("%w: the one that there is has no uid", ErrNotRegistered)
	}
	if err != nil {
		return reg, err
	}
	if why := reg.Minimum.Refuses(c.Forms); why != nil {
		err := fmt.Errorf("%w: %w", ErrOutdated, why)
		c.Store.Refuse(err)
		return nil, err
	}
	return reg, nil
}

// ErrOutdated says that this version is too old for the store: it writes nothing more,
// and ends.
var ErrOutdated = errors.New("this syncer is too old")

// Serves says whether desired/cluster, as it was read, is of our registration.
func (c *Cluster) Serves(kv store.KV, ok bool) (*record.DesiredCluster, error) {
	reg, err := c.registered(kv, ok)
	if err != nil {
		return nil, err
	}
	if c.UID() != reg.UID {
		return nil, ErrOtherCluster
	}
	return reg, nil
}

// Enter waits until the cluster has a registration that this syncer serves: the remembered one, the
// first one, or one that it was told to accept. It calls served at each check with the result.
func (c *Cluster) Enter(ctx context.Context, served func(bool)) error {
	known, err := c.Memory.Load()
	if err != nil {
		return fmt.Errorf("the memory of the cluster's uid: %w", err)
	}
	if known != "" {
		c.own.Store(&known)
	}
	feed := c.Mirror.Feed()
	defer feed.Close()
	told := ""
	for {
		if _, err := feed.Next(ctx); err != nil {
			return err
		}
		kv, ok := c.Mirror.Snapshot().KV(record.DesiredClusterKey(c.ID))
		reg, err := c.registered(kv, ok)
		if err == nil {
			err = c.accept(reg)
		}
		served(err == nil)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrNotRegistered) && !errors.Is(err, ErrOtherCluster) {
			return err // it may pass by itself
		}
		if told != err.Error() {
			told = err.Error()
			c.Log.Warn("syncer waits: nothing is read from or written to OSCAR", "reason", err)
		}
		if errors.Is(err, ErrOtherCluster) && reg.State != record.ClusterRemoved {
			if err := c.reportOther(ctx); err != nil && ctx.Err() == nil {
				c.Log.Warn("the report that the registration is another one was not written", "error", err)
			}
		}
	}
}

// accept decides about a registration, and remembers it.
func (c *Cluster) accept(reg *record.DesiredCluster) error {
	switch own := c.UID(); own {
	case reg.UID:
		return nil
	case "":
		c.Log.Info("first registration met; it is remembered", "cluster_uid", reg.UID)
	default:
		if c.AcceptUID != reg.UID {
			return fmt.Errorf("%w: if this machine is meant, start the syncer with --accept-cluster-uid=%s; it served %s", ErrOtherCluster, reg.UID, own)
		}
		c.Log.Warn("another registration is accepted, as ordered", "cluster_uid", reg.UID, "before", own)
	}
	if err := c.Memory.Save(reg.UID); err != nil {
		return fmt.Errorf("remember the cluster's uid: %w", err)
	}
	uid := reg.UID
	c.own.Store(&uid)
	return nil
}

// reportOther reports in observed/cluster that a syncer of another registration waits here. It does so
// only as long as no other syncer has ever connected. It holds no session.
func (c *Cluster) reportOther(ctx context.Context) error {
	session, key := record.SessionKey(c.ID), record.ObservedClusterKey(c.ID)
	desired := record.DesiredClusterKey(c.ID)
	_, err := c.Store.Update(ctx, store.Update{
		Keys: []string{session, key, desired},
		Build: func(v store.View, tx *store.Txn) error {
			_, taken := v.KV(session)
			if _, registered := v.KV(desired); taken || !registered {
				return nil
			}
			if kv, ok := v.KV(key); ok {
				known, err := store.Decode[record.ObservedCluster](kv)
				if err != nil || known.Recipient != "" {
					return err
				}
			}
			tx.Expect(session)
			tx.Expect(key)
			tx.Expect(desired)
			tx.Put(key, record.ObservedCluster{V: record.Version, Reason: record.ReasonOtherRegistration})
			return nil
		},
	})
	return err
}
