// Package backupfile owns the form of a backup: a tar archive with the snapshot of etcd, as etcdctl
// writes it, and what a restore needs besides: the witness of a control plane, the authority of etcd's
// users, and keys that are sealed for whoever restores. `tar -xf` takes it apart.
package backupfile
