// Package ha asks what clients of a highly available federation see: three control planes over
// three members of etcd, whose leader is killed again and again, as is a control plane. It counts
// the accepted writes that are lost, of which there may be none, and the calls that were answered
// in time, which is a figure and fails no test. `make proof-ha` runs it for long.
package ha
