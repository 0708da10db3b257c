package storetest

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leader is the endpoint of the member that leads. Members that do not answer are
// passed over; it waits until one that does says that it leads.
func Leader(t testing.TB, endpoints []string) string {
	t.Helper()
	for {
		for _, endpoint := range endpoints {
			if leads(t, endpoint) {
				return endpoint
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("no member leads")
		}
	}
}

func leads(t testing.TB, endpoint string) bool {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	status, err := c.Status(ctx, endpoint)
	return err == nil && status.Header.MemberId == status.Leader
}
