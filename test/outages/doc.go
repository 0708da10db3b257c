// Package outages breaks one of three control planes, or one of the three members of etcd below them, in
// each way that a machine breaks, and tells what callers see of it, for how long, and which alerts fire.
// Its tests write the table of docs/operations.md.
package outages
