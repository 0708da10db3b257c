package store

import "time"

// LastHeard is when etcd last said anything on the watch; zero before that.
func (m *Mirror) LastHeard() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastReceived
}
