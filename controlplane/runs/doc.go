// Package runs has the use cases that go through the streams of syncers and not through
// etcd: invocations, restarts, logs of jobs, what a user has at an OSCAR (keys, buckets, volumes,
// quotas, usage), and what clusters would vote. Without a stream an invocation goes to the
// registered address of the cluster.
package runs
