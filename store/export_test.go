package store

import "time"

// LastHeard is when etcd was last heard; zero before that.
func (m *Mirror) LastHeard() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heard
}
