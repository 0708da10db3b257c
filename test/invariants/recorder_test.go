package invariants_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// recorder is a test that is failed without failing the one that it stands in.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *recorder) Logf(string, ...any) {}

// end ends the recorded test and returns why it failed.
func (r *recorder) end() []string {
	for _, fn := range slices.Backward(r.cleanups) {
		fn()
	}
	return r.errors
}

// compact makes a server forget everything before a revision.
func compact(t *testing.T, endpoint string, revision int64) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Compact(t.Context(), revision)
	if err := errors.Join(err, client.Close()); err != nil {
		t.Fatal(err)
	}
}
