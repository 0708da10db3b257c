// Package storetest owns etcd servers and stores for tests: started on free
// ports, in temporary folders, and closed with the test.
package storetest
