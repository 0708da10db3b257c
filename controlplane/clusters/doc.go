// Package clusters has the use cases of clusters: register, join, renew, pause, revoke,
// readmit, remove. It keeps etcd's users as the registrations are, and takes the streams of
// syncers that prove who they are.
package clusters
