package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// CancelAfterCommit runs do, ends its context as soon as something was committed to the
// store, and returns its error.
func CancelAfterCommit(t testing.TB, st *store.Store, do func(ctx context.Context) error) error {
	t.Helper()
	revision := func() int64 {
		v, err := st.Read(t.Context(), record.MetaKey)
		if err != nil {
			t.Fatal(err)
		}
		return v.Revision
	}
	before := revision()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Minute)
	for revision() == before {
		select {
		case <-tick.C:
		case err := <-done:
			t.Fatalf("it was not written: %v", err)
		case <-late:
			t.Fatal("it was never written")
		}
	}
	end()
	return <-done
}
