// Package pki owns certificates: the authority whose clients etcd lets in, what it signs, and
// certificate files that are read again when they change. It knows nothing of clusters; its
// callers decide which client may have which name.
package pki
