// Package pki owns certificates: the authority whose clients etcd lets in, what it
// signs, and certificate files that are read again when they change. It knows
// nothing of clusters; who may have which name is decided by its callers.
package pki
