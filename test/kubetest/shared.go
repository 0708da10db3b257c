package kubetest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is the one cluster of a package's tests. The zero value has no controllers.
type Shared struct {
	Config Config

	start   sync.Once
	cluster *Cluster
	err     error
}

// Main runs the tests, stops the cluster if there is one, and returns the exit status.
func (s *Shared) Main(m interface{ Run() int }) int {
	status := m.Run()
	if s.cluster == nil {
		return status
	}
	if err := s.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "kubetest:", err)
		return max(status, 1)
	}
	return status
}

// Cluster gives the cluster, started. Without the programs the test fails, and says
// what to run.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	s.start.Do(func() { s.cluster, s.err = Start(s.Config) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}
