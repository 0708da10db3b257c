package storetest

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Compact makes a server forget its history up to a revision.
func Compact(t testing.TB, endpoint string, revision int64) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}
