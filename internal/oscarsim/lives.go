package oscarsim

import (
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// Life is one service that a POST has made, whatever became of it.
type Life struct {
	Service, Token string
	// Asked is when the POST came, Made when the service was listed first.
	Asked, Made time.Time
}

// Lives returns every service that a POST has ever made, in the order in which they were made.
func (s *Sim) Lives() []Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal.lives)
}

// born notes a service that a POST has made. The caller holds the lock.
func (s *Sim) born(c *call, svc *wire.Service) {
	s.journal.lives = append(s.journal.lives, Life{Service: svc.Name, Token: svc.Token, Asked: c.came, Made: time.Now()})
}

// Next is closed when the next request of an operation comes in.
func (s *Sim) Next(op Op) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal.next[op] == nil {
		s.journal.next[op] = make(chan struct{})
	}
	return s.journal.next[op]
}

// arrives tells who waits for a request of an operation. The caller holds the lock.
func (j *journal) arrives(op Op) {
	if next := j.next[op]; next != nil {
		close(next)
		delete(j.next, op)
	}
}

// RemoveService deletes a service as its owner does: with Secret, webhook, Jobs and buckets, at
// once. It reports false when there is none.
func (s *Sim) RemoveService(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, e, err := s.kube.read("", name)
	if err != nil || s.kube.deleteService(id) != nil {
		return false
	}
	delete(s.minio.webhooks, name)
	_ = s.minio.deleteBuckets(e.service) // a bucket may be gone already
	return true
}
