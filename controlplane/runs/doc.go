// Package runs has the use cases that go through the streams of syncers and not through
// etcd: the invocation that waits for its answer, the logs of jobs, and a user's keys of a
// cluster's storage.
package runs
