// Package access owns etcd's users and roles: who may read and write what.
//
// A user is the common name of a client certificate; there are no passwords.
//
//	root                       everything; used to set up and to admit clusters
//	oscarfed-control-plane     read and write /oscarfed/v1/
//	<cluster>.<cluster uid>    read c/<cluster>/, write c/<cluster>/observed/ and
//	                           c/<cluster>/session
//
// etcd checks a watch when it is opened and never again: a user that loses a right keeps
// its watches until its connection is cut.
package access
