// Package gateway owns the gateway by which clusters reach an external etcd where sites do
// not trust each other: a server that speaks as much of etcd's protocol as a syncer
// needs, with the limits of package guard. It has no rights of its own: to etcd it is
// each cluster, by a certificate of that name, so etcd's users and roles go on deciding.
package gateway
