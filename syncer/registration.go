package syncer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A cluster that was removed and registered again is another one: it has a new uid.
// The syncer remembers the uid of the registration that it met first and serves no
// other, so that a machine that returns under a name which has been given away
// touches nothing and takes nobody's place.

// Memory keeps the uid of the registration that a syncer is for.
type Memory interface {
	// Load gives what was saved last; empty when nothing was.
	Load() (string, error)
	// Save returns when the uid would survive the death of the process.
	Save(uid string) error
}

// MemoryFile is a Memory in a file of this name: one line.
type MemoryFile string

// maxMemory bounds the file in bytes; a uid has 36.
const maxMemory = 256

// Load implements Memory.
func (f MemoryFile) Load() (string, error) {
	data, err := os.ReadFile(string(f))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	uid := strings.TrimSpace(string(data))
	if len(data) > maxMemory || !keepable(uid) {
		return "", fmt.Errorf("%s does not hold the uid of a cluster; restore it, or remove it to meet the registration anew", f)
	}
	return uid, nil
}

// keepable says whether a uid that is saved can be loaded again.
func keepable(uid string) bool {
	return uid != "" && len(uid) < maxMemory && !strings.ContainsFunc(uid, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Save implements Memory.
func (f MemoryFile) Save(uid string) error {
	dir, name := filepath.Split(string(f))
	tmp, err := os.CreateTemp(filepath.Clean(dir), name+".*")
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(uid + "\n")
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), string(f))
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// forgetful is the memory of a syncer that was given none: it lasts as long as the
// process.
type forgetful struct{ uid string }

func (m *forgetful) Load() (string, error) { return m.uid, nil }
func (m *forgetful) Save(uid string) error { m.uid = uid; return nil }

// errNotRegistered says that there is no registration of this cluster: nothing is
// reported, and no session is held.
var errNotRegistered = errors.New("the cluster is not registered; it is waited for")

// errOtherCluster says that the cluster's id belongs to another registration than
// the one that this syncer is for.
var errOtherCluster = errors.New("the cluster's id belongs to another registration now")

// registered is desired/cluster as a view has it; nil when it is absent.
func (s *Syncer) registered(kv store.KV, ok bool) (*record.DesiredCluster, error) {
	if !ok {
		return nil, errNotRegistered
	}
	c, err := store.Decode[record.DesiredCluster](kv)
	if err == nil && !keepable(c.UID) {
		// It is nobody's: neither the first registration that is met, nor another one.
		return nil, fmt.Errorf("%w: the one that there is has no uid", errNotRegistered)
	}
	if err != nil {
		return c, err
	}
	if why := c.Minimum.Refuses(s.cfg.Forms); why != nil {
		err := fmt.Errorf("%w: %w", errOutdated, why)
		s.cfg.Store.Refuse(err)
		return nil, err
	}
	return c, nil
}

// errOutdated says that this version is too old for the store: it writes nothing more,
// and ends.
var errOutdated = errors.New("this syncer is too old")

// serves says whether desired/cluster, as it was read, is of our registration.
func (s *Syncer) serves(kv store.KV, ok bool) (*record.DesiredCluster, error) {
	c, err := s.registered(kv, ok)
	if err != nil {
		return nil, err
	}
	if own := s.own.Load(); own == nil || *own != c.UID {
		return nil, errOtherCluster
	}
	return c, nil
}

// enter waits until the cluster is registered and the registration is ours: the one
// that we remember, the first that we meet, or one that we were told to accept.
func (s *Syncer) enter(ctx context.Context) error {
	known, err := s.cfg.Memory.Load()
	if err != nil {
		return fmt.Errorf("the memory of the cluster's uid: %w", err)
	}
	if known != "" {
		s.own.Store(&known)
	}
	feed := s.mirror.Feed()
	defer feed.Close()
	told := ""
	for {
		if _, err := feed.Next(ctx); err != nil {
			return err
		}
		kv, ok := s.mirror.Snapshot().KV(record.DesiredClusterKey(s.cfg.ClusterID))
		c, err := s.registered(kv, ok)
		if err == nil {
			err = s.accept(c)
		}
		if err == nil {
			s.metrics.registered.Set(1)
			return nil
		}
		s.metrics.registered.Set(0)
		if !errors.Is(err, errNotRegistered) && !errors.Is(err, errOtherCluster) {
			return err // it may pass by itself
		}
		if told != err.Error() {
			told = err.Error()
			s.log.Warn("syncer waits: nothing is read from or written to OSCAR", "reason", err)
		}
		if errors.Is(err, errOtherCluster) && c.State != record.ClusterRemoved {
			if err := s.sayOther(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("the report that the registration is another one was not written", "error", err)
			}
		}
	}
}

// accept decides about a registration, and remembers it.
func (s *Syncer) accept(c *record.DesiredCluster) error {
	own := s.own.Load()
	switch {
	case own != nil && *own == c.UID:
		return nil
	case own == nil:
		s.log.Info("first registration met; it is remembered", "cluster_uid", c.UID)
	case s.cfg.AcceptClusterUID == c.UID:
		s.log.Warn("another registration is accepted, as ordered", "cluster_uid", c.UID, "before", *own)
	default:
		return fmt.Errorf("%w: if this machine is meant, start the syncer with --accept-cluster-uid=%s; it served %s", errOtherCluster, c.UID, *own)
	}
	if err := s.cfg.Memory.Save(c.UID); err != nil {
		return fmt.Errorf("remember the cluster's uid: %w", err)
	}
	uid := c.UID
	s.own.Store(&uid)
	return nil
}

// sayOther tells in observed/cluster that a syncer waits here which is not for this
// registration. It does so only as long as no other has ever connected: it holds
// no session, and takes nobody's place.
func (s *Syncer) sayOther(ctx context.Context) error {
	session, key := record.SessionKey(s.cfg.ClusterID), record.ObservedClusterKey(s.cfg.ClusterID)
	desired := record.DesiredClusterKey(s.cfg.ClusterID)
	_, err := s.cfg.Store.Update(ctx, store.Update{
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
