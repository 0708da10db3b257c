package storetest

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
)

// Compact makes a server forget its history up to a revision.
func Compact(t testing.TB, as store.Config, revision int64) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: as.Endpoints, DialOptions: as.DialOptions})
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
