// Package clusters has the use cases of clusters: register, join, renew, pause, revoke,
// readmit, remove. It gives etcd's users the rights that follow from the registrations, and takes
// the streams of syncers after it has verified their proofs.
package clusters
