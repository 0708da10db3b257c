// Package pki owns certificates: the authority whose clients etcd lets in, what it signs, and files of
// certificates and of authorities that are read again when they change. It knows nothing of clusters; its
// callers decide which client may have which name.
package pki
