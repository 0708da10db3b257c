package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/store"
)

// ErrStale says that a record has changed since the plan was made: plan again.
var ErrStale = errors.New("the desired record has changed")

// ErrLost ends the work of one session; the next session begins another one.
var ErrLost = errors.New("the session was lost")

// ErrNotLeading says that the Lease of this OSCAR was not renewed in time. It is no
// lost session: when Kubernetes answers again, either we go on or the session ends.
var ErrNotLeading = errors.New("the Lease of this OSCAR is not ours at this moment: nothing is written")

// Session is one session of the syncer. All fields are set before it is used, and not
// changed.
type Session struct {
	*Cluster
	// Lease is the session in etcd, and TTL how long it outlives a silent syncer.
	Lease *store.Session
	TTL   time.Duration
	// Leads says whether this syncer holds the Lease in the Kubernetes of its OSCAR.
	Leads   func() bool
	Started time.Time
	// Lose ends the session, with its cause.
	Lose context.CancelCauseFunc
}

// LoseIfOver ends the session when an error says that it is over.
func (s *Session) LoseIfOver(err error) (over bool) {
	switch {
	case errors.Is(err, store.ErrSessionLost):
		s.Lose(ErrLost)
		return true
	case errors.Is(err, ErrNotRegistered), errors.Is(err, ErrOtherCluster):
		s.Lose(err)
		return true
	}
	return false
}

// ReadIsGoodUntil is how long what is read from now on may be acted on, by our own clock.
func (s *Session) ReadIsGoodUntil() time.Time { return s.Now().Add(s.TTL / 3) }

// Writable is the last check before a call that changes something: the Lease is ours, what
// was read is good until then (ReadIsGoodUntil), and the session is ours, all by our own clock.
func (s *Session) Writable(until time.Time) error {
	if !s.Leads() {
		return ErrNotLeading
	}
	if s.Now().After(until) || !s.Lease.Alive() {
		return fmt.Errorf("%w: too much time has passed since it was read", ErrStale)
	}
	return nil
}

// Holds says whether a linearizable read has shown the session to be ours.
func (s *Session) Holds(kv store.KV, ok bool) bool {
	return ok && kv.CreateRevision == s.Lease.CreateRevision()
}
